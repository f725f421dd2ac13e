//! `answer`, `approve` and `deny`: answers a question of an agent.

use lastword_api::{Answer, Code, Job};
use lastword_client::jobs;

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::text::clean::clean;
use crate::ui::describe;

/// A question of an agent.
#[derive(Debug, clap::Args)]
struct Which {
    /// Job that asks
    #[arg(value_name = "JOB", add = super::completion::jobs())]
    job: String,
    /// Id of the question, if there are several
    #[arg(short, long, value_name = "ID")]
    question: Option<String>,
}

/// Answer a question of an agent
#[derive(Debug, clap::Args)]
#[command(
    after_help = "`lastword show JOB` shows the question. To answer a permission request, use approve or deny."
)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// The answer
    #[arg(required = true, value_name = "TEXT")]
    text: Vec<String>,
}

/// Allow what an agent asks permission for
#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    #[command(flatten)]
    which: Which,
}

/// Deny what an agent asks permission for
#[derive(Debug, clap::Args)]
pub(crate) struct Deny {
    #[command(flatten)]
    which: Which,
    /// Reason, or what to do instead
    #[arg(value_name = "REASON")]
    reason: Vec<String>,
}

impl Approve {
    /// Returns the answer.
    pub(crate) fn answer(self) -> Args {
        Args { which: self.which, text: vec!["allow".to_owned()] }
    }
}

impl Deny {
    /// Returns the answer.
    pub(crate) fn answer(self) -> Args {
        Args { which: self.which, text: ["deny".to_owned()].into_iter().chain(self.reason).collect() }
    }
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let job = client.job(&args.which.job).await?;
    let answer = Answer { question: args.which.question, text: args.text.join(" ") };
    let call = jobs::answer(&job.id, &answer).once()?;
    let accepted = client.call(&call).await.map_err(|failure| explain(failure, &job))?;
    let ui = client.ui();
    match ui.json {
        true => ui.print_json(&accepted)?,
        false => {
            let job_name = describe::job_name(job.name.as_deref(), &job.short);
            ui.say(&format!("answer queued for {job_name}"));
        }
    }
    Ok(0)
}

/// Lists the open questions if it is unclear which one is meant.
fn explain(failure: Failure, job: &Job) -> Failure {
    let open = matches!(failure.problem.code, Code::Ambiguous | Code::Conflict);
    let questions = job.session.iter().filter(|_| open).flat_map(|session| &session.questions);
    questions.fold(failure, |failure, question| {
        failure.next(format!("--question {}    # {}", clean(&question.id), clean(&question.text)))
    })
}
