//! `tools`: what the verbs need besides a Rust toolchain, and how it is installed.
//!
//! A verb installs the crates it needs, at pinned versions. Debian packages and toolchain components change the machine, so only `tools`
//! installs them; other verbs name what is missing and the command that installs it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::first_release;
use crate::program::{Failure, Outcome, cargo_with, output, runs, succeeds};

/// A program, header or target that a verb needs.
struct Tool {
    name: &'static str,
    found: Found,
    from: From,
}

/// How to check that a tool is installed.
enum Found {
    /// The command runs with `--version`, in whatever version.
    Starts(&'static str),
    /// A program of this name is installed.
    Program(&'static str),
    /// This path exists.
    Path(&'static str),
    /// The toolchain has this target.
    Target(&'static str),
    /// The first release was built.
    FirstRelease,
}

/// Where a tool comes from.
enum From {
    /// What `cargo install` is given.
    Crate(&'static str),
    /// Names of Debian packages.
    Debian(&'static str),
    /// What `rustup` is given.
    Rustup(&'static str),
    /// The commit of the first release.
    FirstRelease,
}

/// Builds executables that run on any distribution.
pub(crate) const STATIC: &str = "x86_64-unknown-linux-musl";

#[rustfmt::skip] // One row, one tool.
const TOOLS: &[Tool] = &[
    Tool { name: "cargo-nextest", found: Found::Starts("cargo nextest"), from: From::Crate("cargo-nextest@0.9.143") },
    Tool { name: "cargo-deny", found: Found::Starts("cargo deny"), from: From::Crate("cargo-deny@0.20.2") },
    // Only builds the book: no server, search or file watcher.
    Tool { name: "mdbook", found: Found::Starts("mdbook"), from: From::Crate("mdbook@0.5.4 --no-default-features") },
    Tool { name: "cargo-deb", found: Found::Starts("cargo deb"), from: From::Crate("cargo-deb@3.8.0") },
    Tool { name: "cargo-mutants", found: Found::Starts("cargo mutants"), from: From::Crate("cargo-mutants@27.1.0") },
    Tool { name: "rustfmt", found: Found::Starts("cargo fmt"), from: From::Rustup("component add rustfmt") },
    Tool { name: "clippy", found: Found::Starts("cargo clippy"), from: From::Rustup("component add clippy") },
    Tool { name: STATIC, found: Found::Target(STATIC), from: From::Rustup("target add x86_64-unknown-linux-musl") },
    Tool { name: "a C compiler", found: Found::Program("cc"), from: From::Debian("gcc libc6-dev") },
    Tool { name: "a C++ compiler", found: Found::Program("c++"), from: From::Debian("g++") },
    Tool { name: "musl-gcc", found: Found::Program("musl-gcc"), from: From::Debian("musl-tools") },
    Tool { name: "readelf", found: Found::Program("readelf"), from: From::Debian("binutils") },
    Tool { name: "PostgreSQL", found: Found::Program("initdb"), from: From::Debian("postgresql") },
    Tool { name: "ip", found: Found::Program("ip"), from: From::Debian("iproute2") },
    Tool { name: "sqlite3", found: Found::Program("sqlite3"), from: From::Debian("sqlite3") },
    Tool { name: "SQLite's headers", found: Found::Path("/usr/include/sqlite3.h"), from: From::Debian("libsqlite3-dev") },
    Tool { name: "mkfs.ext4", found: Found::Program("mkfs.ext4"), from: From::Debian("e2fsprogs") },
    Tool { name: "strace", found: Found::Program("strace"), from: From::Debian("strace") },
    Tool { name: "systemd", found: Found::Path("/lib/systemd/systemd"), from: From::Debian("systemd") },
    Tool { name: "dbus-daemon", found: Found::Program("dbus-daemon"), from: From::Debian("dbus-user-session") },
    Tool { name: "pgrep", found: Found::Program("pgrep"), from: From::Debian("procps") },
    Tool { name: "curl", found: Found::Program("curl"), from: From::Debian("curl") },
    Tool { name: "jq", found: Found::Program("jq"), from: From::Debian("jq") },
    Tool { name: "git", found: Found::Program("git"), from: From::Debian("git") },
    Tool { name: "tmux", found: Found::Program("tmux"), from: From::Debian("tmux") },
    // Node.js from other sources brings its own npm, so any npm counts.
    Tool { name: "npm", found: Found::Program("npm"), from: From::Debian("nodejs npm") },
    Tool { name: "python3", found: Found::Program("python3"), from: From::Debian("python3") },
    // Debian has it apart from Python.
    Tool { name: "Python's venv", found: Found::Starts("python3 -m ensurepip"), from: From::Debian("python3-venv") },
    Tool { name: "lastword 0.1.0", found: Found::FirstRelease, from: From::FirstRelease },
    Tool { name: "debootstrap", found: Found::Program("debootstrap"), from: From::Debian("debootstrap") },
];

/// Whether `ci` runs the verb or it is only run by hand.
#[derive(PartialEq)]
enum Where {
    Ci,
    ByHand,
}

#[rustfmt::skip] // One row, one verb of ours or of cargo; what is not listed needs a Rust toolchain and no more.
const NEEDS: &[(&str, Where, &[&str])] = &[
    ("fmt", Where::Ci, &["rustfmt"]),
    ("clippy", Where::Ci, &["clippy"]),
    ("tidy", Where::Ci, &["git"]),
    ("nextest", Where::Ci, &["cargo-nextest", "PostgreSQL", "git", "pgrep", "python3"]),
    ("e2e", Where::Ci, &["git", "pgrep", "python3"]),
    ("e2e --store", Where::Ci, &["PostgreSQL"]),
    ("e2e upgrade", Where::Ci, &["git", "python3", "lastword 0.1.0"]),
    ("deny", Where::Ci, &["cargo-deny"]),
    ("contract", Where::Ci, &["cargo-nextest"]),
    ("docs", Where::Ci, &["mdbook", "curl", "jq", "git", "tmux", "pgrep"]),
    ("fuzz", Where::Ci, &["a C++ compiler"]),
    ("bugs", Where::Ci, &["PostgreSQL", "git"]),
    ("crash", Where::Ci, &["PostgreSQL"]),
    ("power-loss", Where::Ci, &["PostgreSQL", "mkfs.ext4"]),
    ("bench", Where::Ci, &["PostgreSQL", "sqlite3", "SQLite's headers", "a C compiler", "strace", "npm"]),
    ("scope", Where::Ci, &["systemd", "dbus-daemon"]),
    ("agents", Where::Ci, &["npm", "git", "tmux"]),
    ("orphans", Where::Ci, &["npm"]),
    ("api", Where::Ci, &["python3", "Python's venv"]),
    ("attack", Where::Ci, &["git"]),
    ("attack --fleet", Where::Ci, &["PostgreSQL"]),
    ("record", Where::Ci, &["python3", "curl", "git", "pgrep"]),
    ("record --against 0.1.0", Where::Ci, &["git", "python3", "curl", "pgrep", "lastword 0.1.0"]),
    ("chaos", Where::Ci, &["mkfs.ext4", "sqlite3"]),
    ("chaos --store", Where::Ci, &["PostgreSQL"]),
    ("fleet", Where::Ci, &["PostgreSQL", "a C compiler", "ip"]),
    ("scale", Where::Ci, &["sqlite3"]),
    ("scale fleet", Where::ByHand, &["PostgreSQL"]),
    ("mutants", Where::ByHand, &["cargo-mutants", "cargo-nextest"]),
    ("package", Where::ByHand, &["debootstrap", "musl-gcc", "readelf", STATIC, "cargo-deb"]),
    ("bare", Where::ByHand, &["debootstrap", "git"]),
];

const USAGE: &str = "usage: cargo xtask tools [--all] [VERB]";

/// Installs what `ci` needs, or one verb, or with `--all` every verb.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let missing = match arguments {
        [] | ["ci"] => missing(|_, place| *place == Where::Ci),
        ["--all" | "full"] => missing(|_, _| true),
        [verb] if !verb.starts_with('-') => missing(|name, _| name == *verb),
        _ => return Err(Failure::new(USAGE)),
    };
    let packages = packages(&missing);
    if !packages.is_empty() {
        install_packages(&packages)?;
    }
    for tool in &missing {
        match tool.from {
            From::Crate(line) => install_crate(line)?,
            From::Rustup(line) => runs("rustup", &line.split_whitespace().collect::<Vec<_>>())?,
            From::FirstRelease => first_release::build()?,
            From::Debian(_) => {}
        }
    }
    Ok(())
}

/// Builds what a verb needs and cargo can build, and fails if anything else is missing.
pub(crate) fn need(verb: &str) -> Outcome {
    let is_built = |tool: &&Tool| matches!(tool.from, From::Crate(_) | From::FirstRelease);
    let (built, others): (Vec<&Tool>, Vec<&Tool>) =
        missing(|name, _| name == verb).into_iter().partition(is_built);
    if let [_, ..] = others.as_slice() {
        return Err(Failure::new(told(verb, &others)));
    }
    match built.as_slice() {
        [] => Ok(()),
        _ => run(&[verb]),
    }
}

/// Names in one line what a verb is missing and the command that installs it.
fn told(verb: &str, missing: &[&Tool]) -> String {
    let names: Vec<&str> = missing.iter().map(|tool| tool.name).collect();
    let packages = packages(missing);
    let by_hand = match packages.as_slice() {
        [] => String::new(),
        _ => format!(" (Debian: {})", packages.join(" ")),
    };
    format!("`{verb}` needs {}{by_hand}: `cargo xtask tools {verb}` installs it", names.join(", "))
}

/// Returns the missing tools of the verbs that `asked` selects.
fn missing(asked: impl Fn(&str, &Where) -> bool) -> Vec<&'static Tool> {
    let needed = NEEDS.iter().filter(|(verb, place, _)| asked(verb, place)).flat_map(|(_, _, names)| *names);
    let needed: Vec<&str> = needed.copied().collect();
    TOOLS.iter().filter(|tool| needed.contains(&tool.name) && !tool.found.is_there()).collect()
}

fn packages(tools: &[&Tool]) -> Vec<&'static str> {
    let lists = tools.iter().filter_map(|tool| match tool.from {
        From::Debian(names) => Some(names),
        From::Crate(_) | From::Rustup(_) | From::FirstRelease => None,
    });
    lists.flat_map(str::split_whitespace).collect()
}

fn install_packages(packages: &[&str]) -> Outcome {
    if !program_is_there("apt-get") {
        let names = packages.join(" ");
        return Err(Failure::new(format!(
            "no apt-get on this machine: install the equivalents of these Debian packages: {names}"
        )));
    }
    let as_root = |words: &[&str]| match is_root() {
        true => runs("env", words),
        false => runs("sudo", &[&["env"], words].concat()),
    };
    as_root(&["apt-get", "update"])?;
    let install =
        ["DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "--yes", "--no-install-recommends"];
    as_root(&[&install, packages].concat())
}

/// Installs a crate with settings for a short build: link-time optimisation would take longer than the tool ever runs.
fn install_crate(line: &str) -> Outcome {
    let words: Vec<&str> = ["install", "--locked"].into_iter().chain(line.split_whitespace()).collect();
    let settings = [("LTO", "off"), ("CODEGEN_UNITS", "16"), ("OPT_LEVEL", "1"), ("DEBUG", "false")];
    let settings = settings.map(|(name, value)| (format!("CARGO_PROFILE_RELEASE_{name}"), value));
    cargo_with(&words, &settings.each_ref().map(|(name, value)| (name.as_str(), *value)))
}

/// Reports whether this process runs as root.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

impl Found {
    fn is_there(&self) -> bool {
        match self {
            Found::Starts(line) => {
                let mut words = line.split_whitespace().chain(["--version"]);
                let program = words.next().unwrap_or_default();
                succeeds(program, &words.collect::<Vec<_>>())
            }
            Found::Program(name) => program_is_there(name),
            Found::Path(path) => Path::new(path).exists(),
            Found::Target(name) => output("rustc", &["--print", "target-libdir", "--target", name])
                .is_ok_and(|folder| Path::new(folder.trim()).is_dir()),
            Found::FirstRelease => first_release::executable().is_some(),
        }
    }
}

/// Looks in PATH, in sbin folders that only root has in PATH, and where Debian installs PostgreSQL's programs.
fn program_is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .chain(versions.map(|version| version.path().join("bin")))
        .any(|folder| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_can_be_installed() {
        for (verb, _, names) in NEEDS {
            for name in *names {
                assert!(
                    TOOLS.iter().any(|tool| tool.name == *name),
                    "{verb} needs {name}, which no row installs"
                );
            }
        }
    }

    #[test]
    fn what_is_missing_is_named_with_what_installs_it() {
        let named = |name: &str| TOOLS.iter().find(|tool| tool.name == name).expect("it is in the table");
        let line = told("package", &[named("musl-gcc"), named("debootstrap"), named(STATIC)]);
        assert_eq!(
            line,
            "`package` needs musl-gcc, debootstrap, x86_64-unknown-linux-musl (Debian: musl-tools debootstrap): \
             `cargo xtask tools package` installs it"
        );
    }
}
