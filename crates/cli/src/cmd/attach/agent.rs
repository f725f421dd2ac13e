//! Shows questions and notices while we follow a job. At a terminal, one question at a time is shown whole, page by page, and
//! answered in place, only by a line typed after its end was shown.

mod question;

use std::collections::VecDeque;

use lastword_api::{Answer, Code, Job, Question, QuestionKind, Verdict};
use lastword_client::events::Filter;
use lastword_client::jobs;
use serde_json::Value;

use super::typed::Typed;
use crate::client::{Client, follow};
use crate::failure::Failure;
use crate::text::clean::clean;
use crate::ui::{self, Ui, describe};
use question::{Asked, Step};

/// Shows questions and notices until the job has no more events.
pub(super) async fn listen(client: &Client, job: &Job) -> Result<(), Failure> {
    let mut questions =
        Questions { client, job, open: VecDeque::new(), typed: None, typing_ended: false, shown_before: 0 };
    job.open_questions().into_iter().for_each(|question| questions.add(question));
    let mut events = client.follow_job(&job.id, &Filter::default(), Some(job.version));
    loop {
        let event = tokio::select! {
            event = events.next() => match event? {
                Some(event) => Some(event),
                None => return Ok(()),
            },
            line = questions.next_line() => {
                match line {
                    Some(line) => questions.hear(&line).await,
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

/// Unanswered questions, oldest first.
struct Questions<'a> {
    client: &'a Client,
    job: &'a Job,
    open: VecDeque<Asked>,
    /// The terminal, if answers can be typed. Only the oldest question is shown then, the others after it.
    typed: Option<Typed>,
    /// The terminal's input has ended.
    typing_ended: bool,
    /// What the job had written to the terminal when the question was last shown.
    shown_before: u64,
}

impl Questions<'_> {
    fn add(&mut self, question: Question) {
        let ui = self.client.ui();
        self.open.push_back(Asked::new(question, ui.err, width(ui)));
        self.show();
    }

    fn close(&mut self, agent_id: &str) {
        self.retain(|question| question.agent_id != agent_id);
    }

    /// Drops all other questions, and shows the next one.
    fn retain(&mut self, is_kept: impl Fn(&Question) -> bool) {
        self.open.retain(|asked| is_kept(asked.question()));
        self.show();
    }

    /// Shows questions and how to answer them: the oldest if it can be answered here, otherwise all.
    fn show(&mut self) {
        if self.open.is_empty() {
            return;
        }
        if self.typed.is_none() && self.client.ui().can_ask && !self.typing_ended {
            self.typed = Typed::open();
        }
        let agent = self.job.agent.as_ref().map(|agent| agent.provider.as_str());
        let agent = agent.unwrap_or_else(|| describe::reference(self.job));
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
        if self.typed.as_mut().is_some_and(Typed::discard) {
            ui.say(DISCARDED);
        }
        // The hint comes last: what is typed after it always counts.
        ui.say(&asked.hint());
        self.shown_before = follow::shown_bytes();
    }

    /// Returns the next line for the question that is shown; `None` if the input has ended.
    async fn next_line(&mut self) -> Option<String> {
        match &mut self.typed {
            Some(typed) if self.open.front().is_some_and(Asked::is_begun) => typed.next_line().await,
            _ => std::future::pending().await,
        }
    }

    /// Takes a line that was typed at the question that is shown.
    async fn hear(&mut self, line: &str) {
        let Some(asked) = self.open.front_mut() else { return };
        let step = asked.hear(line);
        let denies = matches!(&step, Step::Answer(answer) if answer.verdict == Some(Verdict::Deny));
        // What the agent wrote since may look like another question.
        if !denies && follow::shown_bytes() != self.shown_before {
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

    async fn answer(&mut self, answer: Answer) {
        let sent = match jobs::answer(&self.job.id, &answer).once() {
            Ok(call) => self.client.call(&call).await.map(drop),
            Err(error) => Err(error.into()),
        };
        match sent {
            Ok(()) => {
                self.open.pop_front();
                self.show();
            }
            Err(failure) => {
                self.client.ui().say(&format!("lastword: {}", clean(&failure.problem.detail)));
                // It is not open any more; the next one may be.
                if failure.problem.code == Code::Conflict {
                    self.open.pop_front();
                    self.show();
                }
            }
        }
    }

    /// Shows how else to answer, once the input has ended.
    fn end_typing(&mut self) {
        (self.typed, self.typing_ended) = (None, true);
        if let Some(asked) = self.open.front().filter(|asked| asked.is_shown()) {
            self.client.ui().say(&format!("    {}", ui::question::command(self.job, asked.question())));
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

/// Shown below a question if input was typed before it was shown.
const DISCARDED: &str = "  (discarded input that was typed before this was shown)";

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
