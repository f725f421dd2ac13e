//! A repository against the user that runs jobs in it: a profile that no person has read, and an agent that edits one.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::attempt::{Attempt, Ends};
use super::bug::Bug;
use super::setup::{OWNER, Setup, at, says, text};

#[rustfmt::skip] // One row, one attempt.
pub(super) const ATTEMPTS: &[Attempt] = &[
    Attempt { item: 24, what: "a repository chooses agent, model, arguments, variables, group and limits by a profile", ends: Ends::Refused, make: choose_untrusted },
    Attempt { item: 24, what: "an agent edits the profile that its user trusts", ends: Ends::Refused, make: edit_trusted },
    Attempt { item: 24, what: "an agent trusts a profile from inside its job", ends: Ends::Refused, make: trust_inside },
    Attempt { item: 24, what: "a job writes the record by which its user trusts a profile", ends: Ends::Limit("A job runs as you"), make: write_record },
];

/// Everything that a profile can set. No job could start, since no variable has that name.
const GREEDY: &str = "agent = 'parrot'\nmodel = 'dearest'\nargs = ['--all']\ngroup = 'theirs'\nenv = ['NO_SUCH_VARIABLE']\n\
                      labels.by = 'them'\nlimits.wall = '90d'\nworktree = true\n";

/// The wall clock limit of the profiles, 90 days. Jobs of agents have one of their own.
const WALL_MS: u64 = 7_776_000_000;

/// A repository of the user, with a profile.
struct Repository<'a> {
    setup: &'a Setup,
    top: PathBuf,
}

