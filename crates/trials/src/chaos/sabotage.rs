//! `chaos --bugs`: every lie of `judge::doctored` is told to the judges, and a real run is sabotaged behind
//! their back. Each must be caught by the judge it is meant for, and the same run without sabotage must pass.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use lastword_proc::Identity;
use rustix::process::Signal;

use super::conduct::keepers;
use super::judge::{Violation, doctored};
use super::members::{Store, locked};
use super::plan::{Mix, Order};
use super::stage::{Entry, Stage};
use super::trial::{Shape, hold};
use crate::clock;
use crate::product::MARKER;

/// How long an opportunity is waited for, and then a judgement: longer than a run takes.
const OPPORTUNITY_MAX: Duration = Duration::from_secs(60);

/// A sabotage, while jobs run: the judge that must notice, what is done, and how; it returns the job to which it could be done.
type During = (&'static str, &'static str, fn(&Stage, &Taken) -> Option<u64>);

/// A sabotage when all have ended: what is done to the journal is a statement, what is done to the machine a function.
type After = (&'static str, &'static str, fn(&Stage) -> Option<()>);

#[rustfmt::skip] // One row, one sabotage.
const DURING: &[During] = &[
    ("outcome", "both keepers of a job are killed in secret", kill_keepers),
    ("output", "the end of a recording is cut off", cut_recording),
    ("exit", "the journal is made to say another exit code", change_exit),
    ("nothing alive", "a process of a job lives on", live_on),
];

#[rustfmt::skip] // One row, one sabotage.
const AFTER: &[After] = &[
    ("nothing left", "a process stays behind", stay_behind),
    ("one last word", "a last word is taken out of the journal", |stage| journal(stage,
        "delete from events where kind = 'last_word' and job = (select job from events where kind = 'last_word' order by place limit 1)")),
    ("no job lost or doubled", "a job is taken out of the journal", |stage| journal(stage,
        "delete from events where job = (select job from events order by place limit 1)")),
];

/// The jobs that were used for something: one sabotage each.
#[derive(Default)]
struct Taken(Mutex<BTreeSet<u64>>);

impl Taken {
    /// Waits for a job that is not taken yet and that `wish` accepts, and takes it. `None` when the run is over.
    fn find<T>(&self, stage: &Stage, wish: impl Fn(&Entry) -> Option<T>) -> Option<(Entry, T)> {
        let found = clock::until(OPPORTUNITY_MAX, Duration::from_millis(5), || {
            let mut taken = locked(&self.0);
            let free = stage.entries().into_iter().filter(|entry| !taken.contains(&entry.order.number));
            match free.filter_map(|entry| wish(&entry).map(|more| (entry, more))).next() {
                None => stage.is_over().then_some(None),
                found => {
                    taken.extend(found.as_ref().map(|(entry, _)| entry.order.number));
                    Some(found)
                }
            }
        });
        found.flatten()
    }

    /// Commits a sabotage, and again to another job if that one was judged before. Reports whether one came in time.
    fn sabotage(&self, stage: &Stage, judge: &str, commit: fn(&Stage, &Taken) -> Option<u64>) -> bool {
        while !stage.is_over() {
            let Some(number) = commit(stage, self) else { continue };
            let is_judged = || stage.entry(number, |entry| entry.judged).unwrap_or(true);
            clock::until(OPPORTUNITY_MAX, Duration::from_millis(5), || is_judged().then_some(()));
            // Of this very job: another sabotage may show itself to the same judge.
            let of_it = format!("job {number} ");
            let is_caught =
                |violation: &Violation| violation.judge == judge && violation.what.starts_with(&of_it);
            if locked(&stage.violations).iter().any(is_caught) {
                return true;
            }
        }
        false
    }
}

/// Tells every lie and commits every sabotage.
pub(crate) fn run(store: Store) -> Result<bool, String> {
    println!("{:<24} {:<64} caught by", "judge", "what was wrong");
    let mut all_caught = true;
    for (judge, what, caught) in doctored::tell() {
        let by: Vec<&str> = caught.iter().map(|violation| violation.judge).collect();
        all_caught &= row(judge, what, by);
    }
    let shape = Shape {
        store,
        faults: Duration::from_secs(6),
        quiet: Duration::from_secs(1),
        rate: 6.0,
        mix: Mix { murders: 0, cancels: false, changes: false, ..Mix::of(1) },
        is_hostile: false,
        bug: None,
    };
    let (_, _, honest) = hold(&shape, |_| {}, |_| {})?;
    for violation in &honest {
        eprintln!("without sabotage: {}: {}", violation.judge, violation.what);
    }
    let done = Mutex::new(BTreeSet::new());
    let during = |stage: &Stage| {
        let taken = Taken::default();
        // Each in a thread of its own: there are few jobs, and each sabotage waits for its judge.
        std::thread::scope(|scope| {
            for (judge, what, commit) in DURING {
                let (taken, done) = (&taken, &done);
                scope.spawn(move || {
                    if taken.sabotage(stage, judge, *commit) {
                        locked(done).insert(*what);
                    }
                });
            }
        });
    };
    let after = |stage: &Stage| {
        for (_, what, commit) in AFTER {
            if commit(stage).is_some() {
                locked(&done).insert(*what);
            }
        }
    };
    let (_, _, violations) = hold(&shape, during, after)?;
    let all = DURING.iter().map(|(judge, what, _)| (*judge, *what));
    for (judge, what) in all.chain(AFTER.iter().map(|(judge, what, _)| (*judge, *what))) {
        let was_done = locked(&done).contains(what);
        let by: BTreeSet<&str> = violations.iter().map(|violation| violation.judge).collect();
        all_caught &= row(judge, what, by.into_iter().filter(|by| was_done && *by == judge).collect());
    }
    Ok(all_caught && honest.is_empty())
}

