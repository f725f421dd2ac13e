//! One job from its submission to its end: asked for through the API or at the command line, spoken to, changed, cancelled,
//! robbed of its keeper. Whatever gets no answer is asked again, with the same key.

use std::time::{Duration, Instant};

use lastword_api::{self as api, After, IoKind, Ladder, Limits, LimitsPatch, Message, Needs, Retry, Submit};
use lastword_client::jobs;
use lastword_proc::{Identity, Line};
use rustix::process::Signal;

use super::ask::{ask, ask_on, key};
use super::plan::{Cancel, LABEL, Limit, Murder, NARROW, Order};
use super::stage::{Awaited, Stage};
use super::{afterwards, canary, dependents};
use crate::clock;

/// The longest until a job that is to lose its keeper has one.
const KEEPER_MAX: Duration = Duration::from_secs(10);

/// Every so many jobs are waited for by a command.
const WAIT_EVERY: u64 = 5;

/// Milliseconds between TERM and KILL: short, so that the deaf do not fill the slots.
const GRACE_MS: u64 = 400;

/// Milliseconds before a second attempt.
const BACKOFF_MS: u64 = 150;

/// Conducts one job, the rows that wait for it, and the prune that belongs to its number.
pub(crate) fn conduct(stage: &Stage, order: &Order) {
    std::thread::scope(|scope| {
        if let Some(older_than_ms) = order.prune_ms {
            scope.spawn(move || afterwards::prune(stage, older_than_ms));
        }
        if stage.mix.changes {
            for row in order.rows() {
                scope.spawn(move || conduct_in_a_row(stage, &row));
            }
        }
        conduct_alone(stage, order);
    });
}

fn conduct_alone(stage: &Stage, order: &Order) {
    stage.enter(order);
    let argv = match canary::argv(order, &stage.ground.notes(), &stage.adversary) {
        Ok(argv) => argv,
        Err(why) => return eprintln!("job {}: {why}", order.number),
    };
    let after = order.after.and_then(|after| dependents::choose(stage, order.number, after));
    stage.entry(order.number, |entry| entry.waits_for = after.clone());
    let submit = submission(stage, order, &argv, after.as_ref());
    let id = match order.by_command {
        true => by_command(stage, order, &argv, after.as_ref()),
        false => by_api(stage, order, &submit, after.as_ref()),
    };
    if let Some(id) = id {
        stage.acknowledged(order.number, &id);
        stage.count("submitted");
        live(stage, order, &id);
        let submit = (!order.by_command).then_some(&submit);
        afterwards::afterwards(stage, order, &id, submit);
    }
}

/// Submits jobs that wait for one which is about to end, each as soon as the one before is acknowledged, until the answer is that it
/// has ended: whenever it ends, one of them is under way.
fn conduct_in_a_row(stage: &Stage, orders: &[Order]) {
    let Some(first) = orders.first() else { return };
    let Some(other) = first.after.and_then(|after| dependents::choose(stage, first.number, after)) else {
        return;
    };
    let mut client = stage.product.client();
    for order in orders {
        stage.enter(order);
        let argv = match canary::argv(order, &stage.ground.notes(), &stage.adversary) {
            Ok(argv) => argv,
            Err(why) => return eprintln!("job {}: {why}", order.number),
        };
        let other = Awaited { must: order.after.is_some_and(|after| after.must), ..other.clone() };
        stage.entry(order.number, |entry| entry.waits_for = Some(other.clone()));
        let call = jobs::submit(&submission(stage, order, &argv, Some(&other))).with_key(key(stage, order));
        match ask_on(stage, &mut client, &call) {
            Ok(job) => {
                stage.acknowledged(order.number, &job.id);
                stage.count("submitted");
                stage.count("submitted in a row");
                if job.waits.is_none_or(|waits| waits.jobs.is_empty()) {
                    return stage.count("rows that go beyond the end of the other one");
                }
            }
            Err(code) => {
                stage.entry(order.number, |entry| entry.unanswered = true);
                return dependents::refused(stage, order, Some(&other), &code);
            }
        }
    }
}

/// Does to a job what is to be done before it ends.
fn live(stage: &Stage, order: &Order, id: &str) {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        // At their own times, whatever else is under way.
        if let Some(how) = order.limit {
            scope.spawn(move || limit(stage, order, id, begin, how));
        }
        if let Some(after_ms) = order.label_ms {
            scope.spawn(move || label(stage, order, id, begin, after_ms));
        }
        let inputs = order.canary().map_or(0, |canary| canary.inputs);
        for number in 1..=inputs {
            if send(stage, order, id, number) {
                stage.entry(order.number, |entry| entry.acts.inputs += 1);
                stage.count("inputs");
            }
        }
        if let Some(how) = order.murder {
            rest_until(begin, how.after_ms);
            murder(stage, order, id, how);
        }
        if let Some(how) = order.cancel {
            rest_until(begin, how.after_ms);
            cancel(stage, order, id, how);
        }
        if stage.mix.waits && order.number % WAIT_EVERY == 1 {
            wait(stage, order, id);
        }
    });
}

