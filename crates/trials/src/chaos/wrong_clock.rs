//! A wall clock that jumps, for chosen processes of this machine only.
//!
//! Programs read the clock in memory that the kernel maps into each of them (the vDSO), by `libc` or without it, so that
//! nothing in between can be replaced. But the page with that code becomes private to a process once it is written to,
//! as when a debugger sets a breakpoint. The code written here asks the kernel for the time, and adds an offset if the
//! caller asked for the wall clock. Forks inherit it, a new program does not.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use crate::clock;

/// The longest until a process stands still outside the code that is to be changed.
const STILL_MAX: Duration = Duration::from_secs(2);

/// The function behind every read of a clock.
const FUNCTION: &[u8] = b"__vdso_clock_gettime\0";

/// Where the offset stands in [`code`].
#[cfg(test)]
const OFFSET_AT: usize = 17;

/// A place in the vDSO, the same in every process of this boot, and what stands there.
#[derive(Clone, Debug)]
pub(crate) struct WrongClock {
    at: u64,
    original: Vec<u8>,
}

/// Returns the code that reads a clock, for x86-64: `clock` in edi, where to put it in rsi.
fn code(offset_s: i64) -> Vec<u8> {
    let mut code = vec![
        0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228: clock_gettime
        0x0f, 0x05, // syscall
        0x85, 0xff, // test edi, edi: CLOCK_REALTIME is zero
        0x75, 0x11, // jnz to the end
        0x85, 0xc0, // test eax, eax
        0x75, 0x0d, // jnz to the end
        0x48, 0xb9, // mov rcx,
    ];
    code.extend(offset_s.to_le_bytes());
    code.extend([0x48, 0x01, 0x0e]); // add [rsi], rcx
    code.push(0xc3); // ret
    code
}

impl WrongClock {
    /// Finds the place, or says why clocks cannot be made to jump here.
    pub(crate) fn find() -> Result<WrongClock, String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("a clock can be changed for one process on x86-64 only".to_owned());
        }
        let (begin, end) = vdso(std::process::id() as i32)?;
        let mut image = vec![0; (end - begin) as usize];
        memory(std::process::id() as i32, false)?
            .read_exact_at(&mut image, begin)
            .map_err(|error| format!("the vDSO: {error}"))?;
        let at = function(&image).ok_or("the vDSO of this kernel has no clock that is known here")?;
        let original = image.get(at..at + code(0).len()).ok_or("the vDSO ends early")?.to_vec();
        Ok(WrongClock { at: at as u64, original })
    }

    /// Lets the wall clock of a process be wrong by so many seconds from now on.
    pub(crate) fn jump(&self, pid: i32, offset_s: i64) -> Result<(), String> {
        self.write(pid, &code(offset_s))
    }

    /// Gives a process the right clock again.
    pub(crate) fn restore(&self, pid: i32) -> Result<(), String> {
        self.write(pid, &self.original)
    }

    fn write(&self, pid: i32, bytes: &[u8]) -> Result<(), String> {
        let (begin, end) = vdso(pid)?;
        let memory = memory(pid, true)?;
        // SAFETY: signals to a process of this run, which is sent on in any case.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        let written = clock::until(STILL_MAX, Duration::from_micros(200), || {
            match is_outside(pid, begin, end) {
                Some(true) => {
                    return Some(
                        memory.write_all_at(bytes, begin + self.at).map_err(|error| error.to_string()),
                    );
                }
                None => return Some(Err("it is gone".to_owned())),
                Some(false) => {}
            }
            // A thread is on its way through the code: let it get out.
            // SAFETY: as above.
            unsafe {
                libc::kill(pid, libc::SIGCONT);
                libc::kill(pid, libc::SIGSTOP);
            }
            None
        });
        // SAFETY: as above.
        unsafe { libc::kill(pid, libc::SIGCONT) };
        let written = written.unwrap_or_else(|| Err("it does not stand still".to_owned()));
        written.map_err(|why| format!("the clock of process {pid}: {why}"))
    }
}

/// Reports whether every thread of a process stands still outside these addresses. `None` if it is gone.
fn is_outside(pid: i32, begin: u64, end: u64) -> Option<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let thread = thread.ok()?.path();
        let stat = fs::read_to_string(thread.join("stat")).ok()?;
        if !stat.rsplit_once(") ")?.1.starts_with(['T', 't']) {
            return Some(false);
        }
        // The last word is where it stands. One that runs says so instead.
        let syscall = fs::read_to_string(thread.join("syscall")).ok()?;
        let place = syscall.trim().rsplit(' ').next()?.trim_start_matches("0x");
        match u64::from_str_radix(place, 16) {
            Ok(place) if !(begin..end).contains(&place) => {}
            _ => return Some(false),
        }
    }
    Some(true)
}

