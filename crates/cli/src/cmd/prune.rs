//! `prune`: removes ended jobs of some age, and keeps what nobody has read.

use lastword_api::{Prune, Pruned};

use crate::client::{Call, Client};
use crate::failure::{Failure, Outcome};
use crate::text::duration;
use crate::ui::words;

/// Removes ended jobs that are old, and says what it kept
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A result that nobody has read is kept, unless --unread says otherwise, and so is a worktree with work that was not \
                  applied, unless --unsaved does. A job that has not ended is never touched, nor a worktree that such a job runs in."
)]
pub(crate) struct Args {
    /// Only jobs that ended longer ago than this
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = duration::parse_ms)]
    older_than: u64,
    /// Also those whose result nobody has read
    #[arg(long)]
    unread: bool,
    /// Also those whose worktree holds work that was not applied; it is lost
    #[arg(long)]
    unsaved: bool,
    /// Only says what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Does not ask
    #[arg(short, long)]
    yes: bool,
}

pub(crate) async fn run(args: Args, client: Client) -> Outcome {
    let ui = *client.ui();
    let (older_than_ms, unread, unsaved) = (args.older_than, args.unread, args.unsaved);
    let wish = |dry_run: bool| Prune { older_than_ms, unread, unsaved, dry_run };
    let would: Pruned = client.call(Call::post("/v1/jobs:prune", &wish(true))).await?;
    let age = duration::spell_ms(args.older_than);
    if args.dry_run || would.removed == 0 {
        return tell(&client, would, if args.dry_run { "would be removed" } else { "were removed" });
    }
    if !args.yes {
        if !ui.can_ask {
            return Err(Failure::usage(format!("{} would be removed", jobs(would.removed)))
                .next("-y removes them without asking"));
        }
        if !ui.ask(&format!("Remove {} that ended more than {age} ago?", jobs(would.removed))) {
            ui.say("nothing was removed");
            return Ok(0);
        }
    }
    let pruned: Pruned = client.call(Call::post("/v1/jobs:prune", &wish(false))).await?;
    tell(&client, pruned, "were removed")
}

fn jobs(count: u64) -> String {
    words::count(count, "ended job", "ended jobs")
}

fn tell(client: &Client, pruned: Pruned, what: &str) -> Outcome {
    let ui = client.ui();
    if ui.json {
        ui.print_json(&pruned)?;
        return Ok(0);
    }
    let what = if pruned.removed == 1 { what.replace("were", "was") } else { what.to_owned() };
    ui.print(&format!("{} {what}", jobs(pruned.removed)))?;
    if pruned.kept_unread > 0 {
        let kept = words::count(pruned.kept_unread, "more was kept", "more were kept");
        ui.say(&format!("{kept}: nobody has read the result; --unread removes that too"));
    }
    if pruned.kept_unsaved > 0 {
        let kept = words::count(pruned.kept_unsaved, "more was kept", "more were kept");
        ui.say(&format!("{kept}: the worktree holds work that was not applied; --unsaved gives it up"));
    }
    if pruned.kept_in_use > 0 {
        let kept = words::count(pruned.kept_in_use, "more was kept", "more were kept");
        ui.say(&format!("{kept}: a job that has not ended runs in its worktree"));
    }
    Ok(0)
}
