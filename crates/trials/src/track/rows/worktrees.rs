//! Worktrees of jobs.

use crate::track::home::Home;
use crate::track::row::{Seen, held_if, rows};

rows! {
    "A10" ours NotYet Nothing []
        "`rm` deletes the worktree of a job that committed on a detached HEAD: no reference has the commit any more."
        => "A reference keeps the commit, or `rm` refuses.",
        detached_commit;
    "A10-ignored" ours NotYet Nothing []
        "`rm` deletes results that git ignores, without a word."
        => "`rm` refuses or names them.",
        ignored_results;
}

/// Makes a repository, runs a script as a job in a worktree, and removes the job. Returns exit code and output of `rm`.
fn removed(home: &Home, script: &str) -> Result<(i32, String), String> {
    let run = home.shell(&format!(
        "export HOME=$PLACE GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
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

fn ignored_results(home: &Home) -> Seen {
    let (code, said) = removed(home, "echo result > result.log")?;
    held_if(code != 0 || said.contains("result.log"), format!("rm exits with {code}: {said}"))
}