fn memory(pid: i32, write: bool) -> Result<File, String> {
    let opened = OpenOptions::new().read(true).write(write).open(format!("/proc/{pid}/mem"));
    opened.map_err(|error| format!("the memory of process {pid}: {error}"))
}

/// Returns where a process has the vDSO.
fn vdso(pid: i32) -> Result<(u64, u64), String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))
        .map_err(|error| format!("the map of process {pid}: {error}"))?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let range = line.and_then(|line| line.split(' ').next()?.split_once('-'));
    let parse = |text: &str| u64::from_str_radix(text, 16).ok();
    range
        .and_then(|(begin, end)| Some((parse(begin)?, parse(end)?)))
        .ok_or_else(|| format!("process {pid} has no vDSO"))
}

/// Finds the function in a vDSO image, which is an ELF file with its segments where they are loaded.
fn function(image: &[u8]) -> Option<usize> {
    let bytes = |at: usize, count: usize| image.get(at..at + count);
    let u16_at = |at: usize| Some(usize::from(u16::from_le_bytes(bytes(at, 2)?.try_into().ok()?)));
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes(at, 4)?.try_into().ok()?) as usize);
    let u64_at = |at: usize| Some(u64::from_le_bytes(bytes(at, 8)?.try_into().ok()?) as usize);
    let (sections, size, count) = (u64_at(40)?, u16_at(58)?, u16_at(60)?);
    const DYNSYM: usize = 11;
    let table = (0..count).map(|n| sections + n * size).find(|at| u32_at(at + 4) == Some(DYNSYM))?;
    let (symbols, length, names) = (u64_at(table + 24)?, u64_at(table + 32)?, u32_at(table + 40)?);
    let names = u64_at(sections + names * size + 24)?;
    (0..length / 24).map(|n| symbols + n * 24).find_map(|symbol| {
        let name = names + u32_at(symbol)?;
        (bytes(name, FUNCTION.len())? == FUNCTION).then(|| u64_at(symbol + 8)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A process that says what time it is whenever it is asked: the wall clock, then the awake one.
    fn speaking_clock() -> (i32, UnixStream) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        // SAFETY: the child reads, writes and reads clocks, and exits.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // Otherwise it would keep itself waiting.
            drop(ours);
            let mut asked = [0];
            while theirs.read(&mut asked).is_ok_and(|read| read == 1) {
                for id in [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC] {
                    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                    // SAFETY: the structure outlives the call.
                    unsafe { libc::clock_gettime(id, &raw mut now) };
                    let _ = theirs.write_all(&now.tv_sec.to_le_bytes());
                }
            }
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        ours.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        (pid, ours)
    }

    fn ask(clock: &mut UnixStream) -> [i64; 2] {
        clock.write_all(&[1]).unwrap();
        [0, 0].map(|_: i64| {
            let mut bytes = [0; 8];
            clock.read_exact(&mut bytes).unwrap();
            i64::from_le_bytes(bytes)
        })
    }

    #[test]
    fn a_clock_jumps_for_one_process_and_comes_back() {
        let wrong = WrongClock::find().unwrap();
        let (pid, mut clock) = speaking_clock();
        let [wall, awake] = ask(&mut clock);
        for offset in [5 * 3_600, -7 * 3_600] {
            wrong.jump(pid, offset).unwrap();
            let [jumped, steady] = ask(&mut clock);
            assert!((wall + offset..wall + offset + 60).contains(&jumped), "{offset}: {}", jumped - wall);
            assert!((awake..awake + 60).contains(&steady));
        }
        wrong.restore(pid).unwrap();
        assert!((wall..wall + 60).contains(&ask(&mut clock)[0]));
        drop(clock);
        // SAFETY: the child of this test.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }

    #[test]
    fn the_offset_stands_where_it_is_said() {
        assert_eq!(code(-2)[OFFSET_AT..OFFSET_AT + 8], (-2_i64).to_le_bytes());
        // Both jumps go to the last instruction.
        let code = code(0);
        assert_eq!((code[11 + 0x11 - 1], code[15 + 0x0d - 1]), (0x0e, 0x0e));
        assert_eq!((code[11 + 0x11], code[15 + 0x0d]), (0xc3, 0xc3));
    }
}
