//! Removes from screens what differs each time: ids, times, durations, pids, the path of the home.

use crate::home::Home;

/// Returns a screen for comparison.
pub(crate) fn plain(home: &Home, text: &str) -> String {
    let mut text = text.to_owned();
    let page = home.json(&["ls", "-a"]);
    let mut jobs = page["items"].as_array().unwrap().clone();
    // In the order of their submission.
    jobs.sort_by_key(|job| job["id"].as_str().unwrap().to_owned());
    for (number, job) in jobs.iter().enumerate() {
        let (id, short) = (job["id"].as_str().unwrap(), job["short"].as_str().unwrap());
        text = text
            .replace(id, &format!("<id {}>", number + 1))
            .replace(short, &format!("<job {}>", number + 1));
    }
    plain_text(home, &text)
}

/// Returns a text without jobs for comparison.
pub(crate) fn plain_text(home: &Home, text: &str) -> String {
    let text = text.replace(&home.path().display().to_string(), "<home>");
    let lines: Vec<String> = text.lines().map(line).filter(|line| line.trim() != SLOW_START).collect();
    lines.join("\n")
}

/// A start that took long enough to be shown, which depends on the machine.
const SLOW_START: &str = "<time>  starting  ░  <took>";

/// Returns one line for comparison.
pub(crate) fn line(line: &str) -> String {
    // Keep configured values; replace measured ones.
    let chosen =
        ["limits", "grace", "retry", "older", "<home>/lw/config"].iter().any(|word| line.contains(word));
    let mut out = String::new();
    let mut word = String::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '_' | '-');
    for c in line.chars().chain(['\n']) {
        if is_part(c) {
            word.push(c);
            continue;
        }
        out.push_str(&shape(&std::mem::take(&mut word), chosen));
        if c != '\n' {
            out.push(c);
        }
    }
    squeeze(&out)
}

fn shape(word: &str, chosen: bool) -> String {
    let core = word.trim_end_matches(['.', ':']);
    let end = &word[core.len()..];
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = core.len() == 8 && core.split(':').count() == 3 && core.split(':').all(digits);
    let is_length = core.starts_with(|c: char| c.is_ascii_digit())
        && ["ms", "s", "m", "h", "d"].iter().any(|unit| core.ends_with(unit))
        && core.chars().all(|c| c.is_ascii_digit() || "msdh.".contains(c));
    match () {
        () if is_time => format!("<time>{end}"),
        () if is_length && !chosen => format!("<took>{end}"),
        () if digits(core) && core.len() > 2 => format!("<n>{end}"),
        () => word.to_owned(),
    }
}

/// Replaces every gap by two spaces and every bar by one mark, because their widths depend on measured values.
fn squeeze(line: &str) -> String {
    let begin = line.len() - line.trim_start().len();
    let (mut out, mut spaces, mut last) = (" ".repeat(begin.min(12)), 0, ' ');
    for c in line[begin..].chars() {
        if c == ' ' {
            spaces += 1;
            continue;
        }
        if spaces > 0 {
            out.push_str(if spaces == 1 { " " } else { "  " });
        }
        let is_bar = matches!(c, '█' | '░' | '▒');
        if !(is_bar && c == last && spaces == 0) {
            out.push(c);
        }
        (spaces, last) = (0, c);
    }
    out
}

#[test]
fn only_measured_values_are_replaced() {
    for (line_, plain) in [
        ("14:03:07  queued    ░░░      12ms", "<time>  queued  ░  <took>"),
        (
            "  14:03:07  running     ████   3m12s  pid 4711 · exit 3",
            "  <time>  running  █  <took>  pid <n> · exit 3",
        ),
        ("  14:03:07  starting  ░░      212ms", "  <time>  starting  ░  <took>"),
        ("limits  wall 2h", "limits  wall 2h"),
        ("build 5 jobs", "build 5 jobs"),
    ] {
        assert_eq!(line(line_), plain);
    }
}
