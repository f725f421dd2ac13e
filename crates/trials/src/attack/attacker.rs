//! What an attacker does, as a process of its own: the hidden verb `attacker`, started as another user or as a job. It says on
//! one line what came of it; that it could not do what it was to do is no failure.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lastword_client::{Call, daemon};
use serde_json::Value;

use crate::clock;
use crate::product::client::{Client, NoReply, code_of};
use crate::product::figures::{self, Stat, TICK_NS};

/// The verb by which this program becomes an attacker.
pub(crate) const VERB: &str = "attacker";

/// How long an answer may be that one should ask again, and how long until one does.
const LATER_MAX: Duration = Duration::from_secs(30);
const LATER: Duration = Duration::from_millis(10);

/// Runs `attacker DEED ...`.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    match words {
        ["ask", socket, method, path, rest @ ..] => ask(socket, method, path, rest.first().copied()),
        ["list", folder] => match std::fs::read_dir(folder) {
            Ok(entries) => println!("{} entries", entries.count()),
            Err(error) => println!("no: {error}"),
        },
        ["kill", targets @ ..] => kill(targets)?,
        ["kill-above"] => kill(&above().iter().map(String::as_str).collect::<Vec<_>>())?,
        ["kill-named", names @ ..] => kill(&named(names).iter().map(String::as_str).collect::<Vec<_>>())?,
        ["peek", pids @ ..] => peek(pids)?,
        ["limit", resource, soft, pids @ ..] => limit(resource, soft, false, pids)?,
        ["limit-for-good", resource, most, pids @ ..] => limit(resource, most, true, pids)?,
        ["descriptors"] => descriptors()?,
        ["whoami"] => println!("user {}", rustix::process::geteuid().as_raw()),
        ["post", socket, path, file] => println!("{}", post(socket, path, file)?),
        ["clock", socket] => {
            let [own, by_clock] = percentiles_ms(socket)?;
            println!("{own:.3} {by_clock:.3}");
        }
        ["dribble", file] => dribble(file)?,
        ["crowd", socket, count] => crowd(socket, count)?,
        ["unfinished", socket, count, seconds] => unfinished(socket, count, seconds)?,
        ["read", files @ ..] => files.iter().for_each(|file| match std::fs::read(file) {
            Ok(bytes) => println!("{}", String::from_utf8_lossy(&bytes).replace('\0', " ")),
            Err(error) => println!("no: {error}"),
        }),
        ["daemonised", rest @ ..] => return daemonised(rest),
        ["squat", socket, heard] => squat(socket, heard)?,
        ["relay", from, to] => relay(from, to)?,
        _ => return Err(format!("no such attack: {}", words.join(" "))),
    }
    Ok(true)
}

/// Asks the API, and says status and code.
fn ask(socket: &str, method: &str, path: &str, body: Option<&str>) {
    let body: Option<Value> = body.and_then(|body| serde_json::from_str(body).ok());
    let Ok(method) = method.parse() else { return println!("no: {method} is no method") };
    let call: Call<()> = Call::new(method, path);
    let call = body.as_ref().map_or(call.clone(), |body| call.with_body(body));
    // A job may be asking before its daemon knows of it, and is told to ask again.
    let asked = clock::until(LATER_MAX, LATER, || {
        let reply = Client::new(Path::new(socket)).send(&call);
        (!reply.as_ref().is_ok_and(|reply| code_of(reply) == "starting")).then_some(reply)
    });
    match asked.unwrap_or_else(|| Err(NoReply::Cut("it is always starting".to_owned()))) {
        Ok(reply) => println!("{} {}", reply.status, code_of(&reply)),
        Err(none) => println!("no: {none}"),
    }
}

/// Asks two hundred times, on a connection each, and returns how long 99 of 100 take, in milliseconds: without the waits for a processor,
/// and by the clock.
fn percentiles_ms(socket: &str) -> Result<[f64; 2], String> {
    let pid = Client::new(Path::new(socket)).call(&daemon::show())?.pid.to_string();
    let processes = [pid.as_str(), "self"];
    let (mut own, mut by_clock) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        // Read outside of what the clock measures: a wait in between is excused, not judged.
        let before = waits_ns(&processes);
        let begun = Instant::now();
        let reply = Client::new(Path::new(socket)).send(&daemon::show()).map_err(|none| none.to_string())?;
        if !reply.is_success() {
            return Err(format!("{} {}", reply.status, code_of(&reply)));
        }
        let took = begun.elapsed();
        let since = |(what, ns): (PathBuf, u64)| ns.saturating_sub(before.get(&what).copied().unwrap_or(0));
        let waited = Duration::from_nanos(waits_ns(&processes).into_iter().map(since).sum());
        own.push(took.saturating_sub(waited).as_secs_f64() * 1e3);
        by_clock.push(took.as_secs_f64() * 1e3);
    }
    Ok([own, by_clock].map(|mut took| {
        took.sort_by(f64::total_cmp);
        took[197]
    }))
}

