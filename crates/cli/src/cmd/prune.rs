//! `prune`: deletes old ended jobs, except those with unread results or unapplied changes.

use lastword_api::{Prune, Pruned};
use lastword_client::jobs;

use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::text::duration;
use crate::ui::describe;

/// Delete old ended jobs
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Keeps jobs whose result was never read, unless --unread is given, and jobs whose worktree has unapplied changes, unless \
                  --unsaved is given. Never touches a job that has not ended, nor a worktree that such a job runs in."
)]
pub(crate) struct Args {
    /// Only jobs that ended longer ago than this
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration::parse_ms)]
    older_than: u64,
    /// Also delete jobs whose result was never read
    #[arg(long)]
    unread: bool,
    /// Also delete jobs whose worktree has unapplied changes, which are lost
    #[arg(long)]
    unsaved: bool,
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let ui = *client.ui();
    let (older_than_ms, unread, unsaved) = (args.older_than, args.unread, args.unsaved);
    let request = |dry_run: bool| Prune { older_than_ms, unread, unsaved, dry_run };
    let would = client.call(&jobs::prune(&request(true))).await?;
    let age = duration::spell_ms(args.older_than);
    if args.dry_run || would.removed == 0 {
        return print(&client, would, if args.dry_run { "would be deleted" } else { "deleted" });
    }
    if !args.yes {
        if !ui.can_ask {
            return Err(Failure::usage(format!("{} would be deleted", counted(would.removed)))
                .next("use -y to confirm"));
        }
        if !ui.confirm(&format!("Delete {} that ended more than {age} ago?", counted(would.removed))) {
            ui.say("nothing was deleted");
            return Ok(0);
        }
    }
    let pruned = client.call(&jobs::prune(&request(false))).await?;
    print(&client, pruned, "deleted")
}

fn counted(count: u64) -> String {
    describe::count(count, "ended job", "ended jobs")
}

fn print(client: &Client, pruned: Pruned, what: &str) -> Outcome {
    let ui = client.ui();
    if ui.json {
        ui.print_json(&pruned)?;
        return Ok(0);
    }
    ui.print(&format!("{} {what}", counted(pruned.removed)))?;
    if pruned.kept_unread > 0 {
        let kept = kept(pruned.kept_unread, "its result was", "their results were");
        ui.say(&format!("{kept} never read; --unread deletes such jobs, too"));
    }
    if pruned.kept_unsaved > 0 {
        let kept = kept(pruned.kept_unsaved, "its worktree has", "their worktrees have");
        ui.say(&format!("{kept} unapplied changes; --unsaved deletes such jobs, too"));
    }
    if pruned.kept_in_use > 0 {
        let kept = kept(pruned.kept_in_use, "its worktree is", "their worktrees are");
        ui.say(&format!("{kept} in use by a job that has not ended"));
    }
    Ok(0)
}

fn kept(count: u64, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 job was kept because {one}"),
        count => format!("{count} jobs were kept because {many}"),
    }
}
