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
