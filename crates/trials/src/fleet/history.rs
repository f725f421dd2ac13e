//! One history: everything is started, jobs are asked for while faults strike, and what is known at the end is judged.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use lastword_api::{After, Needs, Retry, Submit};
use lastword_core::{JobId, Timestamp};
use serde_json::{Value, json};

use super::ask::{AGAIN, Reply, ask};
use super::canary;
use super::cast::Cast;
use super::check::{Findings, check, slowest_ns};
use super::evidence::{Answer, Answered, Evidence, Fact, Logged, Struck};
use super::host::{self, Host};
use super::orders::Timing;
use super::phase::phases;
use super::plan::{Only, Plan};
use super::stage::Stage;
use super::strike;
use crate::clock;
use crate::place::Programs;
use crate::random::Random;

/// The verb that runs one history.
pub(crate) const VERB: &str = "fleet-history";

/// How long one request is asked again.
const ASK_MAX: Duration = Duration::from_secs(30);

/// Between two looks at all jobs.
const LOOK: Duration = Duration::from_millis(400);

/// How long a fault waits for the launch that it is to strike.
const LAUNCH_MAX: Duration = Duration::from_secs(2);

/// A sleep of this length shows how busy the machine is: it runs other histories, too.
const TICK: Duration = Duration::from_millis(10);

/// How much longer than it may take a history waits for its end, so that what is late shows.
const GRACE_MS: u64 = 3_000;

/// What all threads of a history share.
struct Scene {
    plan: Plan,
    ids: Vec<String>,
    programs: Programs,
    notes: PathBuf,
    servers: [Arc<Host>; 2],
    begin: Instant,
    answers: Mutex<Vec<Answer>>,
    trace: Mutex<File>,
    /// Clients that are still asking.
    asking: AtomicUsize,
    /// A script says that jobs which wait for it are to be submitted.
    cue: AtomicBool,
    /// For each job, when a client last asked and was told that it had not ended.
    unended: Mutex<BTreeMap<usize, u64>>,
    /// For how long the machine kept this process waiting.
    stalled_ns: AtomicU64,
    over: AtomicBool,
}

/// Runs `fleet-history FOLDER TEMPLATE PRODUCT SEED LEASE_MS MARGIN_MS FAULT`, and leaves `result.json` in the folder.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let [folder, template, lastword, seed, lease, margin, only] = words else {
        return Err("seven words".to_owned());
    };
    let number = |word: &str| word.parse::<u64>().map_err(|_| format!("{word}: not a number"));
    let timing = Timing { lease_ms: number(lease)?, margin_ms: number(margin)? };
    let plan = Plan::of(number(seed)?, timing, Only::named(only));
    let programs = Programs { lastword: lastword.into(), ..Programs::beside()? };
    let result = play(Path::new(folder), Path::new(template), programs, plan, timing);
    let result = result.unwrap_or_else(|why| json!({ "seed": number(seed).unwrap_or(0), "failed": why }));
    fs::write(Path::new(folder).join("result.json"), result.to_string())
        .map_err(|error| error.to_string())?;
    Ok(true)
}

fn play(
    place: &Path,
    template: &Path,
    programs: Programs,
    plan: Plan,
    timing: Timing,
) -> Result<Value, String> {
    let failed = |error: std::io::Error| error.to_string();
    let notes = place.join("canaries");
    File::create(&notes).map_err(failed)?;
    host::make_network()?;
    let mut cast = Cast::assemble(&programs, place, template, timing, plan.is_synchronous())?;
    let scene = Scene {
        ids: ids(&plan),
        programs,
        notes,
        servers: [Arc::clone(&cast.servers[0].host), Arc::clone(&cast.servers[1].host)],
        begin: Instant::now(),
        answers: Mutex::default(),
        trace: Mutex::new(File::create(place.join("trace")).map_err(failed)?),
        asking: AtomicUsize::new(plan.jobs.len()),
        cue: AtomicBool::new(false),
        unended: Mutex::default(),
        stalled_ns: AtomicU64::new(0),
        over: AtomicBool::new(false),
        plan,
    };
    scene.say(&format!("{:#?}", scene.plan));
    let faults = std::thread::scope(|threads| {
        for job in 0..scene.plan.jobs.len() {
            let scene = &scene;
            threads.spawn(move || scene.conduct(job));
        }
        threads.spawn(|| scene.observe());
        threads.spawn(|| scene.measure());
        let faults = match scene.plan.script {
            Some(_) => scene.follow_script(&mut cast),
            None => scene.strike_all(&mut cast),
        };
        if let Ok(faults) = &faults {
            scene.wait_for_the_end(&cast, faults, timing);
        }
        scene.over.store(true, Ordering::Relaxed);
        faults
    })?;
    let evidence = scene.evidence(&cast, faults, timing)?;
    scene.say(&format!("{evidence:#?}"));
    let findings = check(&evidence);
    Ok(scene.result(&evidence, &findings, place))
}

