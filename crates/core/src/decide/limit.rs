//! `limit`: changing a limit, and what happens when one is reached.
//!
//! A limit that fired is stored with what was measured. Raising the limit later does not revoke it.

use super::{Decision, Refusal};
use crate::budget::Budget;
use crate::conversation::Spending;
use crate::event::{AnswerRequested, Fact, LimitChanged, LimitFired, LimitNeared, Paused, Rested, Unpaused};
use crate::ids::{Awake, JobId, TurnNo};
use crate::job::{Attempt, Job, Pause, Phase};
use crate::limits::{self, Clock, Clocks, Limit, Limits, Reached, Used};
use crate::outcome::Cause;
use crate::question::Reply;
use crate::report::Pulse;
use crate::spec::{OnLimit, Work};

/// Awake milliseconds after which an agent that has not opened its session is reported.
const HANDSHAKE_WARNED_MS: u64 = 30_000;

/// Decides a change of one limit; zero switches it off. Adds nothing if the limit has that value already. A limit that stops the job is
/// refused: its change would look as if it could save the job.
pub fn decide(job: &Job, by: &str, limit: Limit, value: u64) -> Decision {
    let nothing = |what| Err(Refusal::Nothing(job.id, what));
    let has_fired = job.stop.as_ref().is_some_and(|stop| stop.cause == Cause::Limit(limit));
    let is_command = job.spec.as_ref().is_some_and(|spec| !spec.work.is_agent());
    match job.phase {
        Phase::Unborn => Err(Refusal::NotFound(job.id)),
        // Its conversation may go on, under the limits of its newest job.
        Phase::Ended(_) if job.continued_by.is_some() || !job.reports_turns() => Err(Refusal::Ended(job.id)),
        _ if has_fired && !job.is_ended() => nothing("reached that limit already, and is being stopped"),
        _ if is_command && limit.is_of_agents() && value > 0 => {
            nothing("no agent, which that limit is for; limit `wall`, `stall` or `output` instead")
        }
        _ if job.limits.get(limit).unwrap_or(0) == value => Ok(Vec::new()),
        _ => {
            let mut changed = Limits::default();
            changed.set(limit, value);
            job.spec.as_ref().map_or(Ok(()), |spec| check_measured(&spec.work, &changed))?;
            Ok(vec![LimitChanged { by: by.to_owned(), limit, value }.into()])
        }
    }
}

/// Refuses a job of a group whose budget is for something that its agent does not report while a turn runs.
pub fn check_budget(work: &Work, budget: &Budget) -> Result<(), Refusal> {
    check_measured(work, &budget.limits()).map_err(|refusal| match refusal {
        Refusal::Unmeasured(provider, Limit::Tokens) => Refusal::Unmeasured(provider, Limit::GroupTokens),
        Refusal::Unmeasured(provider, _) => Refusal::Unmeasured(provider, Limit::GroupMoney),
        other => other,
    })
}

/// Decides the answer to the question at a limit: a higher value, or a denial, after which the job is stopped.
pub(super) fn answer(job: &Job, by: &str, pause: &Pause, reply: &Reply) -> Decision {
    let nothing = |what| Err(Refusal::Nothing(job.id, what));
    let mut facts = match reply {
        _ if pause.is_denied => return nothing("an answer to that question already"),
        Reply::Deny(_) => Vec::new(),
        Reply::Words(_) if matches!(pause.limit, Limit::GroupTokens | Limit::GroupMoney) => {
            return nothing("reached the budget of its group, which `lastword group set` raises");
        }
        Reply::Words(words) if words.len() == 1 => {
            let value = words[0].trim();
            let (limit, value) =
                limits::parse_setting(pause.limit.name(), value).map_err(Refusal::NotAValue)?;
            if value != 0 && value < pause.measured {
                return Err(Refusal::TooLow(limit));
            }
            decide(job, by, limit, value)?
        }
        Reply::Allow | Reply::Words(_) => {
            return nothing("asked for a higher limit, which is answered with its new value");
        }
    };
    let (by, text, name) = (by.to_owned(), reply.text(), pause.name());
    let (input, question, reply) = (job.inputs_made.next(), name.clone(), Some(reply.clone()));
    facts.push(AnswerRequested { by, input, question, name, text, reply }.into());
    Ok(facts)
}

/// Refuses to go on with a conversation whose budget allows no further turn.
pub(super) fn check_left(job: JobId, limits: &Limits, spent: &Spending) -> Result<(), Refusal> {
    let used = Used {
        active_ms: spent.active_ms,
        turns: u64::from(spent.turns) + 1,
        tokens: spent.usage.tokens(),
        money_micros: spent.usage.money_micros,
        ..Used::default()
    };
    let budgets = [Limit::Active, Limit::Turns, Limit::Tokens, Limit::Money];
    let mut only = Limits::default();
    budgets.into_iter().for_each(|limit| only.set(limit, limits.get(limit).unwrap_or(0)));
    limits::reached(&only, &used).map_or(Ok(()), |reached| Err(Refusal::UsedUp(job, reached.limit)))
}