/// Waits for the job at the command line, through whatever happens to the daemon meanwhile.
fn wait(stage: &Stage, order: &Order, id: &str) {
    let Ok(output) = stage.product.run(&["wait", id]) else { return };
    match output.status.code() {
        Some(code @ (0 | 1 | 3)) => {
            stage.count("waited for");
            stage.entry(order.number, |entry| entry.acts.waited = Some(code));
        }
        code => {
            stage.count("waits that gave up");
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
            println!("at {:.1} s: wait: {code:?}: {said}", stage.elapsed_s());
        }
    }
}

fn rest_until(begin: Instant, after_ms: u64) {
    clock::rest(Duration::from_millis(after_ms).saturating_sub(begin.elapsed()));
}

fn submission(stage: &Stage, order: &Order, argv: &[String], after: Option<&Awaited>) -> Submit {
    let (env, variables) = stage.members.environment();
    let on = |must: bool| if must { Needs::Success } else { Needs::Any };
    let listens = order.canary().is_some_and(|canary| canary.inputs > 0);
    Submit {
        argv: argv.to_vec(),
        cwd: "/".to_owned(),
        env: env.into_iter().collect(),
        variables,
        group: order.narrow.then(|| NARROW.to_owned()),
        priority: i16::try_from(order.priority).unwrap_or_default(),
        labels: [("chaos".to_owned(), order.number.to_string())].into(),
        limits: Limits { wall_ms: order.wall_ms, ..Limits::default() },
        retry: Retry {
            attempts: u32::try_from(order.retries).unwrap_or_default() + 1,
            backoff_ms: BACKOFF_MS,
            ..Retry::default()
        },
        ladder: Ladder { term_ms: GRACE_MS, ..Ladder::default() },
        after: after.iter().map(|other| After { job: other.id.clone(), on: on(other.must) }).collect(),
        io: api::Io { kind: if listens { IoKind::Pipe } else { IoKind::None }, ..api::Io::default() },
        ..Submit::default()
    }
}

/// Submits it; some of them twice at once, with the same key.
fn by_api(stage: &Stage, order: &Order, submit: &Submit, after: Option<&Awaited>) -> Option<String> {
    let call = jobs::submit(submit).with_key(key(stage, order));
    let (one, other) = std::thread::scope(|scope| {
        let other = order.twice.then(|| scope.spawn(|| ask(stage, &call).map(|job| job.id)));
        let one = ask(stage, &call).map(|job| job.id);
        (one, other.and_then(|other| other.join().ok()))
    });
    if order.twice {
        stage.count("submitted twice at once");
    }
    for code in [Some(&one), other.as_ref()].into_iter().flatten().filter_map(|answer| answer.as_ref().err())
    {
        dependents::refused(stage, order, after, code);
    }
    let id = one.ok();
    let more = other.and_then(Result::ok);
    stage.entry(order.number, |entry| entry.acts.same_key.extend(more.clone()));
    let id = id.or(more);
    if id.is_none() {
        stage.entry(order.number, |entry| entry.unanswered = true);
    }
    id
}

fn by_command(stage: &Stage, order: &Order, argv: &[String], after: Option<&Awaited>) -> Option<String> {
    let mut words: Vec<String> = vec!["run".to_owned(), "--detach".to_owned(), "--cwd=/".to_owned()];
    words.push(format!("--label=chaos={}", order.number));
    words.push(format!("--priority={}", order.priority));
    words.push(format!("--grace={GRACE_MS}ms"));
    words.push(format!("--retry={}", order.retries));
    words.push(format!("--backoff={BACKOFF_MS}ms"));
    words.extend(order.wall_ms.map(|ms| format!("--wall={ms}ms")));
    words.extend(order.narrow.then(|| format!("--group={NARROW}")));
    words.extend(
        after.map(|other| format!("--after={}:{}", other.id, if other.must { "success" } else { "any" })),
    );
    words.extend(stage.members.environment().1.iter().map(|name| format!("--env={name}")));
    if order.canary().is_some_and(|canary| canary.inputs > 0) {
        words.push("--interactive".to_owned());
    }
    words.push("--".to_owned());
    words.extend(argv.iter().cloned());
    stage.count("asked for by command");
    let begin = clock::boot_ns();
    let output = stage.product.run(&words).ok()?;
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() && !id.is_empty() {
        return Some(id);
    }
    // It says that it failed; whether the job was taken before is for the judges to accept either way.
    stage.entry(order.number, |entry| entry.unanswered = true);
    let span = (begin, clock::boot_ns());
    if stage.was_full(span) || stage.was_read_only(span) {
        stage.count("commands that failed, nothing could be written");
        return None;
    }
    if after.is_some_and(|other| dependents::may_be_gone(stage, other)) {
        stage.count("dependents refused, the other one is gone");
        return None;
    }
    stage.count("commands that failed");
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
    println!("at {:.1} s: run: {}: {said}", stage.elapsed_s(), output.status);
    None
}

