//! Shows questions and notices while we follow a job. At a terminal, one question at a time is shown whole, page by page, and
//! answered in place, only by a line typed after its end was shown. A line typed while nothing is asked is a message for the agent.

mod question;

use std::collections::VecDeque;
use std::time::Duration;

use lastword_api::{Answer, Code, Job, Message, Question, QuestionKind, Verdict};
use lastword_client::events::Filter;
use lastword_client::jobs;
use serde_json::Value;
use tokio::sync::watch;

use super::typed::{Line, Typed};
use crate::client::{Client, passage};
use crate::cmd::send;
use crate::failure::Failure;
use crate::text::clean::clean;
use crate::ui::{self, Ui, describe};
use question::{Asked, Step};

/// Shows questions and notices until the job has no more events. `interrupt` says what Ctrl-C does.
pub(super) async fn listen(
    client: &Client,
    job: &Job,
    interrupt: &str,
    mut told: watch::Receiver<u64>,
) -> Result<(), Failure> {
    let mut questions =
        Questions { client, job, open: VecDeque::new(), typed: None, typing_ended: false, shown_before: 0 };
    questions.invite(interrupt);
    let asked = job.open_questions();
    if !asked.is_empty() {
        until_told(&mut told, 1).await;
    }
    asked.into_iter().for_each(|question| questions.add(question));
    let mut events = client.follow_job(&job.id, &Filter::default(), Some(job.version));
    loop {
        let event = tokio::select! {
            event = events.next() => match event? {
                Some(event) => Some(event),
                None => return Ok(()),
            },
            line = questions.next_line() => {
                match line {
                    Some(Line::Whole(line)) => questions.hear(&line).await,
                    Some(Line::Rest(line)) => questions.drop_rest(&line),
                    None => questions.end_typing(),
                }
                None
            }
        };
        let Some(event) = event else { continue };
        let text = |name: &str| event.data[name].as_str().unwrap_or_default();
        match event.kind.as_str() {
            "question_asked" => {
                let question = question::of_event(event.time, &event.data);
                // A rule may have answered it in the same moment.
                if is_open(client, job, &question.id).await {
                    until_told(&mut told, event.seq).await;
                    questions.add(question);
                }
            }
            "question_closed" | "answer_requested" => questions.close(text("question")),
            "turn_ended" => questions.retain(is_at_limit),
            "paused" => {
                let open = open_questions(client, job).await.unwrap_or_default();
                open.into_iter().filter(is_at_limit).for_each(|question| questions.add(question));
            }
            "unpaused" | "limit_fired" => questions.retain(|question| !is_at_limit(question)),
            _ => {}
        }
        notice(describe::reference(job), &event.kind, &event.data)
            .iter()
            .for_each(|line| client.ui().say(line));
    }
}

/// How long a question waits for what belongs above it.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// Waits until the transcript shows what came before this event.
async fn until_told(told: &mut watch::Receiver<u64>, seq: u64) {
    let _ = tokio::time::timeout(TOLD_WITHIN, told.wait_for(|told| *told >= seq)).await;
}

/// Reports whether a question is still to be answered; one that cannot be looked up is taken for open.
async fn is_open(client: &Client, job: &Job, question: &str) -> bool {
    open_questions(client, job).await.is_none_or(|open| open.iter().any(|open| open.id == question))
}

/// Returns the questions that are open now, if they can be looked up.
async fn open_questions(client: &Client, job: &Job) -> Option<Vec<Question>> {
    Box::pin(client.job(&job.id)).await.ok().map(|job| job.open_questions())
}

fn is_at_limit(question: &Question) -> bool {
    question.kind == Some(QuestionKind::Limit)
}

/// Reports whether a job can be sent messages: its agent reads more than its prompt.
fn takes_messages(job: &Job) -> bool {
    let dialect = job.agent.as_ref().and_then(|agent| agent.dialect.to_core());
    !job.is_ended() && dialect.is_some_and(|dialect| !dialect.is_one_shot())
}

/// Unanswered questions, oldest first, and the terminal where they are answered.
struct Questions<'a> {
    client: &'a Client,
    job: &'a Job,
    open: VecDeque<Asked>,
    /// The terminal, if answers and messages can be typed. Only the oldest question is shown then, the others after it.
    typed: Option<Typed>,
    /// The terminal's input has ended.
    typing_ended: bool,
    /// What the job had written to the terminal when the question was last shown.
    shown_before: u64,
}