/// Refuses a limit on something that the agent does not report while a turn runs: it would bind nothing.
pub(super) fn check_measured(work: &Work, limits: &Limits) -> Result<(), Refusal> {
    let Work::Agent { provider, terms, .. } = work else { return Ok(()) };
    // Recorded by 0.1.0.
    let Some(measures) = terms.measures else { return Ok(()) };
    let unmeasured = [(Limit::Tokens, measures.tokens), (Limit::Money, measures.money)];
    match unmeasured.into_iter().find(|(limit, measured)| !measured && limits.get(*limit).is_some()) {
        Some((limit, _)) => Err(Refusal::Unmeasured(provider.clone(), limit)),
        None => Ok(()),
    }
}

/// Returns what follows from the first limit that is reached: the job is stopped, or paused if a person is to be asked first. `None` if
/// no limit is reached or the job is stopping already.
pub fn fire(job: &Job, pulse: &Pulse, now: Awake) -> Option<Fact> {
    let can_pause = spends(job) || job.wants_turn();
    fire_with(job, pulse, now, turns_wanted(job), can_pause)
}

/// Returns the number of turns begun, counting a pending one.
fn turns_wanted(job: &Job) -> TurnNo {
    if job.wants_turn() { job.turns.next() } else { job.turns }
}

/// Like [`fire`], as if `turns` had begun.
pub(super) fn fire_at_turn(job: &Job, pulse: &Pulse, now: Awake, turns: TurnNo) -> Option<Fact> {
    fire_with(job, pulse, now, turns, spends(job))
}

fn fire_with(job: &Job, pulse: &Pulse, now: Awake, turns: TurnNo, can_pause: bool) -> Option<Fact> {
    if !matches!(job.phase, Phase::Running) {
        return None;
    }
    let attempt = watched(job)?;
    let used = used(job, attempt, pulse, now, turns);
    let of_group = pulse.budget.exceeded.filter(|_| can_pause && is_agent(job));
    let Reached { limit, measured, allowed } = limits::reached(&job.limits, &used).or(of_group)?;
    let attempt = attempt.no;
    let fired = LimitFired { attempt, limit, measured, allowed }.into();
    let asks = expires_ms(job).filter(|_| limit.is_budget());
    match (asks, &job.pause) {
        (None, _) => Some(fired),
        (Some(ms), Some(pause)) => (now >= pause_ends(pause, ms)).then_some(fired),
        (Some(_), None) if can_pause => Some(Paused { attempt, limit, measured, allowed, awake: now }.into()),
        (Some(_), None) => None,
    }
}

fn used(job: &Job, attempt: &Attempt, pulse: &Pulse, now: Awake, turns: TurnNo) -> Used {
    let clocks = clocks(job, attempt, pulse);
    let elapsed = |clock: Option<Clock>| clock.map_or(0, |clock| clock.shows(now));
    let spending = job.spending();
    Used {
        wall_ms: elapsed(clocks.wall),
        turn_ms: elapsed(clocks.turn),
        active_ms: match clocks.active {
            Some(clock) => clock.shows(now),
            // What is used up lets no further turn begin.
            None if job.wants_turn() => spending.active_ms,
            None => 0,
        },
        handshake_ms: elapsed(clocks.handshake),
        idle_ms: elapsed(clocks.idle),
        stall_ms: elapsed(clocks.stall),
        output_bytes: pulse.output,
        turns: u64::from(job.spent_before.turns) + u64::from(turns.0),
        tokens: spending.usage.tokens(),
        money_micros: spending.usage.money_micros,
    }
}

/// Returns the end of the pause, if the limit that caused it was raised far enough.
pub fn lifted(job: &Job, pulse: &Pulse, now: Awake) -> Option<Fact> {
    let pause = job.pause.filter(|_| matches!(job.phase, Phase::Running))?;
    let attempt = watched(job)?;
    if let Limit::GroupTokens | Limit::GroupMoney = pause.limit {
        let lifted = pulse.budget.exceeded.is_none_or(|exceeded| exceeded.limit != pause.limit);
        return lifted.then(|| Unpaused { attempt: attempt.no }.into());
    }
    let mut only = Limits::default();
    only.set(pause.limit, job.limits.get(pause.limit).unwrap_or(0));
    let used = used(job, attempt, pulse, now, turns_wanted(job));
    limits::reached(&only, &used).is_none().then(|| Unpaused { attempt: attempt.no }.into())
}

/// Returns the end of a rest: a person was asked, or the agent was idle, and is no longer.
pub fn rested(job: &Job, now: Awake) -> Option<Fact> {
    let attempt = watched(job).filter(|_| !job.waits_for_person() && !job.idle)?;
    let asked = attempt.asked?;
    Some(Rested { attempt: attempt.no, ms: now.0.saturating_sub(asked.0) }.into())
}

