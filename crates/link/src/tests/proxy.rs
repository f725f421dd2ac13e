//! A proxy between client and server that can be told to swallow what passes, or to cut.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Bytes pass.
    Pass,
    /// Connections stay open and nothing comes out of them.
    Swallow,
    /// Connections are closed, and new ones too.
    Cut,
}

pub(super) struct Proxy {
    pub(super) address: String,
    mode: watch::Sender<Mode>,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    pub(super) async fn to(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mode = watch::Sender::new(Mode::Pass);
        let modes = mode.subscribe();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(server).await.unwrap();
                tokio::spawn(pass(client, server, modes.clone()));
            }
        });
        Proxy { address, mode, accepting }
    }

    pub(super) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn pass(mut client: TcpStream, mut server: TcpStream, mut mode: watch::Receiver<Mode>) {
    let (mut up, mut down) = ([0; 4096], [0; 4096]);
    loop {
        let now = *mode.borrow_and_update();
        if now == Mode::Cut {
            return;
        }
        let sent = tokio::select! {
            changed = mode.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            read = client.read(&mut up), if now == Mode::Pass => match read {
                Ok(1..) => server.write_all(&up[..read.unwrap()]).await,
                _ => return,
            },
            read = server.read(&mut down), if now == Mode::Pass => match read {
                Ok(1..) => client.write_all(&down[..read.unwrap()]).await,
                _ => return,
            },
        };
        if sent.is_err() {
            return;
        }
    }
}
