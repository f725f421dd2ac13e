//! An attempt, and how it must end.

use super::parties::Parties;
use super::setup::Setup;

/// The page that admits what is not guarded against.
pub(super) const PAGE: (&str, &str) =
    ("docs/concepts/attacks.md", include_str!("../../../../docs/concepts/attacks.md"));

/// How an attempt must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// It comes to nothing, and the attacker is told.
    Refused,
    /// It is done, and does no harm.
    Survived,
    /// It works, and the page says so under this heading.
    Limit(&'static str),
}

impl Ends {
    pub(super) fn word(self) -> &'static str {
        match self {
            Ends::Refused => "refused",
            Ends::Survived => "survived",
            Ends::Limit(_) => "limit",
        }
    }
}

/// One thing that an attacker tries.
pub(super) struct Attempt<S = Setup> {
    /// Its number in the plan of security tests.
    pub(super) item: u8,
    pub(super) what: &'static str,
    pub(super) ends: Ends,
    /// Tries it. Says how it ended, if it ended as it must; otherwise what happened instead.
    pub(super) make: fn(&S) -> Result<String, String>,
}

/// Attempts, by group.
pub(super) type Groups<S> = [(&'static str, &'static [Attempt<S>])];

impl<S: Parties> Attempt<S> {
    /// Reports whether a word names it, or its group.
    pub(super) fn is_called(&self, group: &str, word: &str) -> bool {
        word == group || word == self.item.to_string() || self.what.contains(word)
    }

    /// Makes it and prints its row; reports whether it ended as it must.
    pub(super) fn row(&self, parties: &S) -> bool {
        let ended = (self.make)(parties).and_then(|how| match self.ends {
            Ends::Limit(heading) if !admits(PAGE.1, heading) => {
                Err(format!("{how}; {} has no heading `{heading}`", PAGE.0))
            }
            Ends::Limit(heading) => Ok(format!("{how}; {}: {heading}", PAGE.0)),
            Ends::Refused | Ends::Survived => Ok(how),
        });
        let (word, how) = match &ended {
            Ok(how) => (self.ends.word(), how),
            Err(why) => ("FAILED", why),
        };
        println!("{:>3}  {:<74} {word:<9} {}", self.item, self.what, parties.shown(how));
        ended.is_ok()
    }
}

/// Reports whether a page has a heading.
pub(super) fn admits(page: &str, heading: &str) -> bool {
    page.lines().any(|line| line.trim_start_matches('#').trim() == heading && line.starts_with('#'))
}

/// Makes all attempts, or those of a name, group by group, each against parties of its own. Returns how many were made, and how many
/// did not end as they must.
pub(super) fn make_all<S: Parties + 'static>(
    groups: &'static Groups<S>,
    only: Option<&str>,
    parties: impl Fn() -> Result<S, String>,
) -> Result<(usize, usize), String> {
    let (mut tried, mut wrong) = (0, 0);
    for (group, attempts) in groups {
        let is_chosen = |attempt: &&Attempt<S>| only.is_none_or(|only| attempt.is_called(group, only));
        let chosen: Vec<&Attempt<S>> = attempts.iter().filter(is_chosen).collect();
        if chosen.is_empty() {
            continue;
        }
        println!("\n{group}");
        let parties = parties()?;
        for attempt in chosen {
            tried += 1;
            wrong += usize::from(!attempt.row(&parties));
        }
    }
    Ok((tried, wrong))
}

/// Returns the attempt of a name.
pub(super) fn named<S>(groups: &'static Groups<S>, what: &str) -> Option<&'static Attempt<S>> {
    groups.iter().flat_map(|(_, attempts)| attempts.iter()).find(|attempt| attempt.what == what)
}
