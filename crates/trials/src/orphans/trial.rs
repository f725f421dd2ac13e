//! The trial inside the namespaces: agents are started and killed, look-alikes are placed next to what they leave, and the product is
//! judged by which processes survive.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lastword_proc::Identity;
use serde_json::Value;

use super::server;
use crate::agents::install;
use crate::agents::known::{Agent, Home};
use crate::agents::model::Model;
use crate::clock;
use crate::product::figures::{self, Stat};

/// The longest wait until an agent is in the middle of its tool. The slowest takes seven seconds of CPU time.
const START_MAX: Duration = Duration::from_secs(240);

/// The longest wait until killed processes are gone and their orphans are reparented.
const SETTLE_MAX: Duration = Duration::from_secs(20);

/// The polling interval.
const LOOK: Duration = Duration::from_millis(20);

/// What a tool leaves: in the background, in another session, before all others, and started by nohup.
const HOLDS: usize = 4;

/// Where the trial runs, and with what.
pub(super) struct Setup {
    pub(super) place: PathBuf,
    pub(super) cache: PathBuf,
    pub(super) lastword: PathBuf,
    /// The bug that the product has switched on.
    pub(super) bug: Option<String>,
}

/// A running agent.
struct Instance<'a> {
    agent: &'a Agent,
    place: PathBuf,
    child: Child,
}

/// A process that only looks like a leak.
struct LookAlike {
    about: &'static str,
    who: Identity,
    /// Whether it may be shown as doubtful.
    may_be_shown: bool,
}

pub(super) fn run(setup: &Setup, agents: Vec<&Agent>) -> Result<(), String> {
    let model = Model::start()?;
    let mut killed =
        agents.iter().map(|agent| start(setup, &model, agent, agent.name)).collect::<Result<Vec<_>, _>>()?;
    // A process whose marker has its own pid is expected to keep running, with everything it runs.
    let living = agents.iter().find(|agent| agent.name == "claude");
    let living = living.map(|agent| start(setup, &model, agent, "claude-that-lives")).transpose()?;
    kill_in_tool(&mut killed)?;
    if let Some(living) = &living {
        clock::until(START_MAX, LOOK, || living.is_in_tool().then_some(())).ok_or_else(|| living.stuck())?;
    }
    let (look_alikes, _shell) = look_alikes(setup, living.as_ref())?;

    let (shown, left) = clock::until(SETTLE_MAX, LOOK, || settled(setup, &killed))
        .ok_or_else(|| format!("not all that was left is shown: {:?}", list(setup).unwrap_or_default()))?;
    for instance in &killed {
        let own: Vec<&Identity> = left.iter().filter(|left| instance.owns(left.pid)).collect();
        println!(
            "{} (pid {}) was killed in the middle of a tool and left:",
            instance.agent.package(),
            instance.child.id()
        );
        own.iter().for_each(|left| println!("  {:>5}  {}", left.pid, line_of(left.pid)));
        if own.is_empty() {
            return Err(format!("{} left nothing: it shows nothing", instance.agent.name));
        }
    }
    check_shown(&shown, &left, &look_alikes)?;
    println!("\n$ lastword doctor --orphans\n{}", product(setup, &[])?);
    reap(setup, &look_alikes)?;

    let gone = clock::until(SETTLE_MAX, LOOK, || left.iter().all(|left| !left.is_alive()).then_some(()));
    if gone.is_none() {
        let alive: Vec<i32> = left.iter().filter(|left| left.is_alive()).map(|left| left.pid).collect();
        return Err(format!("{alive:?} live on"));
    }
    println!("gone: {}", left.iter().map(|left| left.pid.to_string()).collect::<Vec<_>>().join(" "));
    for look_alike in &look_alikes {
        if !look_alike.who.is_alive() {
            return Err(format!("{} (pid {}) was ended", look_alike.about, look_alike.who.pid));
        }
        println!("left alone: {:>5}  {}", look_alike.who.pid, look_alike.about);
    }
    check_shown(&list(setup)?, &[], &look_alikes)
}