/// Sends one input; it is known by its key.
fn send(stage: &Stage, order: &Order, id: &str, number: u64) -> bool {
    let message = Message { text: format!("input {number}\n"), ..Message::default() };
    let key = format!("input-{}-{number}", order.number);
    ask(stage, &jobs::send(id, &message).with_key(key)).is_ok()
}

fn cancel(stage: &Stage, order: &Order, id: &str, how: Cancel) {
    stage.entry(order.number, |entry| entry.acts.cancel_sent = true);
    stage.count(if how.force { "cancels, forced" } else { "cancels, polite" });
    let heard = match how.by_command {
        true => {
            let words = ["cancel", id, "--no-wait", "--force"];
            let words = if how.force { &words[..] } else { &words[..3] };
            stage.product.run(words).is_ok_and(|output| output.status.success())
        }
        false => {
            let how = api::Cancel { force: how.force, ..api::Cancel::default() };
            ask(stage, &jobs::cancel(id, &how)).is_ok()
        }
    };
    if heard {
        stage.entry(order.number, |entry| entry.acts.cancelled_ns = Some(clock::boot_ns()));
    }
}

/// Changes the limit on its time, whatever it is doing.
fn limit(stage: &Stage, order: &Order, id: &str, begin: Instant, how: Limit) {
    rest_until(begin, how.after_ms);
    let note =
        |accepted: bool| stage.entry(order.number, |entry| entry.acts.limit = Some((how.wall_ms, accepted)));
    // Noted first: from here on it may be in force.
    note(false);
    let accepted = match how.by_command {
        true => {
            let change = format!("wall={}ms", how.wall_ms);
            stage.product.run(&["limit", id, &change]).is_ok_and(|output| output.status.success())
        }
        false => {
            let patch = LimitsPatch { wall_ms: Some(Some(how.wall_ms)), ..LimitsPatch::default() };
            ask(stage, &jobs::set_limits(id, &patch)).is_ok()
        }
    };
    if accepted {
        note(true);
        stage.count("limits changed");
    }
}

fn label(stage: &Stage, order: &Order, id: &str, begin: Instant, after_ms: u64) {
    rest_until(begin, after_ms);
    let value = order.number.to_string();
    let change = [(LABEL.to_owned(), Some(value.clone()))].into();
    if ask(stage, &jobs::set_labels(id, &change)).is_ok() {
        stage.entry(order.number, |entry| entry.acts.label = Some(value));
        stage.count("labels changed");
    }
}

/// Kills the keepers of a job that has any.
fn murder(stage: &Stage, order: &Order, id: &str, how: Murder) {
    let folder = stage.members.jobs().join(id);
    let found = clock::until(KEEPER_MAX, Duration::from_millis(10), || {
        let over = stage.entry(order.number, |entry| entry.seen.is_some()).unwrap_or(true);
        let keepers = (1..=order.retries + 1).rev().find_map(|attempt| {
            keepers(&std::fs::read_to_string(folder.join(attempt.to_string()).join("claim")).ok()?)
        });
        (over || keepers.is_some()).then_some(keepers)
    });
    let Some(Some((guard, shim))) = found else { return };
    // Noted first: from here on the job may be lost.
    stage.entry(order.number, |entry| entry.acts.murdered = true);
    for (name, keeper, wanted) in [("guards killed", guard, how.guard), ("shims killed", shim, how.shim)] {
        // The keeper may have exited by itself, and its pid may belong to another process of this run.
        let is_it = |victim: &Identity| (victim.pid, victim.start_ticks) == keeper;
        let victim = if wanted { Identity::of(keeper.0).filter(is_it) } else { None };
        if victim.is_some_and(|victim| victim.signal(Signal::KILL).unwrap_or(false)) {
            stage.count(name);
        }
    }
}

/// Number and start of a keeper: together they are given once.
type Keeper = (i32, u64);

/// Reads guard and shim off a claim, once both are there.
pub(crate) fn keepers(claim: &str) -> Option<(Keeper, Keeper)> {
    let mut lines = claim.lines().filter_map(Line::parse);
    let who = |line: Line| Some((line.get("pid")?, line.get("start")?));
    let guard = lines.find(|line| line.kind() == "kept").and_then(who)?;
    let shim = lines.find(|line| line.kind() == "shim").and_then(who)?;
    Some((guard, shim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepers_are_read_off_a_claim_that_has_both() {
        let claim = "kept version=1 socket=s marker=m boot=b pid=7 start=1\nshim boot=b pid=8 start=2\n";
        assert_eq!(keepers(claim), Some(((7, 1), (8, 2))));
        assert_eq!(keepers("kept version=1 socket=s marker=m boot=b pid=7 start=1\n"), None);
        assert_eq!(keepers("closed version=1\n"), None);
    }
}
