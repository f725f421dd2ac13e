//! A second server that follows the first, cut off and promoted at will; and the files of a server, put back to an earlier state.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Server, binary, command, copy, own, run};

impl Server {
    /// Starts an asynchronous standby that streams from this server.
    pub fn standby(&self) -> io::Result<Server> {
        let folder = tempfile::Builder::new().prefix("lastword-pg-").tempdir()?;
        own(folder.path())?;
        let mut backup = command(binary("pg_basebackup")?);
        backup.args(["--no-sync", "-R", "-X", "stream", "-c", "fast", "-U", "postgres", "-h"]);
        run(backup.arg(self.host()).arg("-D").arg(folder.path().join("data")))?;
        let mut standby = Server::start_in(self.settings.clone(), folder.path())?;
        standby._temporary = Some(folder);
        Ok(standby)
    }

    /// Waits until a standby has all that is stored here.
    pub async fn is_followed_by(&self, standby: &Server) {
        let here = self.client("postgres").await;
        let end: String = here
            .query_one("select pg_current_wal_flush_lsn()::text", &[])
            .await
            .expect("it is the first")
            .get(0);
        standby.until(&format!("select pg_last_wal_replay_lsn() >= '{end}'::pg_lsn")).await;
    }

    /// Cuts a standby off: what the first server stores from now on does not reach it.
    pub async fn cut_off(&self) {
        self.execute("postgres", "alter system set primary_conninfo = ''").await;
        self.execute("postgres", "select pg_reload_conf()").await;
        self.until("select not exists (select from pg_stat_wal_receiver)").await;
    }

    /// Makes a standby the first server.
    pub async fn promote(&self) {
        self.execute("postgres", "select pg_promote()").await;
    }

    async fn until(&self, sql: &str) {
        let client = self.client("postgres").await;
        while !client.query_one(sql, &[]).await.expect("it is asked").get::<_, bool>(0) {
            // There is nothing to wait on.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Copies the files as they are at this moment, as a snapshot of a volume does. The server is killed for that, and starts again.
    pub fn snapshot(&mut self) -> io::Result<PathBuf> {
        let snapshot = self.data.with_file_name("snapshot");
        self.crash()?;
        copy(&self.data, &snapshot)?;
        self.restart()?;
        Ok(snapshot)
    }

    /// Puts the files back to how they were, and starts again.
    pub fn restore(&mut self, snapshot: &Path) -> io::Result<()> {
        self.crash()?;
        fs::remove_dir_all(&self.data)?;
        fs::rename(snapshot, &self.data)?;
        self.restart()
    }
}

/// Returns an address that leads to whichever of these servers can be written.
pub fn either(servers: [&Server; 2], database: &str) -> String {
    let [first, second] = servers.map(|server| server.host().display().to_string());
    format!("host={first},{second} user=postgres dbname={database} target_session_attrs=read-write")
}