/// Starts an agent in a directory of its own.
fn start<'a>(setup: &Setup, model: &Model, agent: &'a Agent, name: &str) -> Result<Instance<'a>, String> {
    let place = setup.place.join(name);
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    fs::create_dir_all(&place).map_err(failed)?;
    let hold = place.join("hold");
    fs::copy("/bin/sleep", &hold).map_err(failed)?;
    let server = place.join(server::NAME);
    let own = std::env::current_exe().map_err(failed)?;
    std::os::unix::fs::symlink(own, &server).map_err(failed)?;
    let hold = hold.display();
    // An agent whose tool has returned waits for its model.
    let prompt = format!(
        "Run the command. [[sh {hold} 3001 & setsid {hold} 3002 & (nohup {hold} 3003 >/dev/null 2>&1 &); {hold} 3004]] [[hang]]"
    );
    let home = Home { place: &place, port: model.port(), server: Some((&server, server::VERB)), asks: false };
    let once = agent.once.ok_or_else(|| format!("{} answers no single prompt", agent.name))?;
    let (work, bin) = (place.join("work"), place.join("bin"));
    fs::create_dir_all(&work).and_then(|()| fs::create_dir_all(&bin)).map_err(failed)?;
    // In its own session, like in a terminal that is closed with it.
    let mut command = Command::new("setsid");
    command.arg(agent.link(&install::folder(agent, &setup.cache), &bin)?).args(once(&home, &prompt));
    command.env_clear().envs(agent.environment(&home)?).current_dir(work);
    let said = File::create(place.join("said")).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(said.try_clone().map_err(failed)?).stderr(said);
    let child = command.spawn().map_err(|error| format!("{}: {error}", agent.name))?;
    Ok(Instance { agent, place, child })
}

impl Instance<'_> {
    /// Reports whether its tool has created its processes, and its tool server runs.
    fn is_in_tool(&self) -> bool {
        let members = self.members();
        let servers = members.iter().filter(|who| line_of(who.pid).contains(server::NAME)).count();
        servers > 0 && members.len() - servers == HOLDS
    }

    fn stuck(&self) -> String {
        let said = fs::read_to_string(self.place.join("said")).unwrap_or_default();
        let end: Vec<&str> = said.lines().rev().take(5).collect();
        format!("{} did not come to its tool; it said: {end:?}", self.agent.name)
    }

    /// Returns the processes it has started that were meant to stay and are alive.
    fn members(&self) -> Vec<Identity> {
        figures::living().into_iter().filter(|pid| self.owns(*pid)).filter_map(Identity::of).collect()
    }

    fn owns(&self, pid: i32) -> bool {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
        [self.place.join("hold"), self.place.join(server::NAME)]
            .iter()
            .any(|own| own.as_os_str().as_encoded_bytes() == program)
    }
}

/// Kills each agent as soon as it is in the middle of its tool: some do not wait long for one.
fn kill_in_tool(agents: &mut [Instance]) -> Result<(), String> {
    let mut pending: Vec<&mut Instance> = agents.iter_mut().collect();
    let mut failed = None;
    clock::until(START_MAX, LOOK, || {
        pending.retain_mut(|instance| {
            let is_ready = instance.is_in_tool();
            if is_ready {
                failed = kill(&mut instance.child).err().or(failed.take());
            }
            !is_ready
        });
        (pending.is_empty() || failed.is_some()).then_some(())
    });
    match (failed, pending.first()) {
        (Some(why), _) => Err(why),
        (None, Some(stuck)) => Err(stuck.stuck()),
        (None, None) => Ok(()),
    }
}

fn kill(agent: &mut Child) -> Result<(), String> {
    let pid = agent.id();
    agent.kill().map_err(|error| format!("kill -9 {pid}: {error}"))?;
    let status = agent.wait().map_err(|error| error.to_string())?;
    match status.signal() {
        Some(libc::SIGKILL) => Ok(()),
        _ => Err(format!("an agent had ended by itself: {status}")),
    }
}

/// Returns what is shown and which processes are left, once each of them is shown or descends from one that is.
fn settled(setup: &Setup, killed: &[Instance]) -> Option<(Vec<Value>, Vec<Identity>)> {
    let shown = list(setup).ok()?;
    let left: Vec<Identity> = killed.iter().flat_map(Instance::members).collect();
    left.iter().all(|left| is_shown(left.pid, &shown)).then_some((shown, left))
}

fn is_shown(pid: i32, shown: &[Value]) -> bool {
    let parent = |pid: &i32| Stat::of(*pid).map(|stat| stat.parent).filter(|parent| *parent > 1);
    std::iter::successors(Some(pid), parent).any(|above| shown.iter().any(|shown| shown["pid"] == above))
}

/// Checks that nothing is shown that is not a leak, and that processes that may be meant to stay are not called leaks.
fn check_shown(shown: &[Value], left: &[Identity], look_alikes: &[LookAlike]) -> Result<(), String> {
    for orphan in shown {
        let pid = &orphan["pid"];
        match look_alikes.iter().find(|look_alike| *pid == look_alike.who.pid) {
            Some(LookAlike { may_be_shown: true, .. }) if !orphan["doubt"].is_null() => {}
            Some(look_alike) => return Err(format!("{} is shown as a leak: {orphan}", look_alike.about)),
            None if left.iter().any(|left| is_shown(left.pid, std::slice::from_ref(orphan))) => {}
            None => return Err(format!("what nobody left is shown: {orphan}")),
        }
    }
    Ok(())
}