impl<'a> Repository<'a> {
    fn new(setup: &'a Setup, name: &str, profile: &str) -> Result<Repository<'a>, String> {
        let top = setup.folder(name, OWNER, 0o700)?;
        setup.folder(&format!("{name}/.git"), OWNER, 0o700)?;
        let file = top.join(".lastword.toml");
        fs::write(&file, profile).map_err(at(&file))?;
        chown(&file, Some(OWNER), Some(OWNER)).map_err(at(&file))?;
        let agents = setup.home.0.home().join("agents.toml");
        fs::write(
            &agents,
            "[parrot]\ndialect = 'plain'\ncommand = ['echo', '--', '{prompt}']\nmodel = ['{}']\n",
        )
        .map_err(at(&agents))?;
        chown(&agents, Some(OWNER), Some(OWNER)).map_err(at(&agents))?;
        Ok(Repository { setup, top: fs::canonicalize(&top).map_err(at(&top))? })
    }

    fn top(&self) -> &str {
        self.top.to_str().unwrap_or_default()
    }

    /// Runs a job in it, and returns the job with what was said about it.
    fn run(&self, words: &[&str]) -> Result<(Value, String), String> {
        let all = [&["run", "-d", "-C", self.top()], words].concat();
        let output = self.setup.home.0.run(&all)?;
        let (id, said) = (text(&output.stdout), text(&output.stderr));
        match output.status.success() {
            true => Ok((self.setup.home.json(&["show", id.trim()])?, said)),
            false => Err(said),
        }
    }

    /// Runs a script as a job in it, to its end.
    fn script(&self, script: &str) -> Result<String, String> {
        let output = self.setup.home.0.run(&["run", "-C", self.top(), "--", "sh", "-c", script])?;
        Ok(format!("{}{}", text(&output.stdout), text(&output.stderr)))
    }

    /// Trusts its profile, as its user.
    fn trust(&self) -> Result<(), String> {
        let hash = sha256_of(&self.top.join(".lastword.toml"))?;
        self.setup.home.0.said(&["trust", "--hash", &hash, self.top()]).map(drop)
    }

    /// Reports whether the profile as it is now is trusted.
    fn is_trusted(&self) -> Result<bool, String> {
        let all = self.setup.home.json(&["trust", "--ls"])?;
        let mut items = all["items"].as_array().into_iter().flatten();
        Ok(items.any(|item| item["root"] == self.top() && item["state"] == "trusted"))
    }
}

fn sha256_of(file: &Path) -> Result<String, String> {
    let output =
        std::process::Command::new("sha256sum").arg(file).output().map_err(|error| error.to_string())?;
    let text = text(&output.stdout);
    text.split_whitespace().next().map(str::to_owned).ok_or_else(|| format!("sha256sum: {text}"))
}

/// Makes sure that a job has nothing of a profile.
fn is_plain(job: &Value) -> Result<(), String> {
    let is = job["group"] == "default"
        && job["labels"] == serde_json::json!({})
        && job["limits"]["wall_ms"] != WALL_MS
        && job["worktree"].is_null()
        && job["agent"]["model"].is_null();
    if is { Ok(()) } else { Err(format!("the profile counts: {job}")) }
}

fn choose_untrusted(setup: &Setup) -> Result<String, String> {
    let repository = Repository::new(setup, "greedy", GREEDY)?;
    if setup.has(Bug::ProfilesAreTrusted) {
        repository.trust()?;
    }
    let (job, said) = repository.run(&["--", "true"])?;
    is_plain(&job)?;
    if job["agent"] != Value::Null {
        return Err(format!("the profile chose an agent: {job}"));
    }
    // The user names the same agent: it gets neither model nor arguments.
    let (job, _) = repository.run(&["--agent", "parrot", "--", "hello"])?;
    is_plain(&job)?;
    let id = job["id"].as_str().unwrap_or_default();
    setup.home.0.said(&["wait", id])?;
    let printed = setup.home.0.said(&["logs", id])?;
    match printed.trim() {
        "-- hello" => says(&said, "you have not trusted it"),
        other => Err(format!("the agent was started with {other:?}")),
    }
}

fn edit_trusted(setup: &Setup) -> Result<String, String> {
    let repository = Repository::new(setup, "edited", "group = 'ours'\n")?;
    repository.trust()?;
    let (job, _) = repository.run(&["--", "true"])?;
    if job["group"] != "ours" {
        return Err(format!("the trusted profile does not count: {job}"));
    }
    repository
        .script("echo \"limits.wall = '90d'\" >> .lastword.toml; sed -i s/ours/theirs/ .lastword.toml")?;
    if setup.has(Bug::ProfilesAreTrusted) {
        repository.trust()?;
    }
    let (job, said) = repository.run(&["--", "true"])?;
    is_plain(&job)?;
    says(&said, "it has changed since you trusted it")
}

fn trust_inside(setup: &Setup) -> Result<String, String> {
    let repository = Repository::new(setup, "self-made", "group = 'theirs'\n")?;
    if setup.has(Bug::JobsAreNotScoped) {
        repository.trust()?;
    }
    let program = setup.home.0.program().display();
    let unset = "env -u LASTWORD_JOB_ID -u LASTWORD_MARKER -u LASTWORD_ATTEMPT";
    let call = format!("{program} trust --hash $(sha256sum < .lastword.toml | cut -d ' ' -f 1)");
    // The last one is left behind by its parents.
    let ways = [
        call.clone(),
        format!("{unset} {call}"),
        format!("yes | {unset} script -qec '{program} trust' /dev/null"),
        format!("({unset} setsid {call} > out 2>&1 &); until test -s out; do sleep 0.01; done; cat out"),
    ];
    for way in &ways {
        let said = repository.script(way)?;
        if repository.is_trusted()? {
            return Err(format!("a job trusted a profile by `{way}`"));
        }
        says(&said, "`trust` is refused inside a job")?;
    }
    Ok(format!("{} of {} ways are refused", ways.len(), ways.len()))
}

fn write_record(setup: &Setup) -> Result<String, String> {
    let repository = Repository::new(setup, "recorded", "group = 'theirs'\n")?;
    let script = format!(
        "umask 077; mkdir -p {home}/trusted; hash=$(sha256sum < .lastword.toml | cut -d ' ' -f 1); \
         file=$(printf %s \"$PWD\" | sha256sum | cut -d ' ' -f 1); \
         printf '{{\"root\":\"%s\",\"sha256\":\"%s\"}}' \"$PWD\" $hash > {home}/trusted/$file.json",
        home = setup.home.0.home().display()
    );
    repository.script(&script)?;
    let (job, _) = repository.run(&["--", "true"])?;
    match job["group"] == "theirs" {
        true => Ok("the record counts like one of the user's".to_owned()),
        false => Err(format!("the record does not count: {job}")),
    }
}
