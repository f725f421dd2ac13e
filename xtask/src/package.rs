//! `package`: the program as it is given to people: a static build and a Debian package, which is then installed in a clean root
//! and used there by an ordinary user.
//!
//! Needs root. What the checks are worth is shown by a package whose program loses exit codes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{Failure, Outcome, cargo, output, target};
use crate::root::{Root, SUITE, of};
use crate::tools;

/// Runs on any distribution: nothing of the machine it was built on is needed.
const TARGET: &str = tools::STATIC;

/// Where the package, the manual and the completions are put together.
const PLACE: &str = "target/package";

/// What a user does first.
const QUICK_START: &str = include_str!("package/quick_start.sh");

/// The shells for which there are completions.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Builds, packs, installs and tries it.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    if !arguments.is_empty() {
        return Err(Failure::new("usage: cargo xtask package"));
    }
    let program = build()?;
    let package = pack(&program)?;
    println!("\nin a clean {SUITE}, with {}:", package.display());
    quick_start(&package, "none")?;
    println!("\nthe same with a program that loses exit codes, which must be noticed:");
    match quick_start(&package, "exit-lost") {
        Err(_) => println!("it was noticed"),
        Ok(()) => return Err(Failure::new("the quick start did not notice lost exit codes")),
    }
    Ok(())
}

fn build() -> Result<PathBuf, Failure> {
    cargo(&format!("build --profile dist --package lastword --target {TARGET}"))?;
    let program = target().join(TARGET).join("dist/lastword");
    let size = fs::metadata(&program).map_err(of(&program))?.len();
    let headers = output("readelf", &["--program-headers", &program.to_string_lossy()])?;
    if headers.contains("INTERP") {
        return Err(Failure::new(format!("{} needs a loader: it is not static", program.display())));
    }
    println!("{}: static, {:.1} MB", program.display(), size as f64 / 1e6);
    Ok(program)
}

/// Has the program write its manual and completions, and packs everything.
fn pack(program: &Path) -> Result<PathBuf, Failure> {
    let place = Path::new(PLACE);
    let _ = fs::remove_dir_all(place);
    let manual = place.join("man");
    fs::create_dir_all(&manual).map_err(of(&manual))?;
    let program = program.to_string_lossy();
    output(&program, &["man", "--into", &manual.to_string_lossy()])?;
    for shell in SHELLS {
        let path = place.join(format!("lastword.{shell}"));
        fs::write(&path, output(&program, &["completion", shell])?).map_err(of(&path))?;
    }
    let package = place.join("lastword.deb");
    cargo(&format!(
        "deb --quiet --no-build --no-strip --package lastword --profile dist --target {TARGET} --output {}",
        package.display()
    ))?;
    let size = fs::metadata(&package).map_err(of(&package))?.len();
    println!("{}: {:.1} MB", package.display(), size as f64 / 1e6);
    Ok(package)
}

/// Uses the package in a root of its own.
fn quick_start(package: &Path, bug: &str) -> Outcome {
    let root = Root::fresh()?;
    fs::copy(package, root.at("/lastword.deb")).map_err(of(package))?;
    fs::write(root.at("/quick_start.sh"), QUICK_START).map_err(of(&root.at("/quick_start.sh")))?;
    root.run("", &[], "/", &["sh", "/quick_start.sh", bug])
}