/// Starts processes next to the leaks that look like them. The ones returned must survive.
fn look_alikes(setup: &Setup, living: Option<&Instance>) -> Result<(Vec<LookAlike>, Child), String> {
    let place = setup.place.join("beside");
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    fs::create_dir_all(&place).map_err(failed)?;
    let (hold, server) = (place.join("hold"), place.join(server::NAME));
    fs::copy("/bin/sleep", &hold).map_err(failed)?;
    std::os::unix::fs::symlink(std::env::current_exe().map_err(failed)?, &server).map_err(failed)?;
    let verb = server::VERB;
    let (hold, server) = (hold.display(), server.display());
    // A live shell with a server that it started.
    let script = format!(
        "{server} {verb} >/dev/null 2>&1 & echo $! > {0}/pid.part; mv {0}/pid.part {0}/pid; wait",
        place.display()
    );
    let shell = plain("sh").arg("-c").arg(script).spawn().map_err(failed)?;
    let pid =
        clock::until(SETTLE_MAX, LOOK, || fs::read_to_string(place.join("pid")).ok()?.trim().parse().ok());
    let mut all = vec![(
        pid.ok_or("a shell did not start")?,
        "a server of the same name, under a shell that lives",
        false,
    )];
    for (line, about, may_be_shown) in [
        (format!("nohup {server} {verb}"), "a server of the same name that a person started by nohup", true),
        (format!("{hold} 4000"), "a command of the same name that no agent ran", false),
    ] {
        let mut apart = plain("setsid");
        let said = apart.args(["--wait", "sh", "-c"]).arg(format!("{line} >/dev/null 2>&1 & echo $!"));
        let said = said.output().map_err(failed)?;
        let pid = String::from_utf8_lossy(&said.stdout).trim().parse();
        all.push((pid.map_err(|_| format!("{line}: it did not start"))?, about, may_be_shown));
    }
    let mut found = Vec::new();
    for (pid, about, may_be_shown) in all {
        let who = Identity::of(pid).ok_or_else(|| format!("{about} is gone"))?;
        found.push(LookAlike { about, who, may_be_shown });
    }
    if let Some(living) = living {
        let agent = Identity::of(living.child.id().cast_signed()).ok_or("the agent that lives is gone")?;
        found.push(LookAlike { about: "an agent that lives", who: agent, may_be_shown: false });
        let run = living.members().into_iter();
        found.extend(run.map(|who| LookAlike {
            about: "what an agent that lives has started",
            who,
            may_be_shown: false,
        }));
    }
    Ok((found, shell))
}

/// Returns a command without our environment.
fn plain(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null()).stderr(Stdio::inherit());
    command
}

/// Ends the leaks, then the doubtful ones that the agents left.
fn reap(setup: &Setup, look_alikes: &[LookAlike]) -> Result<(), String> {
    println!("$ lastword doctor --orphans --reap-all --yes\n{}", product(setup, &["--reap-all", "--yes"])?);
    for rest in list(setup)? {
        if look_alikes.iter().any(|look_alike| rest["pid"] == look_alike.who.pid) {
            continue;
        }
        let named = format!("{}:{}", rest["pid"], rest["start_ticks"]);
        println!("$ lastword doctor --orphans --reap {named}\n{}", product(setup, &["--reap", &named])?);
    }
    Ok(())
}

/// Returns what the product shows.
fn list(setup: &Setup) -> Result<Vec<Value>, String> {
    let text = product(setup, &["--json"])?;
    let list: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    list["items"].as_array().cloned().ok_or_else(|| format!("no list: {text}"))
}

/// Runs the product, and returns its output.
fn product(setup: &Setup, words: &[&str]) -> Result<String, String> {
    let mut command = plain(&setup.lastword.display().to_string());
    command.args(["doctor", "--orphans"]).args(words).env("COLUMNS", "120").env("HOME", &setup.place);
    command.envs(setup.bug.iter().map(|bug| ("LASTWORD_BUG", bug)));
    let said = command.stderr(Stdio::piped()).output().map_err(|error| error.to_string())?;
    match said.status.success() {
        true => Ok(String::from_utf8_lossy(&said.stdout).into_owned()),
        false => Err(format!(
            "lastword doctor --orphans {words:?}: {}: {}",
            said.status,
            String::from_utf8_lossy(&said.stderr)
        )),
    }
}

fn line_of(pid: i32) -> String {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned()
}
