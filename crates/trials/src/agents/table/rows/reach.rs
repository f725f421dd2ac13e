//! A row about what of an agent can be reached from elsewhere on the machine.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use super::super::setup::Setup;

/// How long a server may take to answer.
const ANSWERS: Duration = Duration::from_secs(5);

/// The state of a socket that listens, in the kernel's table.
const LISTENS: &str = "0A";

/// Two jobs at once: whatever they serve to others asks for a password, and they do not get into each other's way.
pub(super) fn servers(setup: &Setup) -> Result<(), String> {
    let (mut jobs, mut ports) = (Vec::new(), Vec::new());
    // One after the other: in a new home, two that start at once are in each other's way.
    for number in [1, 2] {
        let job = setup.run(&[], &format!("Answer. [[gate G{number} good day]]"))?;
        setup.asked(&format!("gate G{number}"))?;
        ports.extend(listening(job.agent()?.pid)?);
        jobs.push(job);
    }
    if setup.agent.name == "opencode" && ports.len() < 2 {
        return Err(format!("two of it are known to serve, and this was found: {ports:?}"));
    }
    for port in ports {
        let status = status(port)?;
        if status != "401" {
            return Err(format!("port {port} answers a request without a password: {status}"));
        }
    }
    for (number, job) in (1..).zip(&jobs) {
        setup.model.release(&format!("G{number}"));
        job.completes(1)?;
    }
    Ok(())
}

/// Returns the ports on which a process listens.
fn listening(pid: i32) -> Result<Vec<u16>, String> {
    let folder = format!("/proc/{pid}/fd");
    let open = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let links = open.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    let sockets: Vec<String> = links
        .filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut ports = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, state, _, _, _, _, _, inode, ..] = words.as_slice() else { continue };
            if *state == LISTENS && sockets.iter().any(|socket| socket == inode) {
                let port = local.rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
                ports.extend(port);
            }
        }
    }
    Ok(ports)
}

/// Returns the status of a request that names no user.
fn status(port: u16) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("port {port}: {error}");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    stream.set_read_timeout(Some(ANSWERS)).map_err(failed)?;
    stream
        .write_all(b"GET /session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .map_err(failed)?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).map_err(failed)?;
    Ok(String::from_utf8_lossy(&head[9..]).into_owned())
}
