//! `--json` of every verb: each prints one shape, whatever it is asked about.

use serde_json::Value;

use crate::agents::{define, until_asks};
use crate::home::{Home, run_command};
use crate::worktree::Repository;

/// What a verb prints with `--json`.
enum Shape {
    /// One document with these fields.
    One(&'static [&'static str]),
    /// One document with a list.
    Items,
    /// A document per line, of these types.
    Lines(&'static [&'static str]),
    /// A document per line, each a job.
    Jobs,
    /// One value.
    Value,
    /// It is refused.
    Refused,
    /// It runs in the foreground and prints nothing.
    Service,
}

use Shape::{Items, Jobs, Lines, One, Refused, Service, Value as Plain};

/// A job.
const JOB: Shape = One(&["id", "phase", "attempts"]);

/// The output of a job between the job before and after it.
const FOLLOWED: Shape = Lines(&["job", "output"]);

/// Every verb, in an order in which each has something to do.
const VERBS: &[(&str, Shape)] = &[
    ("run sh -c \"echo out; echo err >&2\"", FOLLOWED),
    ("run -d --name later --delay 1h true", JOB),
    ("ls -a", Items),
    ("show done", JOB),
    ("logs done", Lines(&["output"])),
    ("logs asker", Lines(&["output"])),
    ("events done", Lines(&["submitted", "last_word"])),
    ("wait done", Jobs),
    ("wait done done", Jobs),
    ("attach done", FOLLOWED),
    ("send reads hello", One(&["input"])),
    ("question asker", Items),
    ("approve asker {0} --always", One(&["input"])),
    ("deny asker {1}", One(&["input"])),
    ("answer asker {2} because", One(&["input"])),
    ("rule ls asker", Items),
    ("rule rm asker r1", Items),
    ("interrupt asker", JOB),
    ("retry done", FOLLOWED),
    ("retry -d done", JOB),
    ("wait done", Jobs),
    ("resume talked again", FOLLOWED),
    ("resume -d talked again", JOB),
    ("diff changes", One(&["files"])),
    ("apply changes", One(&["files"])),
    ("limit reads wall=1h", JOB),
    ("label reads team=a", One(&["team"])),
    ("group ls", Items),
    ("group set builds --slots 1", One(&["name"])),
    ("group pause builds", One(&["name"])),
    ("group resume builds", One(&["name"])),
    ("group rm builds", One(&["name"])),
    ("cancel later", Items),
    ("cancel later done", Items),
    ("cancel --label team=a", Items),
    ("kill reads", Items),
    ("rm later", Items),
    ("prune -y --older-than 7d", One(&["removed"])),
    ("result done", One(&["text"])),
    ("seen done", One(&["seen"])),
    ("abandon -y done", JOB),
    ("doctor", Items),
    ("config show", Items),
    ("config get grace", Plain),
    ("config set grace 4s", One(&["key", "value"])),
    ("config path", One(&["path"])),
    ("prices", One(&["source", "models"])),
    ("completion bash", Refused),
    ("man run", Refused),
    ("version", One(&["version"])),
    ("daemon run", Service),
    ("daemon status", One(&["pid"])),
    ("daemon restart", One(&["pid"])),
    ("daemon stop", One(&["stopped"])),
    ("daemon stop", One(&["stopped"])),
    ("daemon start", One(&["pid"])),
    ("daemon install", Items),
    ("daemon uninstall", Items),
];

