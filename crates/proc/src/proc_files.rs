//! The files of a process in `/proc`, read through a thread that runs: those of a main thread that has exited are empty.

use std::fs;
use std::io::{self, Read as _};
use std::path::PathBuf;

/// Reads a file such as `environ`, at most `bytes_max` of it.
pub(crate) fn read(pid: i32, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let read = |path: String| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let own = read(format!("/proc/{pid}/{name}"));
    // Kernels differ in what they say about a thread that has given up its memory. Its files are root's, so others may not even open them.
    let is_exited = match &own {
        Ok(bytes) => bytes.is_empty(),
        Err(error) => matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EACCES)),
    };
    if !is_exited {
        return own;
    }
    let mut others =
        other_threads(pid).filter_map(|thread| read(format!("/proc/{pid}/task/{thread}/{name}")).ok());
    others.find(|bytes| !bytes.is_empty()).map_or(own, Ok)
}

/// Reads a link such as `exe`.
pub(crate) fn link(pid: i32, name: &str) -> Option<PathBuf> {
    let own = fs::read_link(format!("/proc/{pid}/{name}")).ok();
    own.or_else(|| {
        other_threads(pid).find_map(|thread| fs::read_link(format!("/proc/{pid}/task/{thread}/{name}")).ok())
    })
}

/// Returns the name of a process; empty if it is gone.
pub(crate) fn name_of(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Returns the threads of a process but the main one.
fn other_threads(pid: i32) -> impl Iterator<Item = i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let threads = threads.filter_map(|thread| thread.file_name().to_str()?.parse::<i32>().ok());
    threads.filter(move |thread| *thread != pid)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// Prints a line once its main thread has exited, and lives on.
    const WITHOUT_MAIN_THREAD: &str = "
import ctypes, os, threading, time
def live():
    while ') Z ' not in open('/proc/self/stat').read():
        time.sleep(0.001)
    print('exited', flush=True)
    time.sleep(1000)
threading.Thread(target=live).start()
ctypes.CDLL(None).syscall(93 if os.uname().machine == 'aarch64' else 60, 0)
";

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process to look at, not a job")]
    fn an_ordinary_user_reads_the_environment_of_a_process_without_its_main_thread() {
        const USER: u32 = 54_321;
        let mut command = Command::new("python3");
        command.args(["-c", WITHOUT_MAIN_THREAD]).env("MARK", "here").stdout(Stdio::piped());
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            command.uid(USER).gid(USER).current_dir("/");
        }
        let mut child = command.spawn().expect("python3 is installed");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is a pipe")).read_line(&mut line).expect("a line");
        if is_root {
            // SAFETY: it changes this thread only, which has no rights of root to files from here on.
            unsafe { libc::setfsuid(USER) };
        }
        let environment = read(child.id() as i32, "environ", u64::MAX);
        child.kill().and_then(|()| child.wait()).expect("it is our child");
        assert_eq!(line, "exited\n");
        let environment = environment.expect("its other thread can be read");
        assert!(environment.split(|byte| *byte == 0).any(|pair| pair == b"MARK=here"));
    }
}
