//! What an agent wants of whoever stays with it: said as it comes up, and at a terminal answered in place.

use std::collections::VecDeque;

use lastword_api::{Answer, Event, Job};
use rustix::termios::tcgetpgrp;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};

use crate::client::sse::Events;
use crate::client::{Call, Client, job_path};
use crate::failure::Failure;
use crate::text::clean::clean;
use crate::ui::words;

/// Says what an agent wants, for as long as somebody stays with it.
pub(super) async fn listen(client: &Client, job: &Job) -> Result<(), Failure> {
    // The names of questions that nobody has answered.
    let mut open: VecDeque<String> = VecDeque::new();
    let mut typed: Option<Lines<BufReader<Stdin>>> = None;
    for question in job.session.iter().flat_map(|session| &session.questions) {
        open.push_back(question.id.clone());
        tell(client, job, &question.text, &open, &mut typed);
    }
    let call = Call::get(job_path(&job.id, "/events"));
    let mut events = Events::new(client, call, Some(job.version.to_string()));
    loop {
        let line = async {
            match &mut typed {
                Some(lines) if !open.is_empty() => lines.next_line().await.ok().flatten(),
                _ => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            sent = events.next() => match sent? {
                Some(sent) => serde_json::from_str::<Event>(&sent.data).ok(),
                None => return Ok(()),
            },
            line = line => {
                match line {
                    Some(line) => answer(client, job, &mut open, &line).await,
                    // Nobody types any more: there is another way.
                    None => {
                        typed = None;
                        client.ui().say(&elsewhere(job, &open));
                    }
                }
                None
            }
        };
        let Some(event) = event else { continue };
        let said = |name: &str| event.data[name].as_str().unwrap_or_default().to_owned();
        match event.kind.as_str() {
            "question_asked" => {
                open.push_back(said("question"));
                tell(client, job, &said("text"), &open, &mut typed);
            }
            "question_closed" | "answer_requested" => open.retain(|id| *id != said("question")),
            "turn_ended" => open.clear(),
            _ => notice(words::reference(job), &event.kind, &event.data)
                .iter()
                .for_each(|line| client.ui().say(line)),
        }
    }
}

/// Says what is asked by the newest question, and how it is answered.
fn tell(
    client: &Client,
    job: &Job,
    text: &str,
    open: &VecDeque<String>,
    typed: &mut Option<Lines<BufReader<Stdin>>>,
) {
    let who = job.agent.as_ref().map_or("it", |agent| agent.provider.as_str());
    client.ui().say(&format!("{who} asks: {}", clean(text)));
    // Whoever reads from a terminal behind somebody's back is stopped by it.
    let is_ours = || tcgetpgrp(rustix::stdio::stdin()).is_ok_and(|group| group == rustix::process::getpgrp());
    if typed.is_none() && client.ui().can_ask && is_ours() {
        *typed = Some(BufReader::new(tokio::io::stdin()).lines());
    }
    client.ui().say(&match typed {
        Some(_) => "  y allows it, n does not, other words are its answer".to_owned(),
        None => elsewhere(job, open),
    });
}

/// Returns how a question is answered with another command.
fn elsewhere(job: &Job, open: &VecDeque<String>) -> String {
    let which = match (open.len(), open.back()) {
        (2.., newest) => newest.map(String::as_str),
        _ => None,
    };
    format!("  {}    # or deny, or answer", words::approve(job, which))
}

/// Answers the oldest question with what was typed.
async fn answer(client: &Client, job: &Job, open: &mut VecDeque<String>, line: &str) {
    let text = match line.trim() {
        "" => return,
        "y" | "Y" => "allow",
        "n" | "N" => "deny",
        other => other,
    };
    let Some(oldest) = open.front() else { return };
    let answer = Answer { question: Some(oldest.clone()), text: text.to_owned() };
    let sent = match Call::post(job_path(&job.id, "/answers"), &answer).once() {
        Ok(call) => client.send(&call).await.map(drop),
        Err(failure) => Err(failure),
    };
    match sent {
        Ok(()) => drop(open.pop_front()),
        Err(failure) => client.ui().say(&format!("lastword: {}", clean(&failure.problem.detail))),
    }
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