fn row(judge: &str, what: &str, by: Vec<&str>) -> bool {
    let is_caught = by.contains(&judge);
    println!("{judge:<24} {what:<64} {}", if is_caught { by.join(", ") } else { "NOBODY".to_owned() });
    is_caught
}

fn first_attempt(stage: &Stage, entry: &Entry) -> Option<PathBuf> {
    Some(stage.members.jobs().join(entry.id.as_ref()?).join("1"))
}

/// Reports whether a job is a canary that ends by itself, with this and no more.
fn is_plain(order: &Order) -> bool {
    order.canary().is_some() && order.retries == 0 && order.wall_ms.is_none() && order.after.is_none()
}

/// Finds a job that has just ended and was not judged yet.
fn just_ended(stage: &Stage, taken: &Taken, wish: fn(&Entry) -> bool) -> Option<Entry> {
    let found = taken.find(stage, |entry| {
        let fresh = entry.seen.as_ref().is_some_and(|(seen, _)| clock::boot_ns() - seen < 500_000_000);
        (fresh && !entry.judged && wish(entry)).then_some(())
    });
    found.map(|(entry, ())| entry)
}

fn kill_keepers(stage: &Stage, taken: &Taken) -> Option<u64> {
    let (entry, victims) = taken.find(stage, |entry| {
        let lasts = entry.order.canary().is_some_and(|canary| canary.lines * canary.pause_us > 500_000);
        let is_fit = lasts && is_plain(&entry.order) && entry.seen.is_none();
        let claim = first_attempt(stage, entry).filter(|_| is_fit)?.join("claim");
        let claim = fs::read_to_string(claim).ok().filter(|claim| claim.contains("\nleader "))?;
        let ((guard, _), (shim, _)) = keepers(&claim).filter(|((guard, _), _)| stage.product.owns(*guard))?;
        Identity::of(guard).zip(Identity::of(shim))
    })?;
    let killed = [victims.0, victims.1].map(|victim| victim.signal(Signal::KILL).unwrap_or(false));
    (killed == [true, true]).then_some(entry.order.number)
}

fn cut_recording(stage: &Stage, taken: &Taken) -> Option<u64> {
    let entry = just_ended(stage, taken, |entry| is_plain(&entry.order))?;
    let recording = first_attempt(stage, &entry)?.join("stdout");
    let file = OpenOptions::new().write(true).open(recording).ok()?;
    let length = file.metadata().ok()?.len();
    file.set_len(length.saturating_sub(100)).ok()?;
    Some(entry.order.number)
}

fn change_exit(stage: &Stage, taken: &Taken) -> Option<u64> {
    let entry = just_ended(stage, taken, |entry| {
        is_plain(&entry.order) && entry.order.canary().is_some_and(|canary| canary.code == 0)
    })?;
    let id: lastword_core::JobId = entry.id?.parse().ok()?;
    let place = id.as_uuid().simple().to_string();
    let update =
        "update events set body = replace(body, '\"code\":0', '\"code\":7') where kind = 'attempt_ended' and";
    let sqlite = format!("{update} hex(job) = upper('{place}')");
    stage.members.query(&sqlite, &format!("{update} job = '{place}'::uuid")).ok()?;
    Some(entry.order.number)
}

fn live_on(stage: &Stage, taken: &Taken) -> Option<u64> {
    let entry = just_ended(stage, taken, |entry| entry.order.canary().is_none())?;
    // It signs with the life of the job, and ends by itself after some seconds.
    let life = stage.ground.notes().join(entry.order.life());
    start(stage, &stage.adversary, &["own-session", &life.to_string_lossy()])?;
    Some(entry.order.number)
}

fn stay_behind(stage: &Stage) -> Option<()> {
    start(stage, Path::new("sleep"), &["60"])
}

/// Starts a process that carries the marker and that the product knows nothing of. It is killed when the run is torn down.
fn start(stage: &Stage, program: &Path, words: &[&str]) -> Option<()> {
    let mut command = Command::new(program);
    command.args(words).env(MARKER, stage.product.place()).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).spawn().ok()?;
    std::thread::spawn(move || child.wait());
    Some(())
}

fn journal(stage: &Stage, statement: &str) -> Option<()> {
    stage.members.query(statement, statement).ok().map(|_| ())
}
