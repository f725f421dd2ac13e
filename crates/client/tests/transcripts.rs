//! A transcript that is followed goes on after a break, without an item lost or repeated.

use std::sync::{Arc, Mutex};

use lastword_api::{Item, ItemKind, ItemStatus};
use lastword_client::{Client, Connect, Io, Pending};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A daemon that sends these texts as streams, one connection each, and hangs up after each.
struct Streams {
    left: Mutex<Vec<String>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Connect for Streams {
    fn connect(&self, _again: bool) -> Pending<'_, Box<dyn Io>> {
        let (ours, mut theirs) = tokio::io::duplex(64 << 10);
        let (text, requests) = (self.left.lock().unwrap().pop(), Arc::clone(&self.requests));
        Box::pin(async move {
            let text = text.ok_or("no daemon listens")?;
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                let read = theirs.read(&mut head).await.unwrap_or(0);
                requests.lock().unwrap().push(String::from_utf8_lossy(&head[..read]).into_owned());
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
                let version = format!("{}: {}\r\n\r\n", lastword_api::VERSION_HEADER, lastword_api::VERSION);
                let _ = theirs.write_all(format!("{head}{version}{text}").as_bytes()).await;
            });
            Ok(Box::new(ours) as Box<dyn Io>)
        })
    }

    fn connect_if_listening(&self) -> Pending<'_, Option<Box<dyn Io>>> {
        Box::pin(async { Ok(None) })
    }
}

fn item(n: u64) -> Item {
    let (kind, status) = (ItemKind::Message, ItemStatus::Completed);
    let (id, title) = (None, None);
    Item { attempt: 1, n, kind, status, id, title, from: 0, text: format!("{n}"), text_bytes: 1, end: n + 9 }
}

fn frame(n: u64) -> String {
    format!("event: item\nid: place-{n}\ndata: {}\n\n", serde_json::to_string(&item(n)).unwrap())
}

#[tokio::test]
async fn a_transcript_goes_on_after_a_break() {
    let new_kind = "event: weather\ndata: {\"sun\":1}\n\n".to_owned();
    let texts = [
        // Cut within a frame.
        frame(1) + &frame(2)[..30],
        new_kind + &frame(2) + "event: stopping\ndata: {\"pid\":1,\"jobs\":\"keep\"}\n\n",
        frame(3) + "event: end\ndata: {}\n\n",
    ];
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let left = Mutex::new(texts.into_iter().rev().collect());
    let client = Client::new(Streams { left, requests: Arc::clone(&requests) }, |_| {});
    let mut items = client.follow_transcript("job one", Some(2), Some("place-0".to_owned()));
    let mut told = Vec::new();
    while let Some(item) = items.next().await.unwrap() {
        told.push(item);
    }
    assert_eq!(told, [1, 2, 3].map(item));
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 3);
    for (request, place) in requests.iter().zip(["place-0", "place-1", "place-2"]) {
        assert!(request.starts_with("GET /v1/jobs/job%20one/transcript?attempt=2 HTTP/1.1\r\n"), "{request}");
        assert!(request.contains(&format!("last-event-id: {place}\r\n")), "{request}");
        assert!(request.contains("accept: text/event-stream\r\n"), "{request}");
    }
}
