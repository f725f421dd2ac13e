//! `package`: the program as it is given to people: a static build and a Debian package, which is then installed in a clean root
//! and used there by an ordinary user.
//!
//! Needs root. What the checks are worth is shown by a package whose program loses exit codes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{Failure, Outcome, cargo, output, runs, target};
use crate::tools;

/// Runs on any distribution: nothing of the machine it was built on is needed.
const TARGET: &str = tools::STATIC;

/// The distribution of the clean root.
const SUITE: &str = "bookworm";

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
    let root = clean_root()?;
    println!("\nin a clean {SUITE}, with {}:", package.display());
    quick_start(&root, &package, "none")?;
    println!("\nthe same with a program that loses exit codes, which must be noticed:");
    match quick_start(&root, &package, "exit-lost") {
        Err(_) => println!("it was noticed"),
        Ok(()) => return Err(Failure::new("nobody noticed that exit codes were lost")),
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

/// Returns a root as it is installed, made once per user.
fn clean_root() -> Result<PathBuf, Failure> {
    let home = std::env::var("HOME").map_err(|_| Failure::new("there is no HOME to keep a clean root in"))?;
    let root = Path::new(&home).join(".cache/lastword").join(format!("root-{SUITE}"));
    if !root.join("etc/debian_version").is_file() {
        let parent = root.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(of(parent))?;
        let fresh = root.with_extension("new");
        let _ = fs::remove_dir_all(&fresh);
        let words = ["--variant=minbase", SUITE, &fresh.to_string_lossy()];
        println!("$ debootstrap {}", words.join(" "));
        output("debootstrap", &words)?;
        fs::rename(&fresh, &root).map_err(of(&root))?;
    }
    Ok(root)
}

/// Uses the package in a copy of the root, with processes and mounts of its own that end with it.
fn quick_start(root: &Path, package: &Path, bug: &str) -> Outcome {
    let used = root.with_extension(format!("used-{}", std::process::id()));
    runs("cp", &["--archive", "--reflink=auto", &root.to_string_lossy(), &used.to_string_lossy()])?;
    let put = fs::copy(package, used.join("lastword.deb"))
        .and_then(|_| fs::write(used.join("quick_start.sh"), QUICK_START))
        .map_err(of(&used));
    let tried = put.and_then(|()| {
        let script = format!(
            "mount -t proc proc '{0}/proc' && exec chroot '{0}' sh /quick_start.sh {bug}",
            used.display()
        );
        runs("unshare", &["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &script])
    });
    fs::remove_dir_all(&used).map_err(of(&used))?;
    tried
}

/// Names the path that something failed at.
fn of(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::new(format!("{path}: {error}"))
}