/// Returns how long each thread of some processes has been ready to run and got no processor, in nanoseconds; and, by the name of the file
/// that tells, how long the host of a virtual machine has kept the processors to itself. Where the kernel does not count, nothing.
fn waits_ns(processes: &[&str]) -> BTreeMap<PathBuf, u64> {
    let number = |file: &Path, at: usize| -> Option<u64> {
        std::fs::read_to_string(file).ok()?.split_ascii_whitespace().nth(at)?.parse().ok()
    };
    let tasks = processes.iter().flat_map(|pid| std::fs::read_dir(format!("/proc/{pid}/task")));
    let files = tasks.flatten().flatten().map(|task| task.path().join("schedstat"));
    let mut waits: BTreeMap<PathBuf, u64> =
        files.filter_map(|file| number(&file, 1).map(|ns| (file, ns))).collect();
    let stat = PathBuf::from("/proc/stat");
    if let Some(ticks) = number(&stat, 8) {
        waits.insert(stat, ticks * TICK_NS);
    }
    waits
}

/// Sends the bytes of a file as they are, and returns status and code of the answer.
fn post(socket: &str, path: &str, file: &str) -> Result<String, String> {
    let body = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let mut stream = UnixStream::connect(socket).map_err(|error| format!("{socket}: {error}"))?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    // What is too long may be refused before all of it was taken.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split(' ').nth(1).unwrap_or("none");
    let code = answer.split_once("\"code\":\"").and_then(|(_, rest)| rest.split('"').next());
    Ok(format!("{status} {}", code.unwrap_or_default()).trim_end().to_owned())
}

/// Asks something ordinary on each of many connections that are open at once.
fn crowd(socket: &str, count: &str) -> Result<(), String> {
    let count: usize = count.parse().map_err(|error| format!("{count}: {error}"))?;
    let mut clients: Vec<Client> = (0..count).map(|_| Client::new(Path::new(socket))).collect();
    for client in &mut clients {
        client.send(&daemon::show()).map_err(|none| none.to_string())?;
    }
    Ok(())
}

/// Sends the beginning of a large body on each of many connections, and never its end, for some seconds: a connection that is closed is
/// opened again. Says how often it was closed, and how long the longest of the ordinary requests took that were made meanwhile.
fn unfinished(socket: &str, count: &str, seconds: &str) -> Result<(), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    let (count, end) = (number(count)?, Instant::now() + Duration::from_secs(number(seconds)?));
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2090000\r\n\r\n";
    let bytes = [head.as_bytes(), b"{\"argv\":[\"", &vec![b'x'; 2_060_000]].concat();
    let (mut open, mut closed, mut longest) = (Vec::new(), 0_u64, Duration::ZERO);
    while Instant::now() < end {
        while (open.len() as u64) < count {
            let Ok(stream) = UnixStream::connect(socket) else { break };
            stream.set_nonblocking(true).map_err(|error| error.to_string())?;
            open.push((stream, 0));
        }
        let before = open.len();
        open.retain_mut(|(stream, sent)| {
            loop {
                match stream.write(&bytes[*sent..]) {
                    Ok(0) => {
                        // All but the end is sent: whether it is still open shows by what can be read.
                        let mut byte = [0];
                        let read = stream.read(&mut byte);
                        return matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
                    }
                    Ok(written) => *sent += written,
                    Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
                }
            }
        });
        closed += (before - open.len()) as u64;
        let asked = Instant::now();
        Client::new(Path::new(socket)).send(&daemon::show()).map_err(|none| none.to_string())?;
        longest = longest.max(asked.elapsed());
        clock::rest(LATER);
    }
    println!("{closed} were closed; an answer took {:.0} ms at most", longest.as_secs_f64() * 1e3);
    Ok(())
}

/// Kills each: a process by its number, a group by its number with a minus. Says whom it could signal.
fn kill(targets: &[&str]) -> Result<(), String> {
    let mut reached = Vec::new();
    for target in targets {
        let number: i32 = target.parse().map_err(|_| format!("{target}: not a number"))?;
        // SAFETY: a signal to whom we were told to attack; that it arrives is what is tried.
        if unsafe { libc::kill(number, libc::SIGKILL) } == 0 {
            reached.push(*target);
        }
    }
    match reached.is_empty() {
        true => println!("none of {} could be signalled: {}", targets.len(), std::io::Error::last_os_error()),
        false => println!("signalled: {}", reached.join(" ")),
    }
    Ok(())
}

/// Returns every ancestor of this process, up to the first of another user.
fn above() -> Vec<String> {
    let own = rustix::process::geteuid().as_raw();
    let parent = |pid: &i32| Stat::of(*pid).map(|stat| stat.parent);
    let all = std::iter::successors(parent(&std::process::id().cast_signed()), parent);
    all.take_while(|pid| *pid > 1 && user_of(*pid) == Some(own)).map(|pid| pid.to_string()).collect()
}

/// Returns every other process of this user with one of these names.
fn named(names: &[&str]) -> Vec<String> {
    let (own, me) = (rustix::process::geteuid().as_raw(), std::process::id().cast_signed());
    let is_named = |pid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        names.contains(&name.trim_end())
    };
    let all = figures::living().into_iter().filter(|pid| *pid != me && user_of(*pid) == Some(own));
    all.filter(is_named).map(|pid| pid.to_string()).collect()
}

