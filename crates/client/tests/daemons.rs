//! The client against scripted daemons that misbehave.

use std::sync::{Arc, Mutex};

use lastword_api::{Code, Problem, VERSION, VERSION_HEADER};
use lastword_client::{Client, Connect, Connection, Error, Io, Lost, Notice, Pending, daemon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// A daemon that replies with these texts, one connection each, whatever it is asked. An empty text hangs up.
struct Script {
    replies: Mutex<Vec<String>>,
    connected: Arc<Mutex<u32>>,
}

impl Script {
    fn new(replies: &[String]) -> Script {
        let mut replies = replies.to_vec();
        replies.reverse();
        Script { replies: Mutex::new(replies), connected: Arc::default() }
    }
}

impl Connect for Script {
    fn connect(&self, _again: bool) -> Pending<'_, Box<dyn Io>> {
        *self.connected.lock().unwrap() += 1;
        let reply = self.replies.lock().unwrap().pop();
        Box::pin(async move {
            let reply = reply.ok_or("no daemon listens")?;
            Ok(Box::new(play(reply)) as Box<dyn Io>)
        })
    }

    fn connect_if_listening(&self) -> Pending<'_, Option<Box<dyn Io>>> {
        Box::pin(async { Ok(None) })
    }
}

fn play(reply: String) -> DuplexStream {
    let (ours, mut theirs) = tokio::io::duplex(64 << 10);
    tokio::spawn(async move {
        let _ = theirs.read(&mut [0; 4096]).await;
        let _ = theirs.write_all(reply.as_bytes()).await;
    });
    ours
}

fn reply(status: &str, version: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{VERSION_HEADER}: {version}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn refusal(status: u16, code: Code) -> String {
    let problem = Problem { status, ..Problem::new(code, "because") };
    reply(&format!("{status} No"), VERSION, &serde_json::to_string(&problem).unwrap())
}

fn group_page() -> String {
    reply("200 OK", VERSION, r#"{"items":[],"next_cursor":null}"#)
}

type Heard = Arc<Mutex<Vec<String>>>;

fn client(replies: &[String]) -> (Client, Heard, Arc<Mutex<u32>>) {
    let script = Script::new(replies);
    let (heard, connected) = (Heard::default(), Arc::clone(&script.connected));
    let told = Arc::clone(&heard);
    let client = Client::new(script, move |notice: Notice<'_>| {
        told.lock().unwrap().push(format!("{notice:?}"));
    });
    (client, heard, connected)
}

#[tokio::test]
async fn a_client_can_be_shared_between_threads() {
    fn is_send_and_sync<T: Send + Sync + 'static>(_: &T) {}
    let (client, ..) = client(&[group_page()]);
    is_send_and_sync(&client);
    let call = lastword_client::groups::list();
    let page = tokio::spawn(async move { client.call(&call).await }).await.unwrap().unwrap();
    assert!(page.items.is_empty());
}

#[tokio::test]
async fn a_call_is_made_again_when_its_daemon_goes_away_starts_or_stops() {
    let (client, heard, connected) = client(&[
        String::new(),
        refusal(503, Code::Starting),
        refusal(503, Code::Full),
        refusal(503, Code::Stopping),
        refusal(503, Code::Stopping),
        group_page(),
    ]);
    client.call(&lastword_client::groups::list()).await.unwrap();
    assert_eq!((*connected.lock().unwrap(), heard.lock().unwrap().len()), (6, 0));
}

#[tokio::test]
async fn a_daemon_that_crashes_at_each_call_is_given_up() {
    let (client, ..) = client(&vec![String::new(); 10]);
    let error = client.call(&lastword_client::groups::list()).await.unwrap_err();
    assert!(matches!(&error, Error::WentAway { path, .. } if path == "/v1/groups"), "{error:?}");
}

#[tokio::test]
async fn a_refusal_ends_a_call() {
    let (client, ..) = client(&[refusal(409, Code::Ended), group_page()]);
    let error = client.call(&lastword_client::groups::list()).await.unwrap_err();
    assert!(matches!(&error, Error::Refused(problem) if problem.code == Code::Ended), "{error:?}");
}

#[tokio::test]
async fn another_version_is_noticed_once_and_a_stranger_is_refused() {
    let other = reply("200 OK", "9.9.9", r#"{"items":[],"next_cursor":null}"#);
    let (client, heard, _) = client(&[other.clone(), other, "HTTP/1.1 200 OK\r\n\r\n{}".to_owned()]);
    for _ in 0..2 {
        client.call(&lastword_client::groups::list()).await.unwrap();
    }
    assert_eq!(*heard.lock().unwrap(), [format!("{:?}", Notice::OtherVersion("9.9.9"))]);
    let error = client.call(&lastword_client::groups::list()).await.unwrap_err();
    assert!(matches!(error, Error::NotADaemon), "{error:?}");
}

#[tokio::test]
async fn one_connection_tells_a_call_that_was_cut_from_one_that_was_not_sent() {
    let mut connection = Connection::open(play(String::new())).await.unwrap();
    let cut = connection.send(&daemon::show()).await.unwrap_err();
    assert!(matches!(cut, Lost::Cut(_)), "{cut:?}");
    let late = connection.send(&daemon::show()).await.unwrap_err();
    assert!(matches!(late, Lost::NotSent(_)), "{late:?}");
}
