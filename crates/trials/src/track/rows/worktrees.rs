//! Worktrees of jobs.

use crate::track::home::Home;
use crate::track::row::{Seen, held_if, rows};

rows! {
    "A10" ours After010 Nothing []
        "`rm` deletes the worktree of a job that committed on a detached HEAD: no reference has the commit any more."
        => "A reference keeps the commit, or `rm` refuses.",
        detached_commit;
    "A10-save" ours After010 Nothing []
        "A file that the user saves while `apply` runs is overwritten."
        => "The edit is kept, whatever becomes of `apply`.",
        saved_during_apply;
    "A10-ignored" ours After010 Nothing []
        "`rm` deletes results that git ignores, without a word."
        => "`rm` refuses or names them.",
        ignored_results;
}

const AUTHOR: &str = "export HOME=$PLACE GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org \
                      GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org";

/// Makes a repository, runs a script as a job in a worktree, and removes the job. Returns exit code and output of `rm`.
fn removed(home: &Home, script: &str) -> Result<(i32, String), String> {
    let run = home.shell(&format!(
        "{AUTHOR}
         git init -q $PLACE/repository && cd $PLACE/repository && echo '*.log' > .gitignore && git add . && git commit -qm first
         $LASTWORD run --name worker --worktree=keep -- sh -c '{script}' > $PLACE/out 2>&1 || exit 99
         $LASTWORD rm --no-input worker"
    ))?;
    match run.code {
        99 => Err(std::fs::read_to_string(home.work("out")).unwrap_or_default()),
        code => Ok((code, run.printed())),
    }
}

fn detached_commit(home: &Home) -> Seen {
    let script = "b=$(git branch --show-current); git checkout -q --detach; echo deep > deep; git add deep; \
                  git commit -qm deep; git rev-parse HEAD > $PLACE/commit; git checkout -q $b";
    let (code, said) = removed(home, script)?;
    let kept = home.shell("git -C $PLACE/repository for-each-ref --contains $(cat $PLACE/commit)")?.out;
    held_if(code != 0 || !kept.is_empty(), format!("rm exits with {code}: {said}; references: {kept:?}"))
}

/// Saves the last of 61 files as soon as `apply` has written the first one.
fn saved_during_apply(home: &Home) -> Seen {
    let rounds = home.shell(&format!(
        "{AUTHOR}; R=$PLACE/repository; lost=0
         for round in 1 2 3 4 5 6; do
           rm -rf $R; git init -q $R; cd $R; for k in $(seq 60); do echo $k > f$k; done; seq 50 > last; git add -A; git commit -qm first
           $LASTWORD run --name race$round --worktree -- sh -c 'for k in $(seq 60); do echo t >> f$k; done; echo theirs >> last' > $PLACE/out 2>&1
           (until grep -q t f1 || [ -e $PLACE/over ]; do :; done; echo mine >> last) > /dev/null 2>&1 & S=$!
           $LASTWORD apply race$round > $PLACE/out 2>&1; : > $PLACE/over; wait $S; rm $PLACE/over
           grep -q mine last || lost=$((lost+1))
         done; echo lost $lost"
    ))?;
    match rounds.out.trim().strip_prefix("lost ") {
        Some(lost) => held_if(lost == "0", format!("{lost} of 6 edits are lost")),
        None => Err(rounds.printed()),
    }
}

fn ignored_results(home: &Home) -> Seen {
    let (code, said) = removed(home, "echo result > result.log")?;
    held_if(code != 0 || said.contains("result.log"), format!("rm exits with {code}: {said}"))
}
