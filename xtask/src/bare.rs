//! `bare`: runs a command on a Debian root with a Rust toolchain and nothing else: empty HOME, empty cargo home, a fresh clone of HEAD.
//!
//! The host's settings for package registries are passed in: DNS, certificates, proxies, and the settings of apt, cargo and npm. The toolchain
//! is mounted as the lower layer of an overlay, so changes to it stay in the root.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::program::{Failure, Outcome, output, runs};
use crate::root::{Root, of, sources};

/// The path of the clone in the root.
const CLONE: &str = "/lastword";

/// The default command.
const COMMAND: &[&str] = &[".ci/run"];

/// Host paths that say how to reach package registries.
const SETTINGS: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/ssl/certs/ca-certificates.crt",
    "/usr/local/share/ca-certificates",
    "/etc/npmrc",
    "/usr/etc/npmrc",
];

/// The same, relative to HOME.
const OWN_SETTINGS: &[&str] = &[".cargo/config.toml", ".npmrc"];

/// The names under which rustup is called.
const PROXIES: &[&str] =
    &["cargo", "rustc", "rustdoc", "rustfmt", "cargo-fmt", "cargo-clippy", "clippy-driver"];

/// Mounts devices, control groups, and the toolchain under an overlay.
const MOUNTS: &str = r#"mount --rbind /dev "$root/dev"; mount --rbind /sys "$root/sys"
    mkdir -p "$root/root/.rustup" "$root/var/rustup/own" "$root/var/rustup/work"
    mount -t overlay toolchain -o "lowerdir=$RUSTUP,upperdir=$root/var/rustup/own,workdir=$root/var/rustup/work" "$root/root/.rustup""#;

/// Runs the command. `--keep` keeps the root, and the next `--keep` reuses it.
pub(crate) fn run(arguments: &[&str]) -> Outcome {
    let (root, command) = match arguments {
        ["--keep", command @ ..] => (Root::kept("bare")?, command),
        command => (Root::fresh()?, command),
    };
    let command = if command.is_empty() { COMMAND } else { command };
    settle(&root)?;
    let clone = root.at(CLONE);
    if clone.exists() {
        fs::remove_dir_all(&clone).map_err(of(&clone))?;
    }
    output("git", &["clone", "--quiet", "--no-hardlinks", ".", &clone.to_string_lossy()])?;
    println!("$ {}   (in {})", command.join(" "), root.at("/").display());
    let mut environment: Vec<(String, String)> =
        std::env::vars().filter(|(name, _)| is_setting(name)).collect();
    environment.push(("RUSTUP".into(), home_of("RUSTUP_HOME", ".rustup")?.to_string_lossy().into_owned()));
    root.run(MOUNTS, &environment, CLONE, command)
}

/// Copies the host's settings and rustup into the root.
fn settle(root: &Root) -> Outcome {
    let home = std::env::home_dir().unwrap_or_default();
    let own = OWN_SETTINGS.iter().map(|path| (home.join(path), root.at("/root").join(path)));
    for (from, to) in SETTINGS.iter().map(|path| (PathBuf::from(path), root.at(path))).chain(own) {
        let parent = to.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(of(parent))?;
        if from.exists() {
            runs(
                "cp",
                &[
                    "--recursive",
                    "--dereference",
                    "--no-target-directory",
                    &from.to_string_lossy(),
                    &to.to_string_lossy(),
                ],
            )?;
        }
    }
    let write = |path: &str, text: String| fs::write(root.at(path), text).map_err(of(&root.at(path)));
    match sources() {
        none if none.is_empty() => {}
        sources => write("/etc/apt/sources.list", sources)?,
    }
    let acquire = output("apt-config", &["dump", "Acquire"]).unwrap_or_default();
    let lines = acquire.lines().filter(|line| !line.starts_with("Acquire::IndexTargets"));
    write("/etc/apt/apt.conf.d/99host", lines.map(|line| format!("{line}\n")).collect())?;
    let bin = root.at("/root/.cargo/bin");
    if !bin.exists() {
        fs::create_dir_all(&bin).map_err(of(&bin))?;
        let rustup = home_of("CARGO_HOME", ".cargo")?.join("bin/rustup");
        fs::copy(&rustup, bin.join("rustup")).map_err(of(&rustup))?;
        for name in PROXIES {
            symlink("rustup", bin.join(name)).map_err(of(&bin))?;
        }
    }
    Ok(())
}

/// Reports whether an environment variable says how to reach a registry.
fn is_setting(name: &str) -> bool {
    let lower = name.to_lowercase();
    let begins = [
        "cargo_http_",
        "cargo_net_",
        "cargo_registries_",
        "cargo_source_",
        "npm_config_",
        "rustup_dist_",
        "rustup_update_",
    ];
    lower.ends_with("_proxy")
        || begins.iter().any(|start| lower.starts_with(start))
        || ["_cert", "ca_bundle", "cainfo"].iter().any(|part| lower.contains(part))
}

/// Returns rustup's or cargo's home folder.
fn home_of(variable: &str, usual: &str) -> Result<PathBuf, Failure> {
    let home = std::env::var_os(variable).map(PathBuf::from);
    let folder = home.or_else(|| Some(std::env::home_dir()?.join(usual))).filter(|folder| folder.is_dir());
    folder.ok_or_else(|| {
        Failure::new(format!("`bare` needs a toolchain installed by rustup: found no {variable}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registry_settings_are_passed_in() {
        for name in [
            "https_proxy",
            "NO_PROXY",
            "SSL_CERT_FILE",
            "CURL_CA_BUNDLE",
            "CARGO_HTTP_CAINFO",
            "npm_config_registry",
        ] {
            assert!(is_setting(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "CARGO_TARGET_DIR",
            "CARGO_HOME",
            "RUSTFLAGS",
            "XDG_RUNTIME_DIR",
            "CARGO_REGISTRY_TOKEN",
        ] {
            assert!(!is_setting(name), "{name}");
        }
    }
}
