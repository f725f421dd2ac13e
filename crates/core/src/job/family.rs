//! The fold of a job's family: the jobs that its processes submitted.

use super::fold::Followed;
use crate::event::{ChildEnded, ChildSubmitted, LastWord};
use crate::job::{Child, Job, Phase};
use crate::outcome::{Cause, Outcome};

/// Jobs named as ended with this one. A receipt with more cannot be read.
const NAMED_MAX: usize = 64;

impl Job {
    /// Returns the jobs that end with this one.
    pub fn tied(&self) -> impl Iterator<Item = &Child> {
        self.children.iter().filter(|child| child.tied)
    }

    /// Reports whether the jobs that are tied to this one must end: it is being stopped, or did not complete. After a failed turn it may be
    /// tried again, and a job that completed waits for them.
    pub fn ends_children(&self) -> bool {
        let is_stopped = self.stop.as_ref().is_some_and(|stop| stop.cause != Cause::Agent);
        let ends = match &self.phase {
            Phase::Awaiting(word) => is_stopped || word.outcome != Outcome::Completed,
            Phase::Ended(_) => false,
            _ => is_stopped,
        };
        ends && self.tied().next().is_some()
    }

    pub(super) fn child_submitted(&mut self, submitted: &ChildSubmitted) -> Followed {
        if self.children.iter().any(|child| child.job == submitted.job) {
            return Err("it has that child already");
        }
        self.children.push(Child { job: submitted.job, tied: submitted.tied });
        Ok(())
    }

    pub(super) fn child_ended(&mut self, ended: &ChildEnded) -> Followed {
        let Some(place) = self.children.iter().position(|child| child.job == ended.job) else {
            return Err("it has no such child");
        };
        let is_stopped = self.ends_children() && matches!(ended.outcome, Some(Outcome::Cancelled(_)));
        let child = self.children.remove(place);
        if is_stopped && child.tied && self.children_stopped.len() < NAMED_MAX {
            self.children_stopped.push(child.job);
        }
        Ok(())
    }

    pub(super) fn children_awaited(&mut self, word: &LastWord) -> Followed {
        if self.open_attempt().is_some() {
            return Err("an attempt is open");
        }
        if self.tied().next().is_none() {
            return Err("no job is tied to it");
        }
        if let Some(session) = &mut self.session {
            session.end(false);
        }
        self.inputs.clear();
        (self.holder, self.provider_wait) = (None, None);
        self.phase = Phase::Awaiting(word.clone());
        Ok(())
    }
}
