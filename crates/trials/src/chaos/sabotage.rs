//! `chaos --bugs`: every lie of [`doctored`](super::judge::doctored) is told to the judges, and real runs are sabotaged
//! behind their back. Each must be caught by the judge it is meant for.

use super::judge::doctored;

/// Tells every lie and commits every sabotage.
pub(crate) fn run() -> Result<bool, String> {
    let mut all_caught = true;
    println!("{:<24} {:<64} caught by", "judge", "what was wrong");
    for (judge, what, caught) in doctored::tell() {
        let is_caught = caught.iter().any(|violation| violation.judge == judge);
        all_caught &= is_caught;
        let by: Vec<&str> = caught.iter().map(|violation| violation.judge).collect();
        println!("{judge:<24} {what:<64} {}", if is_caught { by.join(", ") } else { "NOBODY".to_owned() });
    }
    Ok(all_caught)
}
