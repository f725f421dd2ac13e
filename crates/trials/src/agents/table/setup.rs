//! Where one cell of the table is filled in: an agent in a home of its own, a model, and the whole product as a user has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lastword_proc::Identity;
use serde_json::Value;

use crate::agents::install;
use crate::agents::known::{Agent, Environment, Home};
use crate::agents::model::{Model, What};
use crate::clock;
use crate::product::{Product, figures};

/// The longest for anything to happen: the slowest agent takes seven seconds of a processor to start.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// How often it is looked.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// How many facts are shown of a job that did not do what was expected.
const SHOWN: usize = 8;

/// What an agent's tokens cost, by the word of the user: these do not say it themselves.
const PRICED: &[(&str, &str)] = &[
    (
        "codex",
        "[codex]\ndialect = \"codex\"\ncommand = [\"codex\", \"app-server\"]\nprices = { in = 1, out = 2 }\n\
         [unpriced]\ndialect = \"codex\"\ncommand = [\"codex\", \"app-server\"]\n",
    ),
    (
        "gemini",
        "[gemini]\ndialect = \"acp\"\ncommand = [\"gemini\", \"--acp\"]\nprices = { in = 1, out = 2 }\n",
    ),
];

/// A place with everything in it.
pub(super) struct Setup {
    pub(super) agent: &'static Agent,
    pub(super) product: Product,
    pub(super) model: Model,
    /// What the agent has in its environment.
    pub(super) environment: Environment,
    /// The folder that the agent works in.
    pub(super) work: PathBuf,
    /// A program that does nothing for so many seconds. Agents know `sleep`, and some refuse to run it.
    hold: PathBuf,
}

/// What a row needs to be different from others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setting {
    /// The agent is set up to ask before it runs something.
    pub(super) asks: bool,
}

/// A job with an agent.
pub(super) struct Job<'a> {
    setup: &'a Setup,
    pub(super) id: String,
}

