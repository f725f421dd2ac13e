//! What is to be forgotten of a session that an agent loads: it replays the session's record, in which the last completed turn ends at a mark.
//! Only goose can be told to forget what follows. It cuts by the second, so that what must stay may not have been said in the same one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::value::{at, number, text};

/// What was replayed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Replay {
    /// The mark was seen.
    is_past_mark: bool,
    /// The newest second of what must stay.
    kept_until: u64,
    /// The second of the first prompt after the mark.
    cut_from: Option<u64>,
}

/// What follows from a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is nothing to forget.
    Clean,
    /// It can be forgotten.
    Cut,
    /// It cannot, and why.
    Stays(&'static str),
}

impl Replay {
    pub(super) fn is_new(&self) -> bool {
        *self == Replay::default()
    }

    /// Records one part of the replay.
    pub(super) fn note(&mut self, update: &Value, mark: &str) {
        if self.cut_from.is_some() {
            return;
        }
        let created = at(update, &["_meta", "goose"]).and_then(|goose| number(goose, &["created"]));
        if self.is_past_mark && text(update, &["sessionUpdate"]) == Some("user_message_chunk") {
            self.cut_from = Some(created.unwrap_or(0));
            return;
        }
        self.kept_until = self.kept_until.max(created.unwrap_or(0));
        self.is_past_mark |= name(update).is_some_and(|name| name == mark);
    }

    /// Says what is to be done after the replay.
    pub(super) fn verdict(&self) -> Verdict {
        match self.cut_from {
            _ if !self.is_past_mark => Verdict::Stays("its last completed turn is not in the agent's record"),
            None => Verdict::Clean,
            Some(from) if from > self.kept_until => Verdict::Cut,
            Some(_) => Verdict::Stays("it began in the second in which the turn before it ended"),
        }
    }

    /// Returns the second from which on everything is to be forgotten.
    pub(super) fn cut(&self) -> Option<u64> {
        self.cut_from
    }
}

/// Returns what the agent's record calls a part of what was said or done.
pub(super) fn name(update: &Value) -> Option<&str> {
    text(update, &["_meta", "goose", "messageId"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_follows_the_mark_is_cut_unless_it_began_in_the_same_second() {
        let part = |kind: &str, name: &str, created: u64| json!({ "sessionUpdate": kind, "_meta": { "goose": { "messageId": name, "created": created } } });
        let verdict = |parts: &[Value]| {
            let mut replay = Replay::default();
            parts.iter().for_each(|part| replay.note(part, "m2"));
            (replay.verdict(), replay.cut())
        };
        let kept = [part("user_message_chunk", "m1", 10), part("agent_message_chunk", "m2", 12)];
        let with = |more: &[Value]| [&kept[..], more].concat();
        assert_eq!(verdict(&kept), (Verdict::Clean, None));
        let ghost = [part("user_message_chunk", "m3", 13), part("agent_message_chunk", "m4", 14)];
        assert_eq!(verdict(&with(&ghost)), (Verdict::Cut, Some(13)));
        let same = [part("user_message_chunk", "m3", 12)];
        assert!(matches!(verdict(&with(&same)).0, Verdict::Stays(why) if why.contains("second")));
        assert!(matches!(verdict(&kept[..1]).0, Verdict::Stays(why) if why.contains("not in")));
        // A part of the kept turn that comes after its mark, and is newer than what follows.
        let late = [part("tool_call_update", "m2", 13), part("user_message_chunk", "m3", 13)];
        assert!(matches!(verdict(&with(&late)).0, Verdict::Stays(_)));
    }
}
