//! `answer`, and `approve` and `deny`, which are the two answers to a permission: a person answers a question of an agent.

use lastword_api::{Accepted, Answer, Code, Job};

use crate::client::{Call, Client, job_path};
use crate::failure::{Failure, Outcome};
use crate::text::clean::clean;
use crate::ui::words;

/// Which question.
#[derive(Debug, clap::Args)]
struct Which {
    /// Which job
    #[arg(value_name = "JOB", add = super::completion::jobs())]
    job: String,
    /// Which question; it need not be said if there is one
    #[arg(short, long, value_name = "ID")]
    question: Option<String>,
}

/// Answers a question of an agent
#[derive(Debug, clap::Args)]
#[command(
    after_help = "`lastword show JOB` shows what it asks. Where it asks for a permission, see approve and deny."
)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// What to answer
    #[arg(required = true, value_name = "TEXT")]
    text: Vec<String>,
}

/// Lets an agent do what it asks for
#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    #[command(flatten)]
    which: Which,
}

/// Does not let an agent do what it asks for
#[derive(Debug, clap::Args)]
pub(crate) struct Deny {
    #[command(flatten)]
    which: Which,
    /// Why, or what to do instead
    #[arg(value_name = "REASON")]
    reason: Vec<String>,
}

impl Approve {
    /// Returns the answer that this is.
    pub(crate) fn answer(self) -> Args {
        Args { which: self.which, text: vec!["allow".to_owned()] }
    }
}

impl Deny {
    /// Returns the answer that this is.
    pub(crate) fn answer(self) -> Args {
        Args { which: self.which, text: ["deny".to_owned()].into_iter().chain(self.reason).collect() }
    }
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let job = client.job(&args.which.job).await?;
    let answer = Answer { question: args.which.question, text: args.text.join(" ") };
    let call = Call::post(job_path(&job.id, "/answers"), &answer).once()?;
    let accepted: Accepted = client.call(call).await.map_err(|failure| explain(failure, &job))?;
    let ui = client.ui();
    match ui.json {
        true => ui.print_json(&accepted)?,
        false => {
            let called = words::called(job.name.as_deref(), &job.short);
            ui.say(&format!("the answer to {called} is written down, and reaches it once"));
        }
    }
    Ok(0)
}

/// Adds what is asked to a failure that leaves that open.
fn explain(failure: Failure, job: &Job) -> Failure {
    let open = matches!(failure.problem.code, Code::Ambiguous | Code::Conflict);
    let questions = job.session.iter().filter(|_| open).flat_map(|session| &session.questions);
    questions.fold(failure, |failure, question| {
        failure.next(format!("--question {}    # {}", clean(&question.id), clean(&question.text)))
    })
}