/// Makes the ids of all jobs: a client that makes them knows a job whose answer was lost.
fn ids(plan: &Plan) -> Vec<String> {
    let mut random = Random::new(plan.seed ^ 0x1d5);
    let id = |_| {
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&random.draw().to_le_bytes());
        JobId::new(0, Timestamp(wall_ms()), bytes).to_string()
    };
    (0..plan.jobs.len()).map(id).collect()
}

fn wall_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Scene {
    fn say(&self, what: &str) {
        let at = self.begin.elapsed().as_secs_f64();
        let _ = writeln!(locked(&self.trace), "{at:7.3} [{}] {what}", clock::boot_ns());
    }

    /// Rests until a moment of the plan; reports whether the history goes on.
    fn rest_until(&self, at_ms: u64) -> bool {
        let due = self.begin + Duration::from_millis(at_ms);
        let rest = due.saturating_duration_since(Instant::now());
        clock::until(rest, Duration::from_millis(5), || self.is_over().then_some(())).is_none()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Waits for the cue of a script; reports whether it came.
    fn is_cued(&self) -> bool {
        let come = || (self.cue.load(Ordering::Relaxed) || self.is_over()).then_some(());
        clock::until(ASK_MAX * 4, Duration::from_millis(5), come);
        self.cue.load(Ordering::Relaxed)
    }

    /// Measures how long the machine keeps a process waiting that wants to go on.
    fn measure(&self) {
        while !self.is_over() {
            let begin = Instant::now();
            clock::rest(TICK);
            let late = begin.elapsed().saturating_sub(2 * TICK);
            self.stalled_ns.fetch_add(late.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    fn note(&self, job: usize, what: Answered) {
        self.say(&format!("{} (job {job}): {what:?}", self.ids[job]));
        let answer = Answer { job: self.ids[job].clone(), what, at_ns: clock::boot_ns() };
        locked(&self.answers).push(answer);
    }

    fn is_submitted(&self, job: usize) -> bool {
        locked(&self.answers)
            .iter()
            .any(|answer| answer.job == self.ids[job] && answer.what == Answered::Submitted)
    }

    /// The client of one job.
    fn conduct(&self, job: usize) {
        let order = &self.plan.jobs[job];
        let go_on = self.rest_until(order.at_ms)
            && (!order.on_cue || self.is_cued())
            && order.after.is_none_or(|other| {
                // It is refused while what it waits for is not known.
                clock::until(ASK_MAX, AGAIN, || self.is_submitted(other).then_some(())).is_some()
            });
        if go_on && self.ask(job, &["submit", &self.submit(job)]).is_some() {
            self.note(job, Answered::Submitted);
            if let Some(at_ms) = order.cancel_at_ms
                && self.rest_until(at_ms)
                && let Some(answer) = self.ask(job, &["cancel", &self.ids[job]])
            {
                // A job that has ended is shown as it is.
                let ended = answer["outcome"].as_str().map(|outcome| Answered::Ended(outcome.to_owned()));
                self.note(job, ended.unwrap_or(Answered::Cancelled));
            }
        }
        self.asking.fetch_sub(1, Ordering::Relaxed);
    }

    fn submit(&self, job: usize) -> String {
        let order = &self.plan.jobs[job];
        let after = order.after.map(|other| After { job: self.ids[other].clone(), on: Needs::Any });
        let submit = Submit {
            id: Some(self.ids[job].clone()),
            name: Some(format!("job-{job}")),
            argv: canary::argv(&self.programs.trials, &self.notes, &order.song),
            cwd: "/".to_owned(),
            retry: Retry {
                attempts: order.attempts,
                backoff_ms: order.backoff_ms,
                backoff_max_ms: 2 * order.backoff_ms,
                when_lost: order.when_lost,
            },
            after: after.into_iter().collect(),
            ..Submit::default()
        };
        serde_json::to_string(&submit).unwrap_or_default()
    }

    /// Asks one server after the other until one answers. Returns what it granted.
    fn ask(&self, job: usize, words: &[&str]) -> Option<Value> {
        let begin = Instant::now();
        let mut server = self.plan.jobs[job].server;
        while begin.elapsed() < ASK_MAX && !self.is_over() {
            match ask(&self.servers[server], &self.programs.trials, words) {
                Reply::Yes(answer) => return Some(answer),
                Reply::No(code) => {
                    self.say(&format!("job {job}: {} refused: {code}", words[0]));
                    return None;
                }
                Reply::Unknown(why) => self.say(&format!("job {job}: {} unanswered: {why}", words[0])),
            }
            server = 1 - server;
            clock::rest(AGAIN);
        }
        None
    }

    /// A client that reads how all jobs ended, from one server and the other.
    fn observe(&self) {
        let mut told: BTreeMap<usize, String> = BTreeMap::new();
        for server in [0, 1].into_iter().cycle() {
            if self.is_over() {
                return;
            }
            let asked_ns = clock::boot_ns();
            // The answer is about a moment before it came.
            if let Reply::Yes(page) = ask(&self.servers[server], &self.programs.trials, &["list"]) {
                for row in page["items"].as_array().into_iter().flatten() {
                    let Some(job) = self.ids.iter().position(|id| row["id"] == **id) else { continue };
                    let Some(outcome) = row["outcome"].as_str() else {
                        locked(&self.unended).insert(job, asked_ns);
                        continue;
                    };
                    if told.insert(job, outcome.to_owned()).as_deref() != Some(outcome) {
                        self.note(job, Answered::Ended(outcome.to_owned()));
                    }
                }
            }
            clock::rest(LOOK);
        }
    }

    /// Strikes the faults of a script.
    fn follow_script(&self, cast: &mut Cast) -> Result<Vec<Struck>, String> {
        let say = |what: &str| self.say(what);
        let mut stage = Stage::new(cast, &self.ids, &self.notes, &self.cue, &say);
        let played = self.plan.script.map_or(Ok(()), |script| script.play(&mut stage));
        played.map(|()| stage.struck())
    }

    /// Strikes every fault at its moment, and ends it at its.
    fn strike_all(&self, cast: &mut Cast) -> Result<Vec<Struck>, String> {
        let mut ahead: Vec<_> = self.plan.faults.clone();
        ahead.sort_by_key(|strike| std::cmp::Reverse(strike.at_ms));
        let (mut lasting, mut struck): (Vec<(u64, strike::Lasting)>, Vec<Struck>) = (Vec::new(), Vec::new());
        loop {
            let strike_at = ahead.last().map(|strike| strike.at_ms);
            let end_at = lasting.iter().map(|(at, _)| *at).min();
            let next = match (strike_at, end_at) {
                (None, None) => return Ok(struck),
                (strike, end) => strike.unwrap_or(u64::MAX).min(end.unwrap_or(u64::MAX)),
            };
            self.rest_until(next);
            if strike_at == Some(next) {
                let Some(planned) = ahead.pop() else { continue };
                if planned.at_launch {
                    let is_launched = || cast.holder(&self.ids[planned.aim]).map(|_| ());
                    clock::until(LAUNCH_MAX, clock::MOMENT, is_launched);
                }
                match strike::strike(cast, &self.notes, planned, &self.ids[planned.aim])? {
                    Some(fault) => {
                        self.say(&format!("{} strikes {:?}", planned.fault.name(), fault.worker()));
                        lasting.push((self.begin.elapsed().as_millis() as u64 + planned.for_ms, fault));
                    }
                    None => self.say(&format!("{} finds nothing to strike", planned.fault.name())),
                }
            } else if let Some(place) = lasting.iter().position(|(at, _)| *at == next) {
                let (_, fault) = lasting.swap_remove(place);
                let from_ns = strike::end(cast, &fault)?;
                let worker = fault.worker();
                self.say(&format!("{} is over", fault.strike.fault.name()));
                let to_ns = clock::boot_ns();
                struck.push(Struck { fault: fault.strike.fault, worker, from_ns, to_ns });
            }
        }
    }

    /// Waits until every job has ended, or should have.
    fn wait_for_the_end(&self, cast: &Cast, faults: &[Struck], timing: Timing) {
        let longest = (0..self.plan.jobs.len()).map(|job| self.plan.runs_ms(job)).max().unwrap_or(0);
        let last = faults.iter().map(|fault| fault.to_ns).max().unwrap_or(0);
        let patience_ns = (patience_ms(timing) + longest + GRACE_MS) * 1_000_000;
        clock::until(ASK_MAX * 4, Duration::from_millis(300), || {
            let left = cast.databases[cast.first].sql("select count(*) from jobs where outcome is null");
            let is_done =
                left.is_ok_and(|left| left.trim() == "0") && self.asking.load(Ordering::Relaxed) == 0;
            let is_late = clock::boot_ns() > last.max(self.started_ns()) + patience_ns + self.stalled_ns();
            (is_done || is_late).then_some(())
        });
        for table in ["meta", "lives", "ready", "jobs"] {
            let rows = cast.databases[cast.first].sql(&format!("select * from {table}"));
            self.say(&format!("{table}:\n{}", rows.unwrap_or_else(|why| why)));
        }
        let mut fleet = super::cast::product(&self.servers[0], &self.programs);
        self.say(&host::said(fleet.args(["fleet"])).unwrap_or_else(|why| why));
        // The observer reads the last endings.
        clock::rest(LOOK * 2);
    }

    fn stalled_ns(&self) -> u64 {
        self.stalled_ns.load(Ordering::Relaxed)
    }

    fn started_ns(&self) -> u64 {
        clock::boot_ns() - self.begin.elapsed().as_nanos() as u64
    }

    fn evidence(&self, cast: &Cast, faults: Vec<Struck>, timing: Timing) -> Result<Evidence, String> {
        let answers = locked(&self.answers).clone();
        let log =
            cast.databases[cast.first].sql("select job, kind, at, body from events order by job, seq")?;
        let to_boot = (clock::boot_ns() / 1_000_000) as i64 - wall_ms() as i64;
        let mut jobs: BTreeMap<String, Vec<Fact>> = BTreeMap::new();
        for line in log.lines() {
            let (job, fact) = logged(line, to_boot).ok_or_else(|| format!("the log has a line {line:?}"))?;
            jobs.entry(job).or_default().push(fact);
        }
        let unended = locked(&self.unended).clone();
        let log = jobs.into_iter().map(|(job, facts)| {
            let place = self.ids.iter().position(|id| *id == job);
            let runs_ms = place.map_or(0, |place| self.plan.runs_ms(place));
            let unended_ns = place.and_then(|place| unended.get(&place)).copied().unwrap_or(0);
            Logged { job, facts, unended_ns, runs_ns: runs_ms * 1_000_000 }
        });
        let notes = fs::read_to_string(&self.notes).map_err(|error| error.to_string())?;
        Ok(Evidence {
            runs: canary::read(&notes),
            log: log.collect(),
            answers,
            lost_writes: faults.iter().any(|fault| fault.fault.loses_writes()),
            faults,
            patience_ns: patience_ms(timing) * 1_000_000 + self.stalled_ns(),
        })
    }

    fn result(&self, evidence: &Evidence, findings: &Findings, place: &Path) -> Value {
        let violations: Vec<Value> = findings
            .violations
            .iter()
            .map(|found| json!([format!("{:?}", found.rule), found.what]))
            .collect();
        let met: Vec<Value> = evidence
            .faults
            .iter()
            .map(|struck| {
                let phases: Vec<String> =
                    phases(evidence, struck).iter().map(|phase| format!("{phase:?}")).collect();
                json!([struck.fault.name(), phases])
            })
            .collect();
        let ended = |outcome: &str| {
            evidence.log.iter().filter(|logged| logged.endings().any(|ending| ending == outcome)).count()
        };
        json!({
            "seed": self.plan.seed,
            "violations": violations,
            "losses": findings.losses,
            "slowest_ms": slowest_ns(evidence) / 1_000_000,
            "stalled_ms": self.stalled_ns() / 1_000_000,
            "met": met,
            "jobs": evidence.log.len(),
            "runs": evidence.runs.len(),
            "refused": refused(place),
            "completed": ended("completed"),
            "lost": ended("lost"),
            "seconds": self.begin.elapsed().as_secs_f64(),
        })
    }
}

fn patience_ms(timing: Timing) -> u64 {
    3 * (timing.lease_ms + timing.margin_ms)
}

/// Reads a line of the log.
fn logged(line: &str, to_boot: i64) -> Option<(String, Fact)> {
    let mut words = line.splitn(4, '\t');
    let job = JobId::from_uuid(words.next()?.parse().ok()?)?.to_string();
    let kind = words.next()?.to_owned();
    let at: i64 = words.next()?.parse().ok()?;
    let body: Value = serde_json::from_str(words.next()?).ok()?;
    let detail = match kind.as_str() {
        "last_word" => match &body["outcome"] {
            Value::Object(outcome) => outcome.keys().next().cloned().unwrap_or_default(),
            outcome => outcome.as_str().unwrap_or_default().to_owned(),
        },
        "claimed" => body["owner"].as_str().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    Some((job, Fact { kind, at_ns: ((at + to_boot).max(0) as u64) * 1_000_000, detail }))
}

/// Counts the writes that were refused because their author had lost the job, as workers and servers tell in their logs.
fn refused(place: &Path) -> u64 {
    let hosts = fs::read_dir(place).into_iter().flatten().filter_map(Result::ok);
    // An append of a job that another life has, and a renewal of a life that is over.
    let is_refused = |line: &&str| {
        ["a write was refused", "its life was ended by others"].iter().any(|words| line.contains(words))
    };
    let count = |text: String| text.lines().filter(is_refused).count() as u64;
    hosts
        .map(|host| count(fs::read_to_string(host.path().join("state/daemon.log")).unwrap_or_default()))
        .sum()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
