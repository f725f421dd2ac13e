//! The trial inside the namespaces: a daemon with jobs, then rounds of requests until there were enough.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::clock;
use crate::product::Product;

/// The user that the daemon belongs to, if root runs the trial.
const USER: u32 = 54_321;

/// The document that the daemon serves.
const DOCUMENT: &str = include_str!("../../../../docs/reference/openapi.json");

/// The hooks of schemathesis.
const HOOKS: &str = include_str!("hooks.py");

/// An agent that follows its prompt.
const AGENT: &str = include_str!("../../../cli/tests/e2e/scripted_agent.py");

/// Requests that the systematic phases of schemathesis make, roughly, and operations that it can make up any number of requests for.
const SYSTEMATIC: u64 = 1_200;
const OPERATIONS: u64 = 20;

/// Requests of a round per operation: fewer are not worth the start, and more would make a long round.
const ROUND: std::ops::RangeInclusive<u64> = 10..=200;

/// What is not checked: that the server accepts whatever fits the document, which does not say which jobs there are or which fields
/// exclude each other; and that a job stays until its test removes it, since the requests of other tests may.
const UNCHECKED: &str = "positive_data_acceptance,ensure_resource_availability,use_after_free";

/// The longest until a job has come so far.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(5);

/// Where the trial runs, and with what.
pub(super) struct Setup {
    pub(super) place: PathBuf,
    pub(super) schemathesis: PathBuf,
    pub(super) lastword: PathBuf,
    pub(super) cases: u64,
    pub(super) seed: u64,
    /// The bug that the product has switched on.
    pub(super) bug: Option<String>,
}

/// Requests by operation and status.
type Counts = BTreeMap<(String, u64), u64>;

pub(super) fn run(setup: &Setup) -> Result<(), String> {
    let product = install(setup)?;
    let jobs = start_jobs(&product)?;
    let mut counts = Counts::new();
    let mut round = 0;
    let result = loop {
        let left = setup.cases.saturating_sub(counts.values().sum());
        if left == 0 {
            break Ok(());
        }
        if let Err(why) = requests(setup, &product, &jobs, round, left, &mut counts) {
            break Err(why);
        }
        round += 1;
    };
    product.tear_down();
    report(&counts, result.is_ok());
    result
}

/// Installs the product, for an ordinary user if this is root.
fn install(setup: &Setup) -> Result<Product, String> {
    // A folder of its own: whatever is named after it is ended with the product, and this process is named after `place`.
    let folder = setup.place.join("product");
    let home = folder.join("home");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let product = match &setup.bug {
        None => Product::install(&setup.lastword, &folder, &home)?,
        // A program has the bug switched on that it is called after.
        Some(bug) => {
            let program = folder.join(format!("lastword.{bug}"));
            fs::copy(&setup.lastword, &program).map_err(|error| format!("{}: {error}", program.display()))?;
            Product::at(program, &folder, &home)?
        }
    };
    let write = |name: &str, text: &str| {
        let path = setup.place.join(name);
        let written = fs::write(&path, text)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o644)));
        written.map(|()| path.display().to_string()).map_err(|error| format!("{name}: {error}"))
    };
    write("openapi.json", DOCUMENT)?;
    write("hooks.py", HOOKS)?;
    let agent = write("agent.py", AGENT)?;
    let agents = format!("[scripted]\ndialect = 'acp'\ncommand = ['/usr/bin/python3', '{agent}']\n");
    write("product/home/agents.toml", &agents)?;
    match is_for_user() {
        true => product.given_to(USER),
        false => Ok(product),
    }
}

/// Reports whether the daemon gets a user of its own: in a user namespace there is only one.
fn is_for_user() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().nth(2).is_some_and(|count| count != "1")
}

