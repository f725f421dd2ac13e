//! `answer`, `approve` and `deny`: answers a question of an agent, or the one at a limit.

use lastword_api::{Answer, Code, Job, QuestionKind, QuestionPart, Verdict};
use lastword_client::jobs;

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::text::clean::clean;
use crate::text::limit;
use crate::ui::describe;
use crate::ui::question::{self, NoSuchOption};

/// A question.
#[derive(Debug, clap::Args)]
struct Which {
    /// Job that asks
    #[arg(value_name = "JOB", value_parser = super::which::reference, add = super::completion::jobs())]
    job: String,
    /// Name of the question, as `lastword question JOB` shows it below all that is asked
    #[arg(value_name = "QUESTION")]
    question: Option<String>,
}

/// Answer a question in words, or with a new limit
#[derive(Debug, clap::Args)]
#[command(
    after_help = "`lastword question JOB` shows the question and its name. To answer a permission request, use approve or deny.\n\n\
                  The number of an option stands for the option; where several can be chosen, give numbers with a comma between them: 1,3.\n\n\
                  A job that is paused at a limit (run --ask-at-limit) asks for a new one: 50M, 200000 or 2.50; 0 removes the limit."
)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// The answer; one for each thing that is asked
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
}

/// Allow what an agent asks permission for
#[derive(Debug, clap::Args)]
#[command(
    after_help = "`lastword question JOB` shows all that would be allowed, and the name of the question.\n\n\
                  It is allowed once. With --always, a rule of the job allows exactly the same request of the same tool whenever it is \
                  asked again; `lastword rule ls JOB` shows the rules, `lastword rule rm JOB RULE` removes one."
)]
pub(crate) struct Approve {
    #[command(flatten)]
    which: Which,
    /// Allow exactly the same again without asking, until the job ends or the rule is removed
    #[arg(long)]
    always: bool,
}

/// Deny what an agent asks permission for, or decline to answer
#[derive(Debug, clap::Args)]
#[command(
    after_help = "`lastword question JOB` shows the question and its name. Denied at a limit, a job is stopped."
)]
pub(crate) struct Deny {
    #[command(flatten)]
    which: Which,
    /// Reason, or what to do instead
    #[arg(value_name = "REASON")]
    reason: Vec<String>,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    if args.text.iter().any(|text| text.trim().is_empty()) {
        let next = format!("lastword question {}", clean(&args.which.job));
        return Err(Failure::usage("an answer is empty; nothing was sent").next(next));
    }
    let words = Answer { words: args.text, ..Answer::default() };
    send(args.which, words, client).await
}

pub(crate) async fn approve(args: Approve, client: Client) -> Outcome {
    let answer = Answer { verdict: Some(Verdict::Allow), always: args.always, ..Answer::default() };
    send(args.which, answer, client).await
}

pub(crate) async fn deny(args: Deny, client: Client) -> Outcome {
    let reason = args.reason.join(" ");
    send(args.which, Answer { verdict: Some(Verdict::Deny), reason, ..Answer::default() }, client).await
}

async fn send(which: Which, answer: Answer, client: Client) -> Outcome {
    let is_empty = answer.verdict.is_none() && answer.words.is_empty();
    let Some(question) = which.question.filter(|_| !is_empty) else {
        let what = match is_empty {
            true => "give the name of the question, and then the answer",
            false => "give the name of the question, which stands below all that is asked",
        };
        return Err(Failure::usage(what).next(format!("lastword question {}", clean(&which.job))));
    };
    let job = client.job(&which.job).await?;
    check_count(&job, &question, &answer)?;
    let answer = Answer { words: chosen(&job, &question, answer.words)?, ..answer };
    let said = said(&job, &question, &answer);
    let call = jobs::answer(&job.id, &Answer { question, ..answer }).once()?;
    let accepted = client.call(&call).await.map_err(|failure| explain(failure, &job))?;
    let ui = client.ui();
    match ui.json {
        true => ui.print_json(&accepted)?,
        false => ui.say(&said),
    }
    Ok(0)
}

/// Returns the answers with the options that their numbers name.
fn chosen(job: &Job, question: &str, words: Vec<String>) -> Result<Vec<String>, Failure> {
    let open = job.open_questions();
    // The daemon explains a name that no question has.
    let Some(asked) = open.iter().find(|asked| asked.id == question) else { return Ok(words) };
    let parts = asked.parts.iter().map(Some).chain(std::iter::repeat(None));
    let answer = |(text, part): (String, Option<&QuestionPart>)| match part {
        Some(part) if asked.kind != Some(QuestionKind::Permission) => {
            question::chosen(part, &text).map_err(|NoSuchOption(number)| {
                let job_name = describe::job_name(job.name.as_deref(), &job.short);
                let options = question::options(part);
                Failure::usage(format!("{job_name} has no option {number}; the options are {options}"))
            })
        }
        _ => Ok(text),
    };
    words.into_iter().zip(parts).map(answer).collect()
}

/// Refuses another number of answers than of things that are asked, and says how many those are.
fn check_count(job: &Job, question: &str, answer: &Answer) -> Result<(), Failure> {
    let asked = job.open_questions().into_iter().find(|open| open.id == question);
    let parts = asked.map_or(0, |open| open.parts.len());
    if answer.verdict.is_some() || parts == 0 || parts == answer.words.len() {
        return Ok(());
    }
    let text = format!(
        "{} asks for {}, but there are {}; put quotes around each",
        describe::job_name(job.name.as_deref(), &job.short),
        describe::count(parts as u64, "answer", "answers"),
        answer.words.len()
    );
    Err(Failure::usage(text).next(format!("lastword question {}", describe::reference(job))))
}

/// Says what becomes of an answer.
fn said(job: &Job, question: &str, answer: &Answer) -> String {
    let job_name = describe::job_name(job.name.as_deref(), &job.short);
    let limit = job.paused.as_ref().filter(|paused| paused.question == question).map(|paused| &paused.limit);
    match (limit, answer.words.first()) {
        (None, _) => format!("answer queued for {job_name}"),
        (Some(limit), Some(value))
            if limit::parse(limit, value.trim()).is_ok_and(|(_, value)| value == 0) =>
        {
            format!("{job_name} continues; its {limit} limit is removed")
        }
        (Some(limit), Some(value)) => format!("{job_name} continues; its {limit} limit is {}", clean(value)),
        (Some(limit), None) => format!("{job_name} is stopped at its {limit} limit"),
    }
}

/// Says where the names of questions are.
fn explain(failure: Failure, job: &Job) -> Failure {
    match failure.problem.code {
        Code::Conflict => failure.next(format!("lastword question {}", describe::reference(job))),
        _ => failure,
    }
}
