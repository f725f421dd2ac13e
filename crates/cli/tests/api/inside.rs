//! Requests from inside a job: it may access itself and its descendants, and nothing else.

use serde_json::{Value, json};

use super::{Daemon, Home, id_of};
use crate::common::until;

/// Sends a request and prints the answer; sends it again while the daemon does not know yet which job it comes from.
const ASK: &str = r#"
use Socket;
my ($path, $method, $target, $body) = @ARGV;
$body //= "";
my $length = length $body;
my $type = $length ? "content-type: application/json\r\n" : "";
my $request = "$method $target HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${type}content-length: $length\r\n\r\n$body";
my ($answer, $tries);
do {
    socket(my $socket, PF_UNIX, SOCK_STREAM, 0) or die;
    connect($socket, sockaddr_un($path)) or die "connect: $!";
    syswrite($socket, $request) == length $request or die "write: $!";
    $answer = join "", <$socket>;
    $answer or die "no answer: $!";
    select undef, undef, undef, 0.05;
} while $answer =~ /"code":"starting"/ && ++$tries < 600;
print $answer;
"#;

/// A job that sends the requests it is told to, one after the other.
struct Insider<'a> {
    daemon: &'a Daemon,
    home: &'a Home,
    id: String,
    asked: u32,
}

impl<'a> Insider<'a> {
    fn new(daemon: &'a Daemon, home: &'a Home) -> Insider<'a> {
        std::fs::write(home.path("ask.pl"), ASK).unwrap();
        let mut asked = daemon.script("while read -r line; do eval \"$line\"; done");
        asked["io"] = json!({ "kind": "pipe" });
        let id = daemon.submit(&asked);
        daemon.start_of(&id);
        Insider { daemon, home, id, asked: 0 }
    }

    /// Sends a request from inside the job, from a process that left its session and lost its parents.
    fn ask(&mut self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.asked += 1;
        let name = format!("answer.{}", self.asked);
        let socket = self.home.socket();
        let line = format!(
            "(setsid perl ask.pl {} {method} '{path}' '{body}' >{name}.part 2>&1; mv {name}.part {name}) &\n",
            socket.display()
        );
        self.daemon
            .client
            .post(&format!("/v1/jobs/{}/messages", self.id), &json!({ "text": line }))
            .expect(202);
        let text = until("there is an answer", || std::fs::read_to_string(self.home.path(&name)).ok());
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

#[test]
fn a_job_may_access_itself_and_its_children() {
    let home = Home::new();
    let daemon = home.start();
    let mut insider = Insider::new(&daemon, &home);
    let me = insider.id.clone();
    let mut asked = daemon.script("echo child; sleep 100");
    asked["name"] = json!("child");
    let (status, child) = insider.ask("POST", "/v1/jobs", &asked.to_string());
    assert_eq!(status, 202, "{child}");
    assert_eq!((&child["parent"], &child["by"]), (&json!(me), &json!(me)));
    let id = id_of(&child);
    daemon.start_of(&id);
    for path in
        [format!("/v1/jobs/{me}"), format!("/v1/jobs/{id}?wait=10ms"), "/v1/jobs/child/events".to_owned()]
    {
        assert_eq!(insider.ask("GET", &path, "").0, 200, "{path}");
    }
    assert_eq!(insider.ask("GET", &format!("/v1/jobs/{id}/output?wait=10s"), "").0, 200);
    assert_eq!(insider.ask("GET", "/v1/daemon", "").0, 200);
    let (status, job) = insider.ask("POST", &format!("/v1/jobs/{id}:cancel"), r#"{"wait_ms":30000}"#);
    assert_eq!((status, &job["outcome"], &job["stop"]["by"]), (200, &json!("cancelled"), &json!(me)));
}

#[test]
fn a_job_may_access_grandchildren_but_no_other_jobs() {
    let home = Home::new();
    let daemon = home.start();
    let stranger = daemon.run("sleep 100");
    let mut insider = Insider::new(&daemon, &home);
    let script = "perl ask.pl run/lastword.sock POST /v1/jobs \"$(cat grandchild.json)\" >grandchild.part; \
                  mv grandchild.part grandchild; sleep 100";
    std::fs::write(home.path("grandchild.json"), daemon.script("sleep 100").to_string()).unwrap();
    let (status, child) = insider.ask("POST", "/v1/jobs", &daemon.script(script).to_string());
    assert_eq!(status, 202, "{child}");
    let answer =
        until("the child has a child, too", || std::fs::read_to_string(home.path("grandchild")).ok());
    let grandchild: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(grandchild["parent"], child["id"], "{answer}");
    assert_eq!(insider.ask("GET", &format!("/v1/jobs/{}", id_of(&grandchild)), "").0, 200);
    let me = insider.id.clone();
    let after = json!({ "argv": ["true"], "cwd": "/", "after": [{ "job": stranger }] }).to_string();
    for (method, path, body) in [
        ("GET", format!("/v1/jobs/{stranger}"), ""),
        ("GET", format!("/v1/jobs/{stranger}/output"), ""),
        ("GET", format!("/v1/jobs/{stranger}/events"), ""),
        ("GET", format!("/v1/jobs/{stranger}/result"), ""),
        ("POST", format!("/v1/jobs/{stranger}:cancel"), "{}"),
        ("POST", format!("/v1/jobs/{stranger}/messages"), "{}"),
        ("POST", format!("/v1/jobs/{me}:retry"), "{}"),
        ("POST", format!("/v1/jobs/{me}:abandon"), ""),
        ("DELETE", format!("/v1/jobs/{me}"), ""),
        ("PATCH", format!("/v1/jobs/{me}/limits"), r#"{"wall_ms":0}"#),
        // No job raises a limit, not even that of its own jobs.
        (
            "POST",
            format!("/v1/jobs/{}/answers", id_of(&grandchild)),
            r#"{"question":"output-0000","words":["1G"]}"#,
        ),
        ("POST", "/v1/jobs".to_owned(), &after),
        ("POST", "/v1/jobs:cancel".to_owned(), r#"{"all":true}"#),
        ("POST", "/v1/jobs:prune".to_owned(), "{}"),
        ("GET", "/v1/jobs".to_owned(), ""),
        ("GET", "/v1/events".to_owned(), ""),
        ("GET", "/v1/groups".to_owned(), ""),
        ("PUT", "/v1/groups/default".to_owned(), r#"{"paused":true}"#),
        ("DELETE", "/v1/groups/x".to_owned(), ""),
        ("POST", "/v1/daemon:stop".to_owned(), r#"{"jobs":"cancel"}"#),
    ] {
        let (status, problem) = insider.ask(method, &path, body);
        assert_eq!((status, &problem["code"]), (403, &json!("inside_a_job")), "{method} {path}: {problem}");
    }
}

#[test]
fn a_job_does_not_get_more_rights_by_its_depth() {
    let home = Home::new();
    let daemon = home.start();
    std::fs::write(home.path("ask.pl"), ASK).unwrap();
    // Each shell waits for its child, so that all of them are ancestors of the last one.
    let nest = "if [ $1 -gt 0 ]; then sh nest.sh $(($1 - 1)); else perl ask.pl run/lastword.sock GET /v1/jobs; fi; exit $?\n";
    std::fs::write(home.path("nest.sh"), nest).unwrap();
    let script = "sh nest.sh 1100 >answer.part 2>&1; mv answer.part answer";
    daemon.run(script);
    let answer = until("there is an answer", || std::fs::read_to_string(home.path("answer")).ok());
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[test]
fn a_job_learns_nothing_about_other_jobs_from_a_reference() {
    let home = Home::new();
    let daemon = home.start();
    let stranger = daemon.run("sleep 100");
    let mut insider = Insider::new(&daemon, &home);
    // The beginning of both ids.
    let both = &stranger[..6];
    assert!(insider.id.starts_with(both) && stranger.starts_with(both));
    let (status, problem) = insider.ask("GET", &format!("/v1/jobs/{both}"), "");
    assert_eq!((status, &problem["code"]), (403, &json!("inside_a_job")), "{problem}");
    assert!(!problem.to_string().contains(&stranger), "{problem}");
}

#[test]
fn a_job_says_how_far_it_is_and_nothing_else_can_say_it() {
    let home = Home::new();
    let daemon = home.start();
    let said = r#"{"text":"3 of 12","result":"so far so good"}"#;
    let outside = daemon.client.request("POST", "/v1/progress", &[], said.as_bytes());
    assert_eq!(outside.problem(), (403, "forbidden".to_owned()));
    let mut insider = Insider::new(&daemon, &home);
    let me = insider.id.clone();
    assert_eq!(insider.ask("POST", "/v1/progress", said).0, 204);
    let job = daemon.client.get(&format!("/v1/jobs/{me}")).expect(200);
    assert_eq!(job["progress"]["text"], "3 of 12");
    let row = &daemon.client.get("/v1/jobs").expect(200)["items"][0];
    assert_eq!((&row["id"], &row["progress"]), (&json!(me), &json!("3 of 12")));
    let (status, problem) = insider.ask("POST", "/v1/progress", r#"{"text":"two\nlines"}"#);
    assert_eq!((status, &problem["code"]), (400, &json!("invalid")), "{problem}");
    let (status, problem) = insider.ask("POST", "/v1/progress", "{}");
    assert_eq!((status, &problem["code"]), (400, &json!("invalid")), "{problem}");
    let events = daemon.client.get(&format!("/v1/jobs/{me}/events")).expect(200);
    let told: Vec<&Value> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "progress_reported")
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["data"], json!({ "text": "3 of 12", "result_bytes": 14 }), "the event is short");
    daemon.client.post(&format!("/v1/jobs/{me}:cancel"), &json!({})).expect(202);
    daemon.end_of(&me);
    let result = daemon.client.get(&format!("/v1/jobs/{me}/result")).expect(200);
    assert_eq!(result["reported"], "so far so good");
}
