//! Worktrees that later jobs run in, as a resumed agent does in the worktree of the job it continues.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use lastword_core::JobId;
use lastword_core::spec::{Spec, Worktree};
use lastword_engine::{Engine, Error};
use lastword_git::{Git, Worktrees};

use super::faulty::{Faulty, Gate};
use super::{Bench, end_of, env, leader_of, run, wish};

/// An engine, a repository, and an ended job whose worktree has unapplied changes.
struct Ended {
    bench: Bench,
    journal: Faulty,
    engine: Engine<Faulty>,
    id: JobId,
    worktree: PathBuf,
}

impl Ended {
    async fn new() -> Ended {
        let bench = Bench::new();
        let top = bench.cwd().join("repository");
        std::fs::create_dir(&top).unwrap();
        let git = |words: &[&str]| {
            let who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"];
            #[expect(clippy::disallowed_methods, reason = "the user's own git, not a job")]
            let said = Command::new("git").args(who).args(words).current_dir(&top).output().unwrap();
            assert!(said.status.success(), "{said:?}");
            String::from_utf8(said.stdout).unwrap().trim_end().to_owned()
        };
        git(&["init", "--quiet"]);
        git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
        let base = git(&["rev-parse", "HEAD"]);
        let folder = bench.cwd().join("worktrees");
        let worktrees = Worktrees::new(Git::new(std::env::vars_os()), &folder).unwrap();
        let journal = Faulty::new(bench.journal.clone());
        let engine = bench.start_in(journal.clone(), worktrees);
        let checkout = top.display().to_string();
        let worktree =
            Worktree { git_dir: format!("{checkout}/.git"), checkout: checkout.clone(), base, keep: false };
        let spec = Spec { worktree: Some(worktree), cwd: checkout, ..bench.script("echo work > new") };
        let id = run(&engine, spec).await;
        end_of(&engine, id).await;
        let worktree = folder.join(id.to_string());
        assert!(worktree.join("new").exists());
        Ended { bench, journal, engine, id, worktree }
    }

    /// Returns a job that runs in the worktree until it is cancelled.
    fn user(&self) -> Spec {
        let cwd = self.worktree.display().to_string();
        Spec { cwd, ..self.bench.script("sleep 100") }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worktree_is_not_removed_while_a_job_that_will_run_in_it_is_being_stored() {
    let ended = Ended::new().await;
    let user = ended.engine.desk().new_id().unwrap();
    let gate = Arc::new(Gate::shut());
    *ended.journal.held_back.lock().unwrap() = Some((user, Arc::clone(&gate)));
    let (engine, spec) = (ended.engine.clone(), ended.user());
    let submitted = tokio::spawn(async move { engine.submit(user, spec, env(), "ann").await });
    gate.reached.acquire().await.unwrap().forget();
    let mut removed = Box::pin(ended.engine.remove(ended.id, true));
    // Polled once, so that it has started before the job is stored.
    tokio::select! {
        biased;
        removed = &mut removed => panic!("{removed:?}"),
        () = std::future::ready(()) => {}
    }
    *ended.journal.held_back.lock().unwrap() = None;
    gate.open.add_permits(1);
    submitted.await.unwrap().unwrap();
    let refused = removed.await;
    assert!(matches!(&refused, Err(Error::InUse { by, .. }) if *by == user), "{refused:?}");
    assert!(ended.worktree.join("new").exists());
    leader_of(&ended.engine, user).await;
    ended.engine.desk().cancel(user, &wish(true)).await.unwrap();
    end_of(&ended.engine, user).await;
    ended.engine.remove(ended.id, true).await.unwrap();
    assert!(!ended.worktree.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_of_a_removal_and_a_submit_leaves_a_live_job_without_its_worktree() {
    let ended = Ended::new().await;
    let user = ended.engine.desk().new_id().unwrap();
    let submit = ended.engine.submit(user, ended.user(), env(), "ann");
    let (removed, submitted) = tokio::join!(ended.engine.remove(ended.id, true), submit);
    match (removed, submitted) {
        (Ok(()), Err(Error::Refused(_))) => assert!(!ended.worktree.exists()),
        (Err(Error::InUse { .. }), Ok(_)) => {
            assert!(ended.worktree.join("new").exists());
            ended.engine.desk().cancel(user, &wish(true)).await.unwrap();
            end_of(&ended.engine, user).await;
        }
        other => panic!("{other:?}"),
    }
}
