//! Shows an agent's questions and notices while we follow its job. At a terminal, one question at a time is shown and answered in place,
//! and only by a line typed after it was shown.

use std::collections::VecDeque;

use lastword_api::{Answer, Job};
use lastword_client::events::Filter;
use lastword_client::jobs;
use serde_json::Value;

use super::typed::Typed;
use crate::client::Client;
use crate::failure::Failure;
use crate::text::clean::clean;
use crate::ui::describe;

/// Shows questions and notices until the job has no more events.
pub(super) async fn listen(client: &Client, job: &Job) -> Result<(), Failure> {
    let mut questions = Questions { client, job, open: VecDeque::new(), typed: None, typing_ended: false };
    for question in job.session.iter().flat_map(|session| &session.questions) {
        questions.add(question.id.clone(), question.text.clone());
    }
    let mut events = client.follow_job(&job.id, &Filter::default(), Some(job.version));
    loop {
        let event = tokio::select! {
            event = events.next() => match event? {
                Some(event) => Some(event),
                None => return Ok(()),
            },
            line = questions.next_line() => {
                match line {
                    Some(line) => questions.answer(&line).await,
                    None => questions.end_typing(),
                }
                None
            }
        };
        let Some(event) = event else { continue };
        let text = |name: &str| event.data[name].as_str().unwrap_or_default().to_owned();
        match event.kind.as_str() {
            "question_asked" => questions.add(text("question"), text("text")),
            "question_closed" | "answer_requested" => questions.close(&text("question")),
            "turn_ended" => questions.open.clear(),
            _ => notice(describe::reference(job), &event.kind, &event.data)
                .iter()
                .for_each(|line| client.ui().say(line)),
        }
    }
}

/// Unanswered questions, oldest first.
struct Questions<'a> {
    client: &'a Client,
    job: &'a Job,
    open: VecDeque<Question>,
    /// The terminal, if answers can be typed. Only the oldest question is shown then, the others after it.
    typed: Option<Typed>,
    /// The terminal's input has ended.
    typing_ended: bool,
}

struct Question {
    id: String,
    text: String,
    shown: bool,
}

impl Questions<'_> {
    fn add(&mut self, id: String, text: String) {
        self.open.push_back(Question { id, text, shown: false });
        self.show();
    }

    fn close(&mut self, id: &str) {
        self.open.retain(|question| question.id != id);
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
        let ui = self.client.ui();
        let agent = self.job.agent.as_ref().map_or("it", |agent| agent.provider.as_str());
        let count = if self.typed.is_some() { 1 } else { self.open.len() };
        let several = self.open.len() > 1;
        for question in self.open.iter_mut().take(count).filter(|question| !question.shown) {
            question.shown = true;
            ui.say(&format!("{agent} asks: {}", clean(&question.text)));
            match &mut self.typed {
                None => ui.say(&command_hint(self.job, several.then_some(&question.id))),
                // The hint comes last: an answer typed after it always counts.
                Some(typed) => {
                    if typed.discard() {
                        ui.say(DISCARDED);
                    }
                    ui.say(HINT);
                }
            }
        }
    }

    /// Returns the next line for the question that is shown; `None` if the input has ended.
    async fn next_line(&mut self) -> Option<String> {
        match &mut self.typed {
            Some(typed) if self.open.front().is_some_and(|question| question.shown) => {
                typed.next_line().await
            }
            _ => std::future::pending().await,
        }
    }

    /// Answers the question that is shown.
    async fn answer(&mut self, line: &str) {
        let text = match line.trim() {
            // Input before it on the same line may have been discarded.
            "" => return self.client.ui().say(HINT),
            "y" | "Y" => "allow",
            "n" | "N" => "deny",
            other => other,
        };
        let Some(shown) = self.open.front() else { return };
        let answer = Answer { question: Some(shown.id.clone()), text: text.to_owned() };
        let sent = match jobs::answer(&self.job.id, &answer).once() {
            Ok(call) => self.client.call(&call).await.map(drop),
            Err(error) => Err(error.into()),
        };
        match sent {
            Ok(()) => {
                self.open.pop_front();
                self.show();
            }
            Err(failure) => self.client.ui().say(&format!("lastword: {}", clean(&failure.problem.detail))),
        }
    }

    /// Shows how else to answer, once the input has ended.
    fn end_typing(&mut self) {
        (self.typed, self.typing_ended) = (None, true);
        let several = self.open.len() > 1;
        if let Some(shown) = self.open.front() {
            self.client.ui().say(&command_hint(self.job, several.then_some(&shown.id)));
        }
        self.show();
    }
}

/// How to answer a question in place.
const HINT: &str = "  [y] allow  [n] deny, or type an answer";

/// Shown below a question if input was typed before it was shown.
const DISCARDED: &str = "  (discarded input that was typed before this question was shown)";

/// Returns the command that answers a question.
fn command_hint(job: &Job, question: Option<&String>) -> String {
    format!("  {}    # or deny, or answer", describe::approve(job, question.map(String::as_str)))
}

/// Returns what to print when a limit is near, reached, or raised.
fn notice(reference: &str, kind: &str, data: &Value) -> Vec<String> {
    let limit = data["limit"].as_str().unwrap_or_default();
    let number = |name: &str| data[name].as_u64().unwrap_or_default();
    let used = describe::used(limit, number("measured"), number("allowed"));
    match kind {
        "limit_neared" => vec![format!("lastword: {reference} is close to its {limit} limit: {used}")],
        "paused" => vec![
            format!("lastword: {reference} is paused, its {limit} limit is used up: {used}"),
            format!(
                "  lastword limit {reference} {limit}=N    # raises the limit; to stop it: lastword cancel {reference}"
            ),
        ],
        "unpaused" => vec![format!("lastword: {reference} continues")],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_notice_is_shown_before_and_when_a_limit_is_reached() {
        let printed = |kind: &str| {
            let data = json!({ "limit": "tokens", "measured": 810, "allowed": 1000 });
            notice("docs", kind, &data)
        };
        assert_eq!(printed("limit_neared"), ["lastword: docs is close to its tokens limit: 810 of 1000"]);
        assert_eq!(
            printed("paused"),
            [
                "lastword: docs is paused, its tokens limit is used up: 810 of 1000",
                "  lastword limit docs tokens=N    # raises the limit; to stop it: lastword cancel docs",
            ]
        );
        let data = json!({ "limit": "money", "measured": 1_250_000, "allowed": 1_500_000 });
        assert_eq!(
            notice("docs", "limit_neared", &data),
            ["lastword: docs is close to its money limit: $1.25 of $1.50"]
        );
        assert_eq!(printed("unpaused"), ["lastword: docs continues"]);
        assert!(printed("spent").is_empty());
    }
}