impl Setup {
    /// Sets everything up below a folder that is not there yet. The executable lies in `bin` beside it.
    pub(super) fn new(
        agent: &'static Agent,
        cache: &Path,
        lastword: &Path,
        place: &Path,
        setting: Setting,
    ) -> Result<Setup, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", place.display());
        let (work, bin, hold) = (place.join("work"), place.join("bin"), place.join("hold"));
        fs::create_dir_all(&work).and_then(|()| fs::create_dir_all(&bin)).map_err(failed)?;
        fs::copy("/bin/sleep", &hold).map_err(failed)?;
        let model = Model::start()?;
        let home = Home { place, port: model.port(), server: None, asks: setting.asks };
        let mut environment = agent.environment(&home)?;
        agent.link(&install::folder(agent, cache), &bin)?;
        for (_, value) in environment.iter_mut().filter(|(name, _)| name == "PATH") {
            let mut path = bin.clone().into_os_string();
            path.push(":");
            path.push(&value);
            *value = path;
        }
        // A name of its own is enough to tell its processes from those of other places.
        let program = bin.join("lastword");
        fs::hard_link(lastword, &program).map_err(failed)?;
        let state = place.join("state");
        let product = Product::at(program, place, &state)?.with_environment(environment.clone());
        if let Some((_, definition)) = PRICED.iter().find(|(name, _)| *name == agent.name) {
            fs::write(state.join("agents.toml"), definition).map_err(failed)?;
        }
        product.start()?;
        Ok(Setup { agent, product, model, environment, work, hold })
    }

    /// Asks for a job.
    pub(super) fn run(&self, flags: &[&str], prompt: &str) -> Result<Job<'_>, String> {
        self.run_as(self.agent.name, flags, prompt)
    }

    /// Asks for a job of the agent in another form.
    pub(super) fn run_as(&self, form: &str, flags: &[&str], prompt: &str) -> Result<Job<'_>, String> {
        let work = self.work.display().to_string();
        let words = [&["run", "--agent", form, "--detach", "-C", &work], flags, &["--", prompt]];
        self.product.said(&words.concat()).map(|id| self.job(id))
    }

    /// Asks for a job with other variables in its environment, or without some.
    pub(super) fn run_with_variables(
        &self,
        variables: &[(&str, Option<&str>)],
        flags: &[&str],
        prompt: &str,
    ) -> Result<Job<'_>, String> {
        let work = self.work.display().to_string();
        let words = [&["run", "--agent", self.agent.name, "--detach", "-C", &work], flags, &["--", prompt]];
        let mut command = self.product.command(&words.concat());
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let output = self.product.run_to_end(&command)?;
        match output.status.success() {
            true => Ok(self.job(String::from_utf8_lossy(&output.stdout).trim().to_owned())),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Asks for a job whose agent gets further arguments.
    pub(super) fn run_with(&self, prompt: &str, args: &[&str]) -> Result<Job<'_>, String> {
        let work = self.work.display().to_string();
        let words = [&["run", "--agent", self.agent.name, "--detach", "-C", &work, prompt, "--"], args];
        self.product.said(&words.concat()).map(|id| self.job(id))
    }

    /// Adds the definition of another agent.
    pub(super) fn define(&self, definition: &str) -> Result<(), String> {
        let file = self.product.home().join("agents.toml");
        let known = fs::read_to_string(&file).unwrap_or_default();
        fs::write(&file, known + definition).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Takes a job that was asked for in another way.
    pub(super) fn job(&self, id: String) -> Job<'_> {
        Job { setup: self, id }
    }

    /// Returns a command that does nothing for so many seconds.
    pub(super) fn hold(&self, seconds: u32) -> String {
        format!("{} {seconds}", self.hold.display())
    }

    /// Returns a command that goes on until a file of that name is made where the agent works.
    pub(super) fn until_made(&self, name: &str) -> String {
        format!("while ! test -e {name}; do {} 0.05; done", self.hold.display())
    }

    /// Returns what of an agent's tools lives and was to live so many seconds; zero is any number.
    pub(super) fn holding(&self, seconds: u32) -> Vec<Identity> {
        let number = seconds.to_string();
        let is = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words.next() == Some(self.hold.as_os_str().as_encoded_bytes())
                && (seconds == 0 || words.next() == Some(number.as_bytes()))
        };
        figures::living().into_iter().filter(is).filter_map(Identity::of).collect()
    }

    /// Waits until something is so.
    pub(super) fn until<T>(&self, what: &str, look: impl FnMut() -> Option<T>) -> Result<T, String> {
        clock::until(PATIENCE, LOOK, look).ok_or_else(|| format!("in {} s not: {what}", PATIENCE.as_secs()))
    }

    /// Waits until the model was asked for a reply.
    pub(super) fn asked(&self, directive: &str) -> Result<(), String> {
        match self.model.wait(What::Asked, directive, PATIENCE) {
            true => Ok(()),
            false => Err(format!("the model was not asked for `{directive}`")),
        }
    }

    /// Counts how often the model was asked for a reply.
    pub(super) fn times_asked(&self, directive: &str) -> usize {
        let is = |record: &&crate::agents::model::Record| {
            record.what == What::Asked && record.about.contains(directive)
        };
        self.model.log().iter().filter(is).count()
    }

    /// Reads a file of the folder that the agent works in.
    pub(super) fn made(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.work.join(name)).ok()
    }

    /// Makes a file there.
    pub(super) fn make(&self, name: &str) -> Result<(), String> {
        fs::write(self.work.join(name), "").map_err(|error| format!("{name}: {error}"))
    }

    /// Kills the daemon, and waits until it is gone.
    pub(super) fn kill_daemon(&self) -> Result<(), String> {
        let pid = self.product.daemon().ok_or("there is no daemon to kill")?;
        let who = Identity::of(pid).ok_or("there is no daemon to kill")?;
        // SAFETY: a signal to the daemon of this place, which a moment ago gave its own number.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        self.until("the daemon is gone", || (!who.is_alive()).then_some(()))
    }
}

/// Kills a process, if it still is.
pub(super) fn kill(who: &Identity) {
    if who.is_alive() {
        // SAFETY: a signal to a process whose identity was just read.
        unsafe { libc::kill(who.pid, libc::SIGKILL) };
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.product.tear_down();
    }
}