/// Returns whose a process is, whether or not it has closed itself to others.
fn user_of(pid: i32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

/// Tries to get into processes: as a debugger, through their memory, and at what they were started with.
fn peek(pids: &[&str]) -> Result<(), String> {
    let mut open = Vec::new();
    for pid in pids {
        let number: i32 = pid.parse().map_err(|_| format!("{pid}: not a number"))?;
        // SAFETY: attaching takes no pointers; a process that lets us attach is detached at once.
        let attached = unsafe { libc::ptrace(libc::PTRACE_SEIZE, number, 0, 0) } == 0;
        if attached {
            // SAFETY: as above.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, number, 0, 0) };
            open.push(format!("ptrace {pid}"));
        }
        for (file, write) in
            [("mem", true), ("mem", false), ("environ", false), ("maps", false), ("fd/0", false)]
        {
            let path = format!("/proc/{pid}/{file}");
            let opened = std::fs::OpenOptions::new().read(true).write(write).open(&path);
            // Some files can be opened by any process, but refuse to be read.
            if opened.is_ok_and(|mut file| write || file.read(&mut [0; 1]).is_ok_and(|bytes| bytes > 0)) {
                open.push(path);
            }
        }
    }
    match open.is_empty() {
        true => println!("none of {} can be looked into", pids.len()),
        false => println!("open: {}", open.join(" ")),
    }
    Ok(())
}

/// Sets a resource limit of processes, as any process of the same user may; the hard limit, too, if it is for good.
fn limit(resource: &str, value: &str, for_good: bool, pids: &[&str]) -> Result<(), String> {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let resource = match resource {
        "cpu" => Resource::Cpu,
        "fsize" => Resource::Fsize,
        "nofile" => Resource::Nofile,
        "nproc" => Resource::Nproc,
        other => return Err(format!("{other}: not a resource")),
    };
    let value = value.parse().map_err(|_| format!("{value}: not a number"))?;
    let mut reached = Vec::new();
    for pid in pids {
        let number: i32 = pid.parse().map_err(|_| format!("{pid}: not a number"))?;
        let hard = if for_good { Some(value) } else { rustix::process::getrlimit(resource).maximum };
        let limit = Rlimit { current: Some(value), maximum: hard };
        if prlimit(Pid::from_raw(number), resource, limit).is_ok() {
            reached.push(*pid);
        }
    }
    match reached.is_empty() {
        true => println!("none of {} could be limited", pids.len()),
        false => println!("limited: {}", reached.join(" ")),
    }
    Ok(())
}

/// Says which descriptors this process was started with.
fn descriptors() -> Result<(), String> {
    let folder = std::fs::read_dir("/proc/self/fd").map_err(|error| error.to_string())?;
    let mut open: Vec<i32> =
        folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    open.sort_unstable();
    // The last one is the folder that was just read.
    open.pop();
    println!("{open:?}");
    Ok(())
}

/// Writes a file with one call for each byte.
fn dribble(file: &str) -> Result<(), String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let mut out = std::io::stdout();
    bytes
        .iter()
        .try_for_each(|byte| out.write_all(&[*byte]).and_then(|()| out.flush()))
        .map_err(|error| error.to_string())
}

/// Does something as a process that has left its parents and its session.
fn daemonised(words: &[&str]) -> Result<bool, String> {
    use std::process::Command;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new("setsid");
    child.args(["--fork", "--wait", "setsid", "--wait"]).arg(own).arg(VERB).args(words);
    child.status().map(|status| status.success()).map_err(|error| format!("setsid: {error}"))
}

/// Listens where clients expect another program, and writes down how many bytes it was sent.
fn squat(socket: &str, heard: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{socket}: {error}");
    let listener = UnixListener::bind(socket).map_err(failed)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
    println!("ready");
    loop {
        let (mut stream, _) = listener.accept().map_err(failed)?;
        let mut said = [0; 4096];
        let bytes = stream.read(&mut said).unwrap_or(0);
        std::fs::write(heard, format!("{bytes} bytes")).map_err(|error| format!("{heard}: {error}"))?;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    }
}

/// Relays whatever any client sends, like a daemon that does not check which user asks.
fn relay(from: &str, to: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{from}: {error}");
    let listener = UnixListener::bind(from).map_err(failed)?;
    std::fs::set_permissions(from, std::fs::Permissions::from_mode(0o666)).map_err(failed)?;
    println!("ready");
    loop {
        let (mut there, _) = listener.accept().map_err(failed)?;
        let Ok(mut here) = UnixStream::connect(to) else { continue };
        let (mut question, mut rest) =
            (there.try_clone().map_err(failed)?, here.try_clone().map_err(failed)?);
        std::thread::spawn(move || std::io::copy(&mut question, &mut rest));
        std::thread::spawn(move || std::io::copy(&mut here, &mut there));
    }
}
