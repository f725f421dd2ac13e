//! `tools`: what the verbs need besides a Rust toolchain, and how it is installed.
//!
//! Crates are installed when a verb needs them, at the versions this repository is known to work with. Everything else changes the
//! machine, so only `tools` installs it; another verb names what is missing and the command that installs it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::first_release;
use crate::program::{Failure, Outcome, cargo, output, runs, succeeds};

/// Something that a verb needs.
struct Tool {
    name: &'static str,
    found: Found,
    from: From,
}

/// How to see that a tool is there.
enum Found {
    /// This starts, followed by `--version`. A newer one is welcome, and an older one says itself what it lacks.
    Starts(&'static str),
    /// A program of this name is in one of the folders where programs are.
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
    // Building the book is all it is for: no server, no search, no watching of files.
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
    // However it came here: Node.js of other sources brings its own.
    Tool { name: "npm", found: Found::Program("npm"), from: From::Debian("nodejs npm") },
    Tool { name: "python3", found: Found::Program("python3"), from: From::Debian("python3") },
    Tool { name: "lastword 0.1.0", found: Found::FirstRelease, from: From::FirstRelease },
    Tool { name: "debootstrap", found: Found::Program("debootstrap"), from: From::Debian("debootstrap") },
];

/// Who needs a verb's tools: `ci` too, or only those who run the verb by hand.
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
    ("e2e upgrade", Where::Ci, &["git", "python3", "lastword 0.1.0"]),
    ("deny", Where::Ci, &["cargo-deny"]),
    ("contract", Where::Ci, &["cargo-nextest"]),
    ("docs", Where::Ci, &["mdbook", "curl", "jq", "git", "tmux", "pgrep"]),
    ("fuzz", Where::Ci, &["a C++ compiler"]),
    ("bugs", Where::Ci, &["PostgreSQL", "git"]),
    ("crash", Where::Ci, &["PostgreSQL"]),
    ("power-loss", Where::Ci, &["PostgreSQL", "mkfs.ext4"]),
    ("bench", Where::Ci, &["PostgreSQL", "sqlite3", "SQLite's headers", "a C compiler", "strace"]),
    ("scope", Where::Ci, &["systemd", "dbus-daemon"]),
    ("agents", Where::Ci, &["npm", "git", "tmux"]),
    ("orphans", Where::Ci, &["npm"]),
    ("attack", Where::Ci, &["git"]),
    ("chaos", Where::Ci, &["mkfs.ext4", "sqlite3"]),
    ("scale", Where::Ci, &["sqlite3"]),
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
            From::Crate(name) => cargo(&format!("install --locked {name}"))?,
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

/// Says in one line what a verb lacks, and what installs it.
fn told(verb: &str, missing: &[&Tool]) -> String {
    let names: Vec<&str> = missing.iter().map(|tool| tool.name).collect();
    let packages = packages(missing);
    let by_hand = match packages.as_slice() {
        [] => String::new(),
        _ => format!(" (Debian: {})", packages.join(" ")),
    };
    format!("`{verb}` needs {}{by_hand}: `cargo xtask tools {verb}` installs it", names.join(", "))
}

/// Returns the tools that are not there, of the verbs that `asked` says.
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
            "there is no apt-get here: install what these Debian packages hold: {names}"
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

/// Reports whether this program may do everything.
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

/// Looks where programs are: also where only root looks, and where Debian puts those of PostgreSQL.
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