impl Job<'_> {
    /// Runs a command about it.
    pub(super) fn tell(&self, verb: &str, words: &[&str]) -> Result<String, String> {
        self.setup.product.said(&[&[verb, &self.id], words].concat())
    }

    /// Answers its newest question, by the name that was shown with it.
    pub(super) fn answer(&self, verb: &str, words: &[&str]) -> Result<String, String> {
        let asked = self.all("question_asked")?;
        let name = asked.last().and_then(|asked| asked["name"].as_str()).ok_or("it has not asked")?;
        self.tell(verb, &[&[name], words].concat())
    }

    /// Runs a command to its end, and returns its exit code.
    pub(super) fn outcome(&self, words: &[&str]) -> Result<Option<i32>, String> {
        self.setup.product.run(words).map(|output| output.status.code())
    }

    /// Returns its facts so far.
    pub(super) fn facts(&self) -> Result<Vec<Value>, String> {
        let text = self.setup.product.said(&["events", &self.id, "--json"])?;
        text.lines()
            .map(|line| serde_json::from_str(line).map_err(|error| format!("{error}: {line}")))
            .collect()
    }

    /// Returns its facts of one kind.
    pub(super) fn all(&self, kind: &str) -> Result<Vec<Value>, String> {
        let mut facts = self.facts()?;
        facts.retain(|fact| fact["type"] == kind);
        Ok(facts.into_iter().map(|mut fact| fact["data"].take()).collect())
    }

    /// Waits for its `count`th fact of a kind, and returns what it says. That it ended without is said at once.
    pub(super) fn nth(&self, kind: &str, count: usize) -> Result<Value, String> {
        let mut trouble = None;
        let found = clock::until(PATIENCE, LOOK, || {
            let facts = match self.facts() {
                Ok(facts) => facts,
                Err(why) => {
                    trouble = Some(why);
                    return Some(None);
                }
            };
            let of_kind = facts.iter().filter(|fact| fact["type"] == kind).nth(count - 1);
            let is_over = facts.iter().any(|fact| fact["type"] == "last_word");
            (of_kind.is_some() || is_over).then(|| of_kind.map(|fact| fact["data"].clone()))
        });
        match found.flatten() {
            Some(data) => Ok(data),
            None => Err(trouble.unwrap_or_else(|| format!("no {kind} {count}; {}", self.story()))),
        }
    }

    /// Waits until its `count`th turn has ended, and makes sure that it ended so.
    pub(super) fn turn_ends(&self, count: usize, ending: &str) -> Result<Value, String> {
        let ended = self.nth("turn_ended", count)?;
        match ended["ending"] == ending {
            true => Ok(ended),
            false => Err(format!("turn {count} ended {}, not {ending}; {}", ended["ending"], self.story())),
        }
    }

    /// Waits for its last word, and makes sure that it is this one, for this cause.
    pub(super) fn ends(&self, outcome: &str, cause: &str) -> Result<Value, String> {
        let word = self.nth("last_word", 1)?;
        match word["outcome"] == outcome && word["cause"] == cause {
            true => Ok(word),
            false => Err(format!(
                "it ended {} by {}, not {outcome} by {cause}; {}",
                word["outcome"],
                word["cause"],
                self.story()
            )),
        }
    }

    /// Makes sure that it did as many turns as this, each of them once, and completed.
    pub(super) fn completes(&self, turns: usize) -> Result<(), String> {
        self.ends("completed", "finished")?;
        let (started, ended) = (self.all("turn_started")?.len(), self.all("turn_ended")?);
        let completed = ended.iter().filter(|turn| turn["ending"] == "completed").count();
        match (started, ended.len(), completed) == (turns, turns, turns) {
            true => Ok(()),
            false => Err(format!(
                "{started} turns began, {} ended, {completed} completed, not {turns}; {}",
                ended.len(),
                self.story()
            )),
        }
    }

    /// Makes sure that it has not ended.
    pub(super) fn lives(&self) -> Result<(), String> {
        match self.all("last_word")?.is_empty() {
            true => Ok(()),
            false => Err(format!("it has ended; {}", self.story())),
        }
    }

    /// Returns the agent itself.
    pub(super) fn agent(&self) -> Result<Identity, String> {
        let pid = self.nth("launched", 1)?["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(Identity::of).ok_or_else(|| format!("the agent is not there; {}", self.story()))
    }

    /// Says what happened to it last, and to the model.
    pub(super) fn story(&self) -> String {
        let facts = self.facts().unwrap_or_default();
        let from = facts.len().saturating_sub(SHOWN);
        let lines: Vec<&str> = facts[from..].iter().filter_map(|fact| fact["text"].as_str()).collect();
        let log = self.setup.model.log();
        let from = log.len().saturating_sub(SHOWN);
        let asked: Vec<String> = log[from..].iter().map(|it| format!("{:?} {}", it.what, it.about)).collect();
        format!("the job: {}; the model: {}", lines.join(" · "), asked.join(" · "))
    }
}
