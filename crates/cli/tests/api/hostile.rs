//! What no client of ours would do: too much, too slow, malformed, or as another user.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use lastword_server::Endpoint;
use lastword_store::sqlite::Sqlite;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use super::Home;
use super::client::{Client, read};

#[test]
fn a_body_that_is_too_large_is_refused_with_the_reason() {
    let home = Home::new();
    let daemon = home.start();
    let large = |bytes: usize| format!("{{\"text\":\"{}\"}}", "x".repeat(bytes)).into_bytes();
    let id = daemon.run("sleep 100");
    let path = format!("/v1/jobs/{id}/labels");
    let answer = daemon.client.request("PATCH", &path, &[], &large((1 << 20) + 1));
    assert_eq!(answer.problem(), (413, "too_large".to_owned()));
    let mut asked = daemon.script("exit 0");
    asked["env"]["BIG"] = json!("x".repeat((1 << 20) + (1 << 19)));
    assert_eq!(daemon.client.post("/v1/jobs", &asked).status, 202, "an environment may be larger");
    asked["env"]["BIG"] = json!("x".repeat(2 << 20));
    assert_eq!(daemon.client.post("/v1/jobs", &asked).problem(), (413, "too_large".to_owned()));
    // A client that writes all of it before it reads gets the reason too, not a broken connection.
    let answer = daemon.client.request("PATCH", &path, &[], &large(8 << 20));
    assert_eq!(answer.problem(), (413, "too_large".to_owned()));
    // Without a length, the body is counted while it is read.
    let mut socket = daemon.client.connect();
    let head = format!(
        "PATCH {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(1 << 16));
    for _ in 0..17 {
        let _ = socket.write_all(chunk.as_bytes());
    }
    assert_eq!(read(socket).0.problem(), (413, "too_large".to_owned()));
}

#[test]
fn an_unknown_parameter_is_refused_whatever_is_asked() {
    let home = Home::new();
    let daemon = home.start();
    let id = daemon.run("sleep 100");
    for (method, path) in [
        ("GET", "/livez".to_owned()),
        ("GET", "/readyz".to_owned()),
        ("GET", "/openapi.json".to_owned()),
        ("GET", "/v1/daemon".to_owned()),
        ("POST", "/v1/jobs".to_owned()),
        ("GET", "/v1/jobs".to_owned()),
        ("POST", "/v1/jobs:cancel".to_owned()),
        ("GET", format!("/v1/jobs/{id}")),
        ("DELETE", format!("/v1/jobs/{id}")),
        ("POST", format!("/v1/jobs/{id}:cancel")),
        ("POST", format!("/v1/jobs/{id}:retry")),
        ("PATCH", format!("/v1/jobs/{id}/limits")),
        ("GET", format!("/v1/jobs/{id}/events")),
        ("GET", format!("/v1/jobs/{id}/output")),
        ("GET", format!("/v1/jobs/{id}/result")),
        ("GET", "/v1/groups".to_owned()),
    ] {
        let answer = daemon.client.request(method, &format!("{path}?patience=5s"), &[], b"{}");
        assert_eq!(answer.problem(), (400, "invalid".to_owned()), "{method} {path}");
    }
    assert!(daemon.start_of(&id)["stop"].is_null(), "nothing was done");
}

#[test]
fn a_body_that_is_not_json_is_refused() {
    let home = Home::new();
    let daemon = home.start();
    let deep = "[".repeat(100_000);
    for body in [
        "{",
        "[]",
        "null",
        "{\"argv\": 5}",
        "{\"argv\": [\"true\"], \"cwd\": \"/\", \"shell\": true}",
        "\u{0}",
        &deep,
    ] {
        let answer = daemon.client.request("POST", "/v1/jobs", &[], body.as_bytes());
        assert_eq!(answer.problem(), (400, "invalid".to_owned()), "{:.40}", body);
    }
    let mut socket = daemon.client.connect();
    let body = daemon.script("exit 0").to_string();
    let length = body.len();
    let text = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    socket.write_all(text.as_bytes()).unwrap();
    assert_eq!(read(socket).0.problem(), (415, "invalid".to_owned()));
    assert_eq!(super::each(&daemon.client.get("/v1/jobs").expect(200), "id"), [""; 0]);
}

#[test]
fn a_connection_that_does_not_speak_http_is_closed() {
    let home = Home::new();
    let daemon = home.start();
    let garbage: [&[u8]; 6] = [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: nonsense\r\n\r\n{}",
        b"\0\0\0\0\r\n\r\n",
    ];
    for bytes in garbage {
        let mut socket = daemon.client.connect();
        socket.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let mut socket = daemon.client.connect();
    let many = "x-h: y\r\n".repeat(20_000);
    let _ = socket.write_all(format!("GET /livez HTTP/1.1\r\n{many}\r\n").as_bytes());
    let mut answer = String::new();
    let _ = socket.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_eq!(daemon.client.get("/livez").status, 204);
}

#[test]
fn a_slow_client_is_disconnected_and_does_not_delay_others() {
    let home = Home::new();
    let daemon = home.start();
    let begin = Instant::now();
    let mut half_a_head = daemon.client.connect();
    half_a_head.write_all(b"GET /v1/jobs HTTP/1.1\r\nhost:").unwrap();
    let mut silent = daemon.client.connect();
    let mut half_a_body = daemon.client.connect();
    let head =
        "POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    half_a_body.write_all(head.as_bytes()).unwrap();
    assert_eq!(daemon.client.get("/v1/jobs").status, 200, "others are answered meanwhile");
    let (answer, _) = read(half_a_body);
    assert_eq!(answer.problem(), (408, "invalid".to_owned()));
    let mut answer = String::new();
    let _ = half_a_head.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert_eq!(silent.read(&mut [0; 1]).unwrap_or(0), 0);
    assert!(begin.elapsed() < Duration::from_secs(40));
}

#[test]
fn too_many_connections_are_refused_until_some_close() {
    // Both ends of each connection are in this process.
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let home = Home::new();
    let daemon = home.start();
    let held: Vec<_> = (0..2_048).map(|_| daemon.client.connect()).collect();
    let (answer, rest) = read(daemon.client.connect());
    assert_eq!((answer.status, answer.headers["retry-after"].as_str(), rest.len()), (503, "1", 0));
    assert_eq!(answer.json()["code"], "full");
    drop(held);
    crate::common::until("connections are accepted again", || {
        (daemon.client.get("/livez").status == 204).then_some(())
    });
}

#[test]
fn another_user_is_refused_even_if_the_socket_mode_allows_it() {
    if !rustix::process::geteuid().is_root() {
        #[expect(clippy::print_stdout, reason = "the output says why the test was skipped")]
        {
            println!("skipped: only root can become another user");
        }
        return;
    }
    let home = Home::new();
    std::fs::set_permissions(home.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = home.path("open.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let journal = Sqlite::open(&home.path("journal")).unwrap();
    let mut daemon = home.start_on(journal, move || Endpoint::from_listener(listener).unwrap());
    daemon.client = Client::new(&path);
    daemon.until_ready();
    let script = format!(
        r#"perl -MSocket -e '$) = "65534 65534"; $> = 65534; socket(S, PF_UNIX, SOCK_STREAM, 0);
        connect(S, sockaddr_un("{}")) or die "connect: $!";
        for my $path ("/livez", "/v1/daemon", "/v1/jobs") {{
            syswrite(S, "GET $path HTTP/1.1\r\nhost: x\r\n\r\n"); sysread(S, $_, 65536); print "$_\n";
        }}'"#,
        path.display()
    );
    #[expect(clippy::disallowed_methods, reason = "a process that is not one of our jobs")]
    let said = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout);
    assert_eq!(said.matches("HTTP/1.1 403").count(), 3, "{said}");
    assert_eq!(said.matches("\"code\":\"forbidden\"").count(), 3, "{said}");
    assert!(path.exists(), "a socket created by another process is not removed");
}

#[test]
fn a_foreign_socket_is_not_removed() {
    let home = Home::new();
    let daemon = home.start();
    std::fs::remove_file(home.socket()).unwrap();
    let _another = std::os::unix::net::UnixListener::bind(home.socket()).unwrap();
    daemon.leave();
    assert!(home.socket().exists());
}