/// Returns a warning for each budget of an agent that is four fifths used, and for a handshake that takes long, once per value of the
/// limit.
pub fn near(job: &Job, pulse: &Pulse, now: Awake) -> Vec<Fact> {
    let Some(attempt) = watched(job).filter(|_| is_agent(job) && matches!(job.phase, Phase::Running)) else {
        return Vec::new();
    };
    let used = used(job, attempt, pulse, now, job.turns);
    let measured = [
        (Limit::Handshake, used.handshake_ms),
        (Limit::Turns, used.turns),
        (Limit::Tokens, used.tokens),
        (Limit::Money, used.money_micros),
    ];
    let near = measured.into_iter().filter_map(|(limit, measured)| {
        let allowed = job.limits.get(limit)?;
        // A limit that is exceeded needs no warning.
        let is_near = measured >= warned_at(limit, allowed) && measured <= allowed;
        let is_new = !job.neared.contains(&(limit, allowed));
        (is_near && is_new).then(|| LimitNeared { attempt: attempt.no, limit, measured, allowed }.into())
    });
    near.collect()
}

/// Returns the value from which on a limit is near.
fn warned_at(limit: Limit, allowed: u64) -> u64 {
    let near = (u128::from(allowed) * 4).div_ceil(5) as u64;
    if limit == Limit::Handshake { near.min(HANDSHAKE_WARNED_MS) } else { near }
}

/// Returns when a pause ends the job, unless the limit is raised: at once after a denial.
fn pause_ends(pause: &Pause, expires_ms: u64) -> Awake {
    if pause.is_denied { pause.awake } else { pause.awake.plus_ms(expires_ms) }
}

/// Returns how long a person may take to decide, if the job asks one.
fn expires_ms(job: &Job) -> Option<u64> {
    match job.spec.as_ref()?.on_limit {
        OnLimit::Ask { expires_ms } => Some(expires_ms),
        OnLimit::Stop => None,
    }
}

fn is_agent(job: &Job) -> bool {
    job.spec.as_ref().is_some_and(|spec| spec.work.is_agent())
}

/// Reports whether the job can use up budget at the moment. An agent between turns cannot.
fn spends(job: &Job) -> bool {
    !job.reports_turns() || job.active_turn().is_some()
}

/// Returns the open attempt if its present owner has seen its tree. A tree left by an earlier owner may have ended long ago, within its
/// limits, so it is located before it is measured.
fn watched(job: &Job) -> Option<&Attempt> {
    job.open_attempt().filter(|attempt| attempt.epoch == job.epoch)
}

/// Returns since when the stall clock runs. `None` while it is suspended: a tool runs, a person is asked, or the agent is idle.
pub fn stalled_since(job: &Job, pulse: &Pulse) -> Option<Awake> {
    let launched = job.open_attempt()?.launched?;
    let idle = job.session.as_ref().is_some_and(|session| !session.state.may_hold_turn());
    let rests = pulse.tools > 0 || job.waits_for_person() || idle;
    (!rests).then(|| pulse.progress.max(launched))
}

/// Returns when the clocks of an attempt started. While a person is asked, those of the attempt and of its turn rest.
fn clocks(job: &Job, attempt: &Attempt, pulse: &Pulse) -> Clocks {
    let session = job.session.as_ref().filter(|session| session.attempt == attempt.no);
    let runs = attempt.asked.is_none();
    let turn = session.and_then(|session| session.clock).filter(|_| runs);
    let turn = turn.map(|turn| Clock::since(turn.began.plus_ms(attempt.rested_ms - turn.rested_ms)));
    let shakes = job.spec.as_ref().is_some_and(|spec| spec.work.shakes_hands()) && session.is_none();
    Clocks {
        wall: attempt
            .launched
            .filter(|_| runs)
            .map(|launched| Clock { since: launched.plus_ms(attempt.rested_ms), before_ms: job.ran_ms }),
        turn,
        active: turn.map(|turn| Clock { before_ms: job.spending().active_ms, ..turn }),
        handshake: attempt.launched.filter(|_| shakes).map(Clock::since),
        idle: session
            .filter(|session| session.is_settled() && job.inputs.is_empty())
            .and_then(|session| session.idle)
            .map(Clock::since),
        stall: stalled_since(job, pulse).map(Clock::since),
    }
}

/// Returns when the limits of a job must next be checked.
pub fn next_check(job: &Job, pulse: &Pulse) -> Option<Awake> {
    if !matches!(job.phase, Phase::Running) {
        return None;
    }
    let clocks = clocks(job, watched(job)?, pulse);
    let deadline = limits::next_deadline(&job.limits, &clocks);
    let answer = job.pause.zip(expires_ms(job)).map(|(pause, ms)| pause_ends(&pause, ms));
    let allowed = job.limits.get(Limit::Handshake);
    let unwarned = allowed.filter(|allowed| !job.neared.contains(&(Limit::Handshake, *allowed)));
    let warning = clocks.handshake.zip(unwarned);
    let warning = warning.map(|(clock, allowed)| clock.reaches(warned_at(Limit::Handshake, allowed)));
    [deadline, answer, warning].into_iter().flatten().min()
}
