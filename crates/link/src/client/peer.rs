//! Another server: its workers are asked through it.

use lastword_store::Attempts;
use lastword_store::attempts::{Alive, BoxFuture, NotRead, Part, Piece, Ran, Stream};

use super::Link;
use crate::ask::{Ask, Told, What};
use crate::asking::{self, Asks};
use crate::wire::AskWorker;

/// The workers that are connected to another server.
#[derive(Clone)]
pub struct Peer(Link);

impl Peer {
    /// Asks over this link, whose token must be that of a server.
    pub fn new(link: Link) -> Peer {
        Peer(link)
    }
}

impl Asks for Peer {
    async fn ask(&self, ran: &Ran, what: What) -> Result<(Told, Vec<u8>), NotRead> {
        let ask = Ask { job: ran.job, attempt: ran.attempt.0, what };
        let failed = |error: String| {
            NotRead::Failed(format!(
                "the server to which worker {} is connected does not answer: {error}",
                ran.owner
            ))
        };
        let request = AskWorker { owner: ran.owner.clone(), ask }.into();
        let body = self.0.send(&request).await.map_err(|error| failed(error.to_string()))?;
        match Told::decode(body).map_err(|error| failed(error.to_string()))? {
            (Told::Away(since), _) => Err(NotRead::Away(since)),
            told => Ok(told),
        }
    }
}

impl Attempts for Peer {
    fn read(&self, ran: Ran, stream: Stream, part: Part) -> BoxFuture<Result<Piece, NotRead>> {
        asking::read(self.clone(), ran, stream, part)
    }

    fn alive(&self, ran: Ran) -> BoxFuture<Option<Alive>> {
        asking::alive(self.clone(), ran)
    }

    fn resize(&self, ran: Ran, rows: u16, columns: u16) -> BoxFuture<bool> {
        asking::resize(self.clone(), ran, rows, columns)
    }
}
