//! Debian roots: a clean one, built once per user with debootstrap, and copies of it to run commands in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{Failure, Outcome, cache, output, status, succeeds};
use crate::tools;

/// The Debian release of the root.
pub(crate) const SUITE: &str = "bookworm";

/// The environment of a command in a root; nothing else of the caller's is passed on.
const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/root"),
    ("LANG", "C.UTF-8"),
];

/// A copy of the clean root. Dropping it removes the copy, unless it is kept.
pub(crate) struct Root {
    folder: PathBuf,
    is_kept: bool,
}

impl Root {
    /// Copies the clean root for one use.
    pub(crate) fn fresh() -> Result<Root, Failure> {
        let folder = cached(&format!("root-{SUITE}.used-{}", std::process::id()))?;
        copy(&clean()?, &folder)?;
        Ok(Root { folder, is_kept: false })
    }

    /// Returns the copy kept under this name; makes it if there is none.
    pub(crate) fn kept(name: &str) -> Result<Root, Failure> {
        let folder = cached(&format!("root-{SUITE}.{name}"))?;
        if !folder.exists() {
            copy(&clean()?, &folder)?;
        }
        Ok(Root { folder, is_kept: true })
    }

    /// Returns the host path of a path in the root.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// Runs a command in a folder of the root, in its own PID and mount namespace: both end with it. `mounts` are shell lines that may use
    /// `$root`.
    pub(crate) fn run(
        &self,
        mounts: &str,
        environment: &[(String, String)],
        folder: &str,
        words: &[&str],
    ) -> Outcome {
        // The root becomes that of the mount namespace: below `chroot` the kernel refuses user namespaces. The shell does not exec the
        // command: as PID 1 it reaps orphans.
        let script = format!(
            "set -e; root=$1; shift; mount --bind \"$root\" \"$root\"; mount -t proc proc \"$root/proc\"; {mounts}
            cd \"$root\"; pivot_root . .; umount --lazy .; cd /
            code=0; sh -c 'cd \"$1\" && shift && exec \"$@\"' sh \"$@\" || code=$?; exit $code"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &script, "sh"]);
        command.arg(&self.folder).arg(folder).args(words);
        command.env_clear().envs(ENVIRONMENT).envs(environment.iter().map(|(name, value)| (name, value)));
        status(&words.join(" "), command)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = fs::remove_dir_all(&self.folder)
        {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

/// Returns lines for `sources.list` with the Debian archive that this machine uses; none unless it runs the same Debian release.
pub(crate) fn sources() -> String {
    let format = "deb $(REPO_URI) $(RELEASE) $(COMPONENT)";
    let words = ["indextargets", "--format", format, "Created-By: Packages", "Origin: Debian"];
    let lines = output("apt-get", &words).unwrap_or_default();
    let of_suite =
        lines.lines().filter(|line| line.split(' ').nth(2).is_some_and(|release| release.starts_with(SUITE)));
    of_suite.map(|line| format!("{line}\n")).collect()
}

/// Returns the clean root; builds it if there is none.
fn clean() -> Result<PathBuf, Failure> {
    if !tools::is_root() {
        return Err(Failure::new("building a Debian root needs root: run this as root"));
    }
    let root = cached(&format!("root-{SUITE}"))?;
    if !root.exists() {
        let fresh = root.with_extension("new");
        let _ = fs::remove_dir_all(&fresh);
        let sources = sources();
        let main = sources.lines().find_map(|line| line.split(' ').nth(1));
        let place = fresh.to_string_lossy();
        let words: Vec<&str> = ["--variant=minbase", SUITE, &place].into_iter().chain(main).collect();
        println!("$ debootstrap {}", words.join(" "));
        output("debootstrap", &words)?;
        fs::rename(&fresh, &root).map_err(of(&root))?;
    }
    Ok(root)
}

/// Copies a root; leaves nothing behind if that fails.
fn copy(from: &Path, to: &Path) -> Outcome {
    if succeeds("cp", &["--archive", "--reflink=auto", &from.to_string_lossy(), &to.to_string_lossy()]) {
        return Ok(());
    }
    let _ = fs::remove_dir_all(to);
    Err(Failure::new(format!("{} cannot be copied to {}", from.display(), to.display())))
}

/// Returns a path in the user's cache folder.
fn cached(name: &str) -> Result<PathBuf, Failure> {
    let cache = cache()?.join("lastword");
    fs::create_dir_all(&cache).map_err(of(&cache))?;
    Ok(cache.join(name))
}

/// Adds the path to an IO error.
pub(crate) fn of(path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::new(format!("{path}: {error}"))
}