/// Starts the daemon and jobs of every kind, and returns their names.
fn start_jobs(product: &Product) -> Result<Vec<&'static str>, String> {
    product.said(&["daemon", "start"])?;
    product.said(&["run", "--name", "ended", "--", "echo", "hello"])?;
    product.said(&["run", "-d", "--name", "running", "--label", "kind=long", "--", "sleep", "10000"])?;
    product.said(&["run", "-d", "-i", "--name", "input", "--", "cat"])?;
    product.said(&["run", "-d", "--name", "waiting", "--after", "running", "--", "true"])?;
    product.said(&["run", "-d", "--name", "asking", "--agent", "scripted", "ask make test"])?;
    let asks = || {
        let shown = product.said(&["--json", "show", "asking"]).ok()?;
        let shown: Value = serde_json::from_str(&shown).ok()?;
        shown["session"]["questions"].as_array().is_some_and(|asked| !asked.is_empty()).then_some(())
    };
    clock::until(PATIENCE, LOOK, asks).ok_or("the agent asks nothing")?;
    Ok(vec!["ended", "running", "input", "waiting", "asking"])
}

/// Makes a round of requests, and counts them. The first round is also systematic: each bound, each missing part, each other method.
fn requests(
    setup: &Setup,
    product: &Product,
    jobs: &[&str],
    round: u64,
    left: u64,
    counts: &mut Counts,
) -> Result<(), String> {
    let path = |name: &str| setup.place.join(name).display().to_string();
    let report = path(&format!("report-{round}.json"));
    let is_first = round == 0;
    let phases = if is_first { "examples,coverage,fuzzing,stateful" } else { "fuzzing" };
    let random = if is_first { left.saturating_sub(SYSTEMATIC) } else { left };
    let examples = (random.div_ceil(OPERATIONS)).clamp(*ROUND.start(), *ROUND.end());
    let mut command = Command::new(&setup.schemathesis);
    command.args(["run", &path("openapi.json"), "--url", "http://localhost", "--no-color"]);
    command.args(["--seed", &(setup.seed + round).to_string(), "--max-examples", &examples.to_string()]);
    command.args(["--phases", phases, "--exclude-checks", UNCHECKED, "--warnings", "off"]);
    command.args(["--suppress-health-check", "all", "--generation-database", "none", "--no-shrink"]);
    command
        .args(["--request-timeout", "30", "--output-sanitize", "false"])
        .current_dir(&setup.place)
        .stdin(Stdio::null());
    command.env("SCHEMATHESIS_HOOKS", "hooks").env("PYTHONPATH", &setup.place);
    command.env("API_PROGRAM", product.program()).env("API_HOME", product.home());
    command.env("API_REPORT", &report).env("API_JOBS", json!(jobs).to_string());
    if is_for_user() {
        command.env("API_USER", USER.to_string());
    }
    let said = command.output().map_err(|error| format!("{}: {error}", setup.schemathesis.display()))?;
    let counted = fs::read_to_string(&report).unwrap_or_default();
    let rows: Vec<(String, u64, u64)> = serde_json::from_str(&counted).unwrap_or_default();
    for (operation, status, count) in rows.iter().cloned() {
        *counts.entry((operation, status)).or_default() += count;
    }
    let text = String::from_utf8_lossy(&said.stdout);
    match said.status.success() {
        true if rows.is_empty() => Err(format!("no request was made: {text}")),
        true => Ok(()),
        false => Err(format!("{}\n{}", text.trim(), String::from_utf8_lossy(&said.stderr).trim())),
    }
}

/// Prints how many requests each operation got, and how they were answered.
fn report(counts: &Counts, is_whole: bool) {
    let mut operations: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ((operation, status), count) in counts {
        operations.entry(operation).or_default().push(format!("{count} × {status}"));
    }
    for (operation, answers) in operations {
        println!("{operation:<34} {}", answers.join(", "));
    }
    let word = if is_whole { "all as documented" } else { "not all as documented" };
    println!("{} requests, {word}", counts.values().sum::<u64>());
}
