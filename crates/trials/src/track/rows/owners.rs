//! Ownership: daemons that come and go, keepers that do not answer, and process numbers that are used again.

use std::ffi::CString;
use std::path::Path;

use crate::track::home::{Home, USER, is_alive, signal, until};
use crate::track::row::{Seen, held_if, rows};

rows! {
    "000-10" OUROBOROS_464 From010 Nothing [34]
        "A process releases a lock that another one holds."
        => "A second daemon is refused, and the first keeps its socket, its lock and its job.",
        second_daemon;
    "000-11" OUROBOROS_464 From010 Root [22]
        "A dead runner is taken for alive, because another process has its pid."
        => "Another process gets the pid of a dead job: the job is lost, and the process is left alone.",
        pid_used_again;
    "000-27" OUROBOROS_464 From010 Nothing [35, 37]
        "An owner that shuts down cleans up what its successor works with."
        => "The daemon is restarted under a job, which goes on to its true end with all its output.",
        restart_under_a_job;
    "000-29" OUROBOROS_464 From010 Nothing [32, 41]
        "The runner cannot be inspected, and is declared dead."
        => "The keepers of a job do not answer, and the daemon is a new one: no ending is written until they do.",
        keepers_do_not_answer;
    "000-45" OUROBOROS_464 From010 Nothing [34, 37]
        "A scan for orphans takes the work of a live owner for abandoned."
        => "Three daemons are killed one after the other: the job has one attempt and the same process.",
        adopted_again_and_again;
    "002-16" CODEX_PLUGIN_184 From010 Root [64]
        "A job is reconciled by its pid alone, which another process may have by then."
        => "Another process has the pid of the dead job: the job is lost, and the process is left alone.",
        pid_used_again;
}

fn second_daemon(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    let (leader, first) = (home.leader(&job)?, home.daemon()?);
    let second = home.shell("timeout 10 $LASTWORD daemon run")?;
    let after = home.daemon()?;
    home.ok(&["cancel", &job])?;
    let is_held = ![0, 124].contains(&second.code) && after == first && !is_alive(leader);
    held_if(is_held, format!("the second exits with {}: {}", second.code, second.printed()))
}

/// A process that was given the pid of another one. It is killed and reaped when it is dropped.
struct Stranger(i32);

impl Stranger {
    /// Starts `sleep` as the ordinary user with this pid, which must be free. Only root can.
    fn start(pid: i32) -> Result<Stranger, String> {
        let (program, seconds) = (CString::from(c"/bin/sleep"), CString::from(c"1000"));
        let arguments = [program.as_ptr(), seconds.as_ptr(), std::ptr::null()];
        let nothing = [std::ptr::null()];
        let wanted = [pid];
        // SAFETY: all fields may be zero.
        let mut how: libc::clone_args = unsafe { std::mem::zeroed() };
        how.exit_signal = libc::SIGCHLD as u64;
        how.set_tid = wanted.as_ptr() as u64;
        how.set_tid_size = 1;
        // SAFETY: without CLONE_VM this is a fork; the child only makes system calls with memory prepared before.
        let started = unsafe { libc::syscall(libc::SYS_clone3, &raw mut how, size_of::<libc::clone_args>()) };
        if started == 0 {
            // SAFETY: the child of a process with threads; only raw system calls until exec or exit.
            unsafe {
                libc::syscall(libc::SYS_setgid, USER);
                libc::syscall(libc::SYS_setuid, USER);
                libc::execve(program.as_ptr(), arguments.as_ptr(), nothing.as_ptr());
                libc::_exit(1);
            }
        }
        match started {
            -1 => Err(format!("pid {pid} cannot be had: {}", std::io::Error::last_os_error())),
            _ => Ok(Stranger(pid)),
        }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        signal(self.0, libc::SIGKILL);
        // SAFETY: a child of this process.
        unsafe { libc::waitpid(self.0, std::ptr::null_mut(), 0) };
    }
}

fn pid_used_again(home: &Home) -> Seen {
    let job = home.start("", "exec sleep 1000")?;
    let leader = home.leader(&job)?;
    home.kill_daemon()?;
    home.lose(leader)?;
    let proc = format!("/proc/{leader}");
    until("the pid is free", || (!Path::new(&proc).exists()).then_some(()))?;
    let stranger = Stranger::start(leader)?;
    let shown = home.ended_soon(&job)?;
    home.run(&["cancel", "--force", &job])?;
    let lives = is_alive(stranger.0);
    held_if(
        lives && shown["outcome"] == "lost",
        format!("the job is {}; the stranger lives: {lives}", shown["outcome"]),
    )
}

pub(super) fn restart_under_a_job(home: &Home) -> Seen {
    let script = "echo one; while [ ! -e $PLACE/go ]; do sleep 0.01; done; echo two; exit 5";
    let job = home.start("", script)?;
    let leader = home.leader(&job)?;
    home.ok(&["daemon", "restart"])?;
    let same = home.leader(&job)? == leader && is_alive(leader);
    std::fs::write(home.work("go"), "").map_err(|error| error.to_string())?;
    let shown = home.ended_soon(&job)?;
    let (exit, logs) = (&shown["attempts"][0]["exit"]["code"], home.ok(&["logs", &job])?);
    held_if(
        same && exit == 5 && logs == "one\ntwo",
        format!("same process: {same}; exit {exit}; output {logs:?}"),
    )
}

fn keepers_do_not_answer(home: &Home) -> Seen {
    let job = home.start("", "while [ ! -e $PLACE/go ]; do sleep 0.01; done; exit 5")?;
    let leader = home.leader(&job)?;
    let keepers = home.keepers(leader)?;
    keepers.iter().for_each(|pid| signal(*pid, libc::SIGSTOP));
    home.kill_daemon()?;
    home.run(&["wait", "--timeout", "2s", &job])?;
    let meanwhile = home.show(&job)?;
    keepers.iter().for_each(|pid| signal(*pid, libc::SIGCONT));
    std::fs::write(home.work("go"), "").map_err(|error| error.to_string())?;
    let shown = home.ended_soon(&job)?;
    let exit = &shown["attempts"][0]["exit"]["code"];
    held_if(
        meanwhile["outcome"].is_null() && exit == 5,
        format!("{} meanwhile, exit {exit} later", meanwhile["phase"]),
    )
}

pub(super) fn adopted_again_and_again(home: &Home) -> Seen {
    let job = home.start("", "sleep 1000")?;
    let leader = home.leader(&job)?;
    for _ in 0..3 {
        home.kill_daemon()?;
        home.ok(&["ls"])?;
    }
    let shown = home.show(&job)?;
    let attempts = shown["attempts"].as_array().map_or(0, Vec::len);
    let is_held =
        shown["phase"] == "running" && attempts == 1 && home.leader(&job)? == leader && is_alive(leader);
    held_if(is_held, format!("{}, {attempts} attempt", shown["phase"]))
}