/// Returns the verbs that a help page lists.
fn listed(home: &Home, verb: &[&str]) -> Vec<String> {
    let help = home.ok(&[verb, &["--help"]].concat());
    let list =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn every_verb_is_in_the_table() {
    let home = Home::new();
    for verb in listed(&home, &[]) {
        let below = listed(&home, &[&verb]);
        let all = if below.is_empty() {
            vec![verb.clone()]
        } else {
            below.iter().map(|word| format!("{verb} {word}")).collect()
        };
        for verb in all {
            let is_known =
                VERBS.iter().any(|(words, _)| format!("{words} ").starts_with(&format!("{verb} ")));
            assert!(is_known, "`{verb}` needs an entry in VERBS: what does it print with --json?");
        }
    }
}

/// Starts the jobs that the table is about, and returns the names of the open questions.
fn prepare(repository: &Repository) -> Vec<String> {
    let home = &repository.home;
    let script = |name: &str| format!("['python3', '{}/tests/e2e/{name}.py']", env!("CARGO_MANIFEST_DIR"));
    let (echo, asker) = (script("scripted_agent"), script("scripted_asker"));
    define(
        home,
        &format!(
            "[echo]\ndialect = 'acp'\ncommand = {echo}\n[asker]\ndialect = 'codex'\ncommand = {asker}\n"
        ),
    );
    home.ok(&["run", "--name", "done", "echo", "out"]);
    home.ok(&["run", "-d", "-i", "--name", "reads", "cat"]);
    home.ok(&["run", "--agent", "echo", "--name", "talked", "hello"]);
    let mut command = home.command(&["run", "--worktree", "--name", "changes", "sh", "-c", "echo more >> a"]);
    command.current_dir(&repository.top);
    assert_eq!(run_command(command).code, 0);
    let prompt = "permit make a\npermit make b\nwords why\nchoose which";
    home.ok(&["run", "-d", "--agent", "asker", "--name", "asker", prompt]);
    until_asks(home, "asker", 4).iter().map(|asked| asked["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_verb_prints_json_in_one_shape() {
    let repository = Repository::new();
    let home = &repository.home;
    let questions = prepare(&repository);
    for (line, shape) in VERBS {
        let mut words: Vec<String> = match line.split_once(" sh -c ") {
            Some((verb, script)) => {
                let verb = verb.split(' ').map(str::to_owned);
                verb.chain(["sh".to_owned(), "-c".to_owned(), script.trim_matches('"').to_owned()]).collect()
            }
            None => line.split(' ').map(str::to_owned).collect(),
        };
        for (number, name) in questions.iter().enumerate() {
            words
                .iter_mut()
                .filter(|word| **word == format!("{{{number}}}"))
                .for_each(|word| name.clone_into(word));
        }
        let words: Vec<&str> = ["--json"].into_iter().chain(words.iter().map(String::as_str)).collect();
        if matches!(shape, Service) {
            continue;
        }
        let mut command = home.command(&words);
        command.current_dir(&repository.top);
        let output = run_command(command);
        let documents: Vec<Value> = output
            .stdout
            .lines()
            .map(|text| {
                serde_json::from_str(text).unwrap_or_else(|error| panic!("{line}: {error}: {output:?}"))
            })
            .collect();
        let has =
            |document: &Value, fields: &[&str]| fields.iter().all(|field| document.get(field).is_some());
        let types = |wanted: &[&str]| {
            let found: Vec<&str> =
                documents.iter().filter_map(|document| document["type"].as_str()).collect();
            found.len() == documents.len() && wanted.iter().all(|kind| found.contains(kind))
        };
        let fits = match shape {
            One(fields) => documents.len() == 1 && has(&documents[0], fields),
            Items => {
                documents.len() == 1
                    && documents[0]["items"].is_array()
                    && has(&documents[0], &["next_cursor"])
            }
            Lines(wanted) => types(wanted),
            Jobs => documents.iter().all(|document| has(document, &["id", "phase"])),
            Plain => documents.len() == 1,
            Refused => documents.is_empty() && output.code == 2,
            Service => true,
        };
        assert!(fits, "{line}: {output:?}");
        assert!(
            output.code == 0 || matches!(shape, Refused) || line.starts_with("doctor"),
            "{line}: {output:?}"
        );
    }
}

#[test]
fn documents_of_output_are_its_lines_and_a_long_line_comes_in_parts() {
    let home = Home::new();
    let id = home.start(
        "printf 'a\\n\\303\\244'; head -c 150000 /dev/zero | tr '\\0' x; printf '\\nend'; echo err >&2",
    );
    home.ok(&["wait", &id]);
    let logs = home.ok(&["logs", &id, "--json"]);
    let lines: Vec<Value> = logs.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |stream: &str| {
        let texts =
            lines.iter().filter(|line| line["stream"] == stream).map(|line| line["text"].as_str().unwrap());
        texts.map(str::to_owned).collect::<Vec<String>>()
    };
    let (out, err) = (of("stdout"), of("stderr"));
    assert_eq!(out.concat(), format!("a\nä{}\nend", "x".repeat(150_000)));
    assert_eq!((out.len(), &*out[0], &*out[4], err), (5, "a\n", "end", vec!["err\n".to_owned()]));
    assert!(lines.iter().all(|line| line["attempt"] == 1 && line["type"] == "output"));
    let followed = home.run(&["--json", "run", "sh", "-c", "echo out; exit 3"]);
    assert_eq!((followed.code, followed.stderr.as_str()), (3, ""));
    let last: Value = serde_json::from_str(followed.stdout.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["job"]["outcome"]), (&"job".into(), &"failed".into()));
}
