//! A PID namespace that no tree has made, with files by which a tree can enter it: what a container manager outside leaves lying about.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::clock;

/// The namespaces that are offered, in the order in which they must be entered.
pub(crate) const TYPES: [&str; 2] = ["user", "pid"];

/// How long its init may take to start.
const STARTING: Duration = Duration::from_secs(10);

/// A running namespace. It ends when this is dropped, and every process in it.
pub(crate) struct Container {
    process: Child,
    folder: PathBuf,
}

impl Container {
    /// Starts one for root, or for a user without rights, and offers it in a folder.
    pub(crate) fn start(folder: &Path, owner: Option<u32>) -> Result<Container, String> {
        let failed = |error: std::io::Error| format!("a container in {}: {error}", folder.display());
        fs::create_dir(folder).map_err(failed)?;
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]).stdin(Stdio::null());
        if let Some(user) = owner {
            command.args(["--user", "--map-root-user"]).uid(user).gid(user);
        }
        let process = command.args(["sleep", "100000"]).spawn().map_err(failed)?;
        let container = Container { process, folder: folder.to_owned() };
        let pid = container.process.id();
        let children = format!("/proc/{pid}/task/{pid}/children");
        let init = || fs::read_to_string(&children).ok()?.trim().parse::<i32>().ok();
        let init =
            clock::until(STARTING, Duration::from_millis(1), init).ok_or("a container does not start")?;
        for kind in TYPES {
            let (from, to) = (PathBuf::from(format!("/proc/{init}/ns/{kind}")), folder.join(kind));
            fs::write(&to, "").map_err(failed)?;
            bind(&from, &to).map_err(failed)?;
        }
        Ok(container)
    }

    /// Returns the folder of its files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        for kind in TYPES {
            if let Ok(path) = CString::new(self.folder.join(kind).as_os_str().as_bytes()) {
                // SAFETY: the path outlives the call.
                unsafe {
                    libc::umount2(path.as_ptr(), libc::MNT_DETACH);
                }
            }
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Gives a namespace a name in the file system, which keeps it.
fn bind(from: &Path, to: &Path) -> std::io::Result<()> {
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
    let (from, to) = (text(from), text(to));
    // SAFETY: both paths outlive the call, and the other pointers may be null.
    let bound =
        unsafe { libc::mount(from.as_ptr(), to.as_ptr(), std::ptr::null(), libc::MS_BIND, std::ptr::null()) };
    if bound == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
