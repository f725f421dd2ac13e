//! What an agent asks and reports while we stay with its job: shown as it comes up. At a terminal, one question at a time is
//! shown and answered in place, only by a line that was typed after it was shown.

use std::collections::VecDeque;

use lastword_api::{Answer, Event, Job};
use serde_json::Value;

use super::typed::Typed;
use crate::client::sse::Events;
use crate::client::{Call, Client, job_path};
use crate::failure::Failure;
use crate::text::clean::clean;
use crate::ui::words;

/// Shows what an agent asks and reports, until its job has no more events.
pub(super) async fn listen(client: &Client, job: &Job) -> Result<(), Failure> {
    let mut questions = Questions { client, job, open: VecDeque::new(), typed: None, typing_ended: false };
    for question in job.session.iter().flat_map(|session| &session.questions) {
        questions.add(question.id.clone(), question.text.clone());
    }
    let call = Call::get(job_path(&job.id, "/events"));
    let mut events = Events::new(client, call, Some(job.version.to_string()));
    loop {
        let event = tokio::select! {
            sent = events.next() => match sent? {
                Some(sent) => serde_json::from_str::<Event>(&sent.data).ok(),
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
        let said = |name: &str| event.data[name].as_str().unwrap_or_default().to_owned();
        match event.kind.as_str() {
            "question_asked" => questions.add(said("question"), said("text")),
            "question_closed" | "answer_requested" => questions.close(&said("question")),
            "turn_ended" => questions.open.clear(),
            _ => notice(words::reference(job), &event.kind, &event.data)
                .iter()
                .for_each(|line| client.ui().say(line)),
        }
    }
}

/// Questions without an answer, oldest first.
struct Questions<'a> {
    client: &'a Client,
    job: &'a Job,
    open: VecDeque<Question>,
    /// Where answers are typed, if that is possible. Only the oldest question is shown then, and the others after it.
    typed: Option<Typed>,
    /// The terminal said that no more input comes.
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

    /// Shows what is asked and how to answer: the oldest question where it can be typed, else every one.
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
                None => ui.say(&elsewhere(self.job, several.then_some(&question.id))),
                Some(typed) => {
                    ui.say(HINT);
                    if typed.discard() {
                        ui.say(DISCARDED);
                    }
                }
            }
        }
    }

    /// Returns the next line for the question that is shown, or nothing when no more input comes.
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
            // What came before it on this line may have been discarded.
            "" => return self.client.ui().say(HINT),
            "y" | "Y" => "allow",
            "n" | "N" => "deny",
            other => other,
        };
        let Some(shown) = self.open.front() else { return };
        let answer = Answer { question: Some(shown.id.clone()), text: text.to_owned() };
        let sent = match Call::post(job_path(&self.job.id, "/answers"), &answer).once() {
            Ok(call) => self.client.send(&call).await.map(drop),
            Err(failure) => Err(failure),
        };
        match sent {
            Ok(()) => {
                self.open.pop_front();
                self.show();
            }
            Err(failure) => self.client.ui().say(&format!("lastword: {}", clean(&failure.problem.detail))),
        }
    }

    /// Says how else to answer, once no more input comes.
    fn end_typing(&mut self) {
        (self.typed, self.typing_ended) = (None, true);
        let several = self.open.len() > 1;
        if let Some(shown) = self.open.front() {
            self.client.ui().say(&elsewhere(self.job, several.then_some(&shown.id)));
        }
        self.show();
    }
}

/// How a question is answered in place.
const HINT: &str = "  y allows it, n does not, other words are its answer";

/// Said below a question if something was typed before it was shown.
const DISCARDED: &str = "  discarded what was typed before this question was shown";

/// Returns how a question is answered with another command.
fn elsewhere(job: &Job, question: Option<&String>) -> String {
    format!("  {}    # or deny, or answer", words::approve(job, question.map(String::as_str)))
}

/// Returns what a person is told of a limit that comes near, or was reached and is asked about.
fn notice(reference: &str, kind: &str, data: &Value) -> Vec<String> {
    let limit = data["limit"].as_str().unwrap_or_default();
    let number = |name: &str| data[name].as_u64().unwrap_or_default();
    let used = words::used(limit, number("measured"), number("allowed"));
    match kind {
        "limit_neared" => vec![format!("lastword: {reference} comes near its limit of {limit}: {used}")],
        "paused" => vec![
            format!("lastword: {reference} holds still, its limit of {limit} is used up: {used}"),
            format!(
                "  lastword limit {reference} {limit}=N    # goes on with more, or: lastword cancel {reference}"
            ),
        ],
        "unpaused" => vec![format!("lastword: {reference} goes on")],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_told_of_before_it_is_reached_and_when_it_is() {
        let said = |kind: &str| {
            let data = json!({ "limit": "tokens", "measured": 810, "allowed": 1000 });
            notice("docs", kind, &data)
        };
        assert_eq!(said("limit_neared"), ["lastword: docs comes near its limit of tokens: 810 of 1000"]);
        assert_eq!(
            said("paused"),
            [
                "lastword: docs holds still, its limit of tokens is used up: 810 of 1000",
                "  lastword limit docs tokens=N    # goes on with more, or: lastword cancel docs",
            ]
        );
        let data = json!({ "limit": "money", "measured": 1_250_000, "allowed": 1_500_000 });
        assert_eq!(
            notice("docs", "limit_neared", &data),
            ["lastword: docs comes near its limit of money: $1.25 of $1.50"]
        );
        assert_eq!(said("unpaused"), ["lastword: docs goes on"]);
        assert!(said("spent").is_empty());
    }
}