impl Questions<'_> {
    /// Lets messages be typed, and says so.
    fn invite(&mut self, interrupt: &str) {
        if takes_messages(self.job) && self.is_typed_at() {
            let agent = self.agent();
            self.client
                .ui()
                .say(&format!("lastword: type a message for {agent} and press Enter; Ctrl-C {interrupt}"));
        }
    }

    /// Opens the terminal, if there is one; reports whether lines can be typed.
    fn is_typed_at(&mut self) -> bool {
        if self.typed.is_none() && self.client.ui().can_ask && !self.typing_ended {
            self.typed = Typed::open();
        }
        self.typed.is_some()
    }

    fn agent(&self) -> String {
        let agent = self.job.agent.as_ref().map(|agent| agent.provider.as_str());
        clean(agent.unwrap_or_else(|| describe::reference(self.job))).into_owned()
    }

    fn add(&mut self, question: Question) {
        let ui = self.client.ui();
        self.open.push_back(Asked::new(question, ui.err, width(ui)));
        self.show();
    }

    fn close(&mut self, agent_id: &str) {
        self.retain(|question| question.agent_id != agent_id);
    }

    /// Drops all other questions, and goes on with the next one.
    fn retain(&mut self, is_kept: impl Fn(&Question) -> bool) {
        let was_shown = self.open.front().is_some_and(|asked| asked.is_begun() && !is_kept(asked.question()));
        self.open.retain(|asked| is_kept(asked.question()));
        if was_shown && self.typed.is_some() {
            self.client.ui().say(CLOSED);
        }
        self.next(was_shown);
    }

    /// Shows the next question. If there is none, what was typed at the last one must not become a message.
    fn next(&mut self, was_shown: bool) {
        if was_shown && self.open.is_empty() {
            self.discard();
        }
        self.show();
    }

    /// Discards what was typed so far, and shows it, so that it can be typed again.
    fn discard(&mut self) {
        let typed = self.typed.as_mut().map(Typed::discard).unwrap_or_default();
        self.say_discarded(&typed);
    }

    fn say_discarded(&self, typed: &str) {
        if !typed.trim_end().is_empty() {
            self.client.ui().say(&format!("{DISCARDED}: {})", clean(typed.trim_end())));
        }
    }

    /// Discards the rest of a line whose beginning was discarded, with all that was typed behind it, and says again what can be typed.
    fn drop_rest(&mut self, rest: &str) {
        let behind = self.typed.as_mut().map(Typed::discard).unwrap_or_default();
        self.say_discarded(&[rest, behind.as_str()].join("\n"));
        if let Some(asked) = self.open.front().filter(|asked| asked.is_begun()) {
            self.client.ui().say(&asked.hint());
        }
    }

    /// Shows questions and how to answer them: the oldest if it can be answered here, otherwise all.
    fn show(&mut self) {
        if self.open.is_empty() {
            return;
        }
        self.is_typed_at();
        let agent = self.agent();
        match self.typed.is_some() {
            true => {
                if let Some(asked) = self.open.front_mut().filter(|asked| !asked.is_begun()) {
                    self.client.ui().say(&format!("{agent}:"));
                    asked.begin();
                    self.page();
                }
            }
            false => {
                let ui = self.client.ui();
                for asked in self.open.iter_mut().filter(|asked| !asked.is_begun()) {
                    asked.begin();
                    ui.say(&format!("{agent}:"));
                    let lines = ui::question::brief(self.job, asked.question(), ui.err, width(ui));
                    lines.iter().for_each(|line| ui.say(line));
                }
            }
        }
    }

    /// Shows the next page of the oldest question.
    fn page(&mut self) {
        let Some(asked) = self.open.front_mut() else { return };
        let ui = self.client.ui();
        asked.next_page(ui::screen().0).iter().for_each(|line| ui.say(line));
        let hint = asked.hint();
        self.discard();
        // The hint comes last: what is typed after it always counts.
        self.client.ui().say(&hint);
        self.shown_before = passage::shown_bytes();
    }

    /// Returns the next line, for the question that is shown or as a message; `None` if the input has ended.
    async fn next_line(&mut self) -> Option<Line> {
        let is_heard = match self.open.front() {
            Some(asked) => asked.is_begun(),
            None => takes_messages(self.job),
        };
        match &mut self.typed {
            Some(typed) if is_heard => typed.next_line().await,
            _ => std::future::pending().await,
        }
    }

    /// Takes a line that was typed: at the question that is shown, or as a message.
    async fn hear(&mut self, line: &str) {
        let Some(asked) = self.open.front_mut() else { return self.send(line.trim()).await };
        let step = asked.hear(line);
        let denies = matches!(&step, Step::Answer(answer) if answer.verdict == Some(Verdict::Deny));
        // What the agent wrote since may look like another question.
        if !denies && passage::shown_bytes() != self.shown_before {
            self.client.ui().say(WRITTEN_SINCE);
            asked.start_again();
            return self.page();
        }
        match step {
            Step::Page => self.page(),
            Step::Again => self.client.ui().say(&asked.hint()),
            Step::Answer(answer) => self.answer(answer).await,
        }
    }

    /// Sends a message, as `send` does.
    async fn send(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        // An answer that comes too early or too late is no message: it would begin a turn that was not meant.
        if ANSWERS.contains(&text.to_ascii_lowercase().as_str()) {
            let reference = describe::reference(self.job);
            let text = clean(text);
            self.client.ui().say(&format!(
                "  (nothing is asked now, so `{text}` was not sent; `lastword send {reference} {text}` sends it)"
            ));
            return;
        }
        let message = Message { text: text.to_owned(), ..Message::default() };
        let sent = match send::message(self.job, &message) {
            Ok(call) => self.client.call(&call).await,
            Err(failure) => Err(failure),
        };
        self.client.ui().say(&match sent {
            Ok(accepted) => send::queued(self.job, &accepted),
            Err(failure) => format!("lastword: not sent: {}", clean(&failure.problem.detail)),
        });
    }

    async fn answer(&mut self, answer: Answer) {
        let sent = match jobs::answer(&self.job.id, &answer).once() {
            Ok(call) => self.client.call(&call).await.map(drop),
            Err(error) => Err(error.into()),
        };
        match sent {
            Ok(()) => {
                self.open.pop_front();
                self.next(true);
            }
            Err(failure) => {
                self.client.ui().say(&format!("lastword: {}", clean(&failure.problem.detail)));
                // It is not open any more; the next one may be.
                if failure.problem.code == Code::Conflict {
                    self.open.pop_front();
                    self.next(true);
                }
            }
        }
    }

    /// Shows how else to answer or to send a message, once the input has ended.
    fn end_typing(&mut self) {
        (self.typed, self.typing_ended) = (None, true);
        let ui = self.client.ui();
        match self.open.front() {
            Some(asked) if asked.is_shown() => {
                ui.say(&format!("    {}", ui::question::command(self.job, asked.question())));
            }
            Some(_) => {}
            None => ui.say(&format!(
                "lastword: `lastword send {} TEXT` sends a message from elsewhere",
                describe::reference(self.job)
            )),
        }
        self.show();
    }
}

