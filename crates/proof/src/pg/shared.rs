//! One server for many test processes: the first process starts it, and it ends a little after the last one exits.
//!
//! It does not sync, so it is for tests of rules, not of durability.

use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Server, Settings, client, private_folder};

/// Stops the server once no process holds the lock, after a pause in which another one may take it. It holds the lock itself
/// meanwhile, so no process can join a server that is being stopped or already gone.
const KEEPER: &str = r#"
while :; do
    flock -x "$1/users" true
    sleep 5
    flock -n -x "$1/users" sh -c '
        kill -QUIT "$1"
        n=0; while [ -e "$0/data/postmaster.pid" ] && [ $n -lt 100 ]; do sleep 0.05; n=$((n+1)); done
        kill -KILL "$1"; rm -rf "$0/data"
    ' "$1" "$0" && exit
done"#;

/// A user of the shared server.
#[derive(Debug)]
pub struct Shared {
    url: String,
    // Held as long as this process uses the server.
    _user: File,
}

impl Shared {
    /// Starts the server if no other process has, and uses it.
    pub fn join() -> io::Result<Shared> {
        let folder = private_folder("shared")?;
        let open = |name| File::options().create(true).append(true).open(folder.join(name));
        let (user, starter) = (open("users")?, open("starter")?);
        user.lock_shared()?;
        starter.lock()?;
        // A server that was killed together with its keeper leaves all its files behind, but nothing listens on its socket.
        let listens = || UnixStream::connect(folder.join(".s.PGSQL.5432")).is_ok();
        if !folder.join("data/ready").exists() || !listens() {
            start(&folder)?;
        }
        starter.unlock()?;
        Ok(Shared { url: format!("host={} user=postgres", folder.display()), _user: user })
    }

    /// Makes an empty database and returns its address.
    ///
    /// # Panics
    /// If that is not possible.
    pub async fn database(&self) -> String {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("proof_{}_{since}_{made}", std::process::id());
        let client = client(&format!("{} dbname=postgres", self.url)).await;
        client.batch_execute(&format!("create database {name}")).await.expect("a database is made");
        format!("{} dbname={name}", self.url)
    }
}

fn start(folder: &Path) -> io::Result<()> {
    let _ = fs::remove_dir_all(folder.join("data"));
    // Without vacuum: an open transaction of its own would hold the feed of a test back at a random moment.
    let set =
        ["fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0", "autovacuum=off"];
    let settings = Settings {
        set: set.map(str::to_owned).to_vec(),
        folder: Some(folder.to_owned()),
        ..Settings::default()
    };
    let server = Server::start_in(settings, folder)?;
    let pid = server.leave_running();
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEPER, &pid.to_string()]).arg(folder).process_group(0);
    keeper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    fs::write(folder.join("data/ready"), "")
}
