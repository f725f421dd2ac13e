//! Stands between a client and its PostgreSQL, and cuts a connection after the server has done what it was asked and
//! before the client hears of it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use crate::random::Random;

/// The name of PostgreSQL's socket in its folder.
const SOCKET: &str = ".s.PGSQL.5432";

/// A proxy. Its connections end with the runtime.
#[derive(Debug)]
pub struct Proxy {
    folder: TempDir,
    cuts: Arc<AtomicU64>,
    percent: Arc<AtomicU64>,
    swallowed: Arc<AtomicU64>,
    lines: Arc<AtomicU64>,
}

impl Proxy {
    /// Listens in a folder of its own for clients of the server whose socket is in `server`. `percent` of all requests
    /// lose their answer.
    pub fn start(server: &Path, percent: u64, seed: u64) -> io::Result<Proxy> {
        let folder = tempfile::tempdir()?;
        let listener = UnixListener::bind(folder.path().join(SOCKET))?;
        let proxy = Proxy {
            folder,
            cuts: Arc::default(),
            percent: Arc::new(AtomicU64::new(percent)),
            swallowed: Arc::default(),
            lines: Arc::default(),
        };
        let (swallowed, lines) = (Arc::clone(&proxy.swallowed), Arc::clone(&proxy.lines));
        let (cuts, percent) = (Arc::clone(&proxy.cuts), Arc::clone(&proxy.percent));
        let random = Arc::new(Mutex::new(Random::new(seed)));
        let server: PathBuf = server.join(SOCKET);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = UnixStream::connect(&server).await else { continue };
                let line = Line {
                    cut: AtomicBool::new(false),
                    cuts: cuts.clone(),
                    percent: percent.clone(),
                    random: random.clone(),
                    number: lines.fetch_add(1, Ordering::SeqCst),
                    swallowed: swallowed.clone(),
                };
                tokio::spawn(line.forward(client, server));
            }
        });
        Ok(proxy)
    }

    /// Returns the folder of its socket.
    pub fn host(&self) -> &Path {
        self.folder.path()
    }

    /// Returns how many answers were kept back.
    pub fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }

    /// Passes no answer on to the clients that are connected now, and does not tell them, as a network does that has lost its way.
    /// Later clients get theirs.
    pub fn swallow(&self) {
        self.swallowed.store(self.lines.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Cuts nothing any more.
    pub fn calm(&self) {
        self.percent.store(0, Ordering::Relaxed);
    }
}

/// One connection.
struct Line {
    cut: AtomicBool,
    cuts: Arc<AtomicU64>,
    percent: Arc<AtomicU64>,
    random: Arc<Mutex<Random>>,
    number: u64,
    /// How many of the first connections get no answers.
    swallowed: Arc<AtomicU64>,
}

impl Line {
    async fn forward(self, client: UnixStream, server: UnixStream) {
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        // Whichever ends first ends the other: both halves are dropped, and so both connections.
        tokio::select! {
            _ = self.requests(from_client, to_server) => {}
            _ = self.answers(from_server, to_client) => {}
        }
    }

    async fn requests(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        // The first message has no kind.
        let length = from.read_u32().await?;
        to.write_u32(length).await?;
        to.write_all(&body(&mut from, length).await?).await?;
        loop {
            let (kind, message) = message(&mut from).await?;
            // Execute, and plain queries such as COMMIT.
            if matches!(kind, b'E' | b'Q') && self.draws() {
                self.cut.store(true, Ordering::SeqCst);
            }
            to.write_all(&message).await?;
        }
    }

    async fn answers(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        loop {
            let (kind, message) = message(&mut from).await?;
            if self.number < self.swallowed.load(Ordering::SeqCst) {
                continue;
            }
            if !self.cut.load(Ordering::SeqCst) {
                to.write_all(&message).await?;
            } else if kind == b'Z' {
                // The server is ready for the next request: this one is done and durable, and the client will never be told.
                self.cuts.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
        }
    }

    fn draws(&self) -> bool {
        let percent = self.percent.load(Ordering::Relaxed);
        self.random.lock().unwrap_or_else(PoisonError::into_inner).chance(percent)
    }
}

async fn message(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, Vec<u8>)> {
    let kind = from.read_u8().await?;
    let length = from.read_u32().await?;
    let body = body(from, length).await?;
    let mut message = Vec::with_capacity(5 + body.len());
    message.push(kind);
    message.extend(length.to_be_bytes());
    message.extend(body);
    Ok((kind, message))
}

/// Reads what follows a length, which counts itself.
async fn body(from: &mut (impl AsyncRead + Unpin), length: u32) -> io::Result<Vec<u8>> {
    let mut body = vec![0; length.saturating_sub(4) as usize];
    from.read_exact(&mut body).await?;
    Ok(body)
}