/// Returns the width for questions: every line of the screen must begin with a bar of ours, also if the output goes elsewhere.
fn width(ui: &Ui) -> usize {
    ui.width.min(ui::screen().1)
}

/// Shown instead of an answer if the agent has written to the terminal since its question was shown.
const WRITTEN_SINCE: &str = "  (the agent has written since this was shown; here it is again)";

/// Shown before what was typed too early: before a question was shown, or before the last one was answered.
const DISCARDED: &str = "  (discarded input that was typed before";

/// What people type at a question. Nothing else that is so short is worth a message.
const ANSWERS: [&str; 6] = ["y", "yes", "n", "no", "a", "always"];

/// Shown below a question that was answered elsewhere, or withdrawn.
const CLOSED: &str = "  (this is no longer asked)";

/// Returns what to print when a limit is near, or was raised.
fn notice(reference: &str, kind: &str, data: &Value) -> Vec<String> {
    let limit = data["limit"].as_str().unwrap_or_default();
    let number = |name: &str| data[name].as_u64().unwrap_or_default();
    let used = describe::used(limit, number("measured"), number("allowed"));
    match kind {
        "limit_neared" => vec![format!("lastword: {reference} is close to its {limit} limit: {used}")],
        "unpaused" => vec![format!("lastword: {reference} continues")],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_notice_is_shown_before_a_limit_is_reached_and_after_it_is_raised() {
        let printed = |kind: &str| {
            let data = json!({ "limit": "tokens", "measured": 810, "allowed": 1000 });
            notice("docs", kind, &data)
        };
        assert_eq!(printed("limit_neared"), ["lastword: docs is close to its tokens limit: 810 of 1000"]);
        let data = json!({ "limit": "money", "measured": 1_250_000, "allowed": 1_500_000 });
        assert_eq!(
            notice("docs", "limit_neared", &data),
            ["lastword: docs is close to its money limit: $1.25 of $1.50"]
        );
        assert_eq!(printed("unpaused"), ["lastword: docs continues"]);
        assert!(printed("spent").is_empty());
    }
}
