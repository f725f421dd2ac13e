//! `rm`: deletes ended jobs with their logs, output and worktrees.

use lastword_api::{Cancel, Code, Job};
use lastword_client::{conversations, jobs};

use super::newest::{is_newest, newest};
use super::{wait, worktree};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::ui::{JsonList, describe};

/// Delete ended jobs with their output and worktrees
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A conversation is deleted as a whole: its newest job, or its name, deletes all of its jobs. `lastword conversation show JOB` lists them."
)]
pub(crate) struct Args {
    /// Jobs to delete
    #[arg(value_name = "JOB", required = true, value_parser = super::which::reference, add = super::completion::jobs())]
    pub(super) jobs: Vec<String>,
    /// Kill a job that is still running first, and discard unapplied changes in its worktree
    #[arg(short, long)]
    pub(super) force: bool,
    /// Any job means its conversation.
    #[arg(skip)]
    pub(super) whole: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let (mut removed, mut failed): (Vec<Job>, Option<Failure>) = (Vec::new(), None);
    for reference in &args.jobs {
        // Continue with the others; report all errors.
        match remove(&args, &client, reference).await {
            Ok(job) => removed.push(job),
            Err(failure) => drop(failed.replace(failure).inspect(|former| client.ui().report(former))),
        }
    }
    if client.ui().json {
        client.ui().print_json(&JsonList { items: &removed, next_cursor: None })?;
    }
    failed.map_or(Ok(0), Err)
}

/// Deletes a job, and returns it as it was.
async fn remove(args: &Args, client: &Client, reference: &str) -> Result<Job, Failure> {
    let mut job = client.job(reference).await?;
    if args.whole {
        job = newest(client, job).await?;
    }
    if args.force && !job.is_ended() {
        let stopping =
            client.call(&jobs::cancel(&job.id, &Cancel { force: true, ..Cancel::default() })).await?;
        job = wait::one(client, stopping, None).await?;
    }
    let lost = if args.force { worktree::tip(&job) } else { None };
    let strays = if args.force { worktree::strays(&job) } else { Vec::new() };
    let ignored = worktree::ignored(&job, true);
    let deleted = match client.call(&jobs::remove(&job.id, args.force)).await {
        Err(failure) if failure.problem.code == Code::InConversation && is_newest(&job) => {
            let shown = client.call(&conversations::show(&job.id)).await?;
            let count = describe::count(shown.jobs.len() as u64, "job", "jobs");
            let removed = client.call(&conversations::remove(&job.id, args.force)).await;
            removed.map(|()| format!(", a conversation of {count}"))
        }
        result => result.map(|()| String::new()),
    };
    let deleted = match deleted {
        Ok(deleted) => deleted,
        Err(failure) => return Err(with_next_steps(failure, client, &job).await),
    };
    if !client.ui().json {
        let name = describe::job_name(job.name.as_deref(), &job.short);
        client.ui().say(&format!("deleted {name}{deleted}"));
        if let Some(ignored) = ignored {
            client.ui().say(&format!("deleted with its worktree, though git ignores them: {ignored}"));
        }
        if let Some(tip) = lost {
            let short = worktree::short(&tip);
            client.ui().say(&format!("its last commit was {short}; `git branch NAME {short}` keeps it"));
        }
        for keep in strays {
            client.ui().say(&format!("a commit of it was on no branch; `{keep}` keeps it"));
        }
    }
    Ok(job)
}

/// Adds what to do about a refusal.
async fn with_next_steps(failure: Failure, client: &Client, job: &Job) -> Failure {
    let reference = describe::reference(job);
    let force = format!("lastword rm --force {reference}");
    match failure.problem.code {
        Code::Unsaved => {
            let apply = worktree::has_changes(job)
                .then(|| format!("lastword apply {reference}    # applies the changes; diff shows them"));
            let merge = worktree::merge(job).map(|merge| format!("{merge}    # merges its commits"));
            let keep = worktree::strays(job)
                .into_iter()
                .map(|keep| format!("{keep}    # keeps a commit that is on no branch"));
            let steps = apply.into_iter().chain(merge).chain(keep);
            steps.fold(failure, Failure::next).next(format!("{force}    # discards the changes"))
        }
        // A later job of the same conversation runs in the worktree. Both often share one name, so it is named by its id.
        Code::NotEnded if job.is_ended() => {
            let Some(user) = failure.problem.job.clone() else { return failure };
            let user = client.job(&user).await.map_or(user, |user| user.short);
            failure
                .next(format!("lastword wait {user}    # then delete it"))
                .next(format!("lastword cancel {user}    # stops it now"))
        }
        Code::InConversation => {
            failure.next(format!("lastword conversation rm {}    # deletes all of its jobs", job.short))
        }
        _ if job.is_ended() => failure,
        _ => failure.next(force),
    }
}
