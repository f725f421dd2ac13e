//! References: how users refer to a job. By its id or a prefix of it, its short form or a prefix of it, its name, or `@last`.
//!
//! Parsing looks nothing up. A store finds the jobs for each possible meaning, and [`Loose::settle`] decides between them.

use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::decide::submit::is_name;
use crate::ids::{JobId, SHORT_CHARS, prefix_range, short_range};

/// The reference to the newest job.
pub const LAST: &str = "@last";

/// Shortest prefix of a short form that is accepted, in characters. A shorter one would often match several jobs.
const SHORT_CHARS_MIN: usize = 4;

/// A parsed reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The newest job.
    Last,
    /// The job with this id.
    Id(JobId),
    /// A text with several possible meanings.
    Loose(Loose),
}

/// The possible meanings of a text that is not a whole id. At least one is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loose {
    /// The text itself.
    pub text: String,
    /// A name.
    pub name: Option<String>,
    /// The prefix of an id: the keys in this range whose id starts with the text.
    pub ids: Option<RangeInclusive<u128>>,
    /// The prefix of a short form: the ids whose last 40 bits are in this range.
    pub shorts: Option<RangeInclusive<u64>>,
}

/// The text cannot refer to any job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a job: use an id or a prefix of one, a name, or @last")]
pub struct NotAReference(String);

impl FromStr for Reference {
    type Err = NotAReference;

    fn from_str(text: &str) -> Result<Reference, NotAReference> {
        if text == LAST {
            return Ok(Reference::Last);
        }
        if let Ok(id) = text.parse() {
            return Ok(Reference::Id(id));
        }
        let short = (SHORT_CHARS_MIN..=SHORT_CHARS).contains(&text.len());
        let loose = Loose {
            text: text.to_owned(),
            name: is_name(text).then(|| text.to_owned()),
            ids: prefix_range(text),
            shorts: short.then(|| short_range(text)).flatten(),
        };
        if let Loose { name: None, ids: None, shorts: None, .. } = &loose {
            // Bound the echo of a long text.
            return Err(NotAReference(text.chars().take(64).collect()));
        }
        Ok(Reference::Loose(loose))
    }
}

impl Loose {
    /// Reports whether the text is a whole short form.
    fn is_whole_short(&self) -> bool {
        self.shorts.as_ref().is_some_and(|range| range.start() == range.end())
    }

    /// Returns the jobs that are meant, given those found for each meaning. Several mean that the reference is ambiguous.
    ///
    /// A name takes precedence over prefixes of ids, whose meaning changes with every new job. It does not take precedence over a whole
    /// short form, since lists show those: if both match, the reference is ambiguous.
    pub fn settle<T>(
        &self,
        job: impl Fn(&T) -> JobId,
        named: Option<T>,
        shorts: Vec<T>,
        ids: Vec<T>,
    ) -> Vec<T> {
        let ids = ids.into_iter().filter(|found| job(found).begins_with(&self.text));
        let prefixed = match &named {
            Some(_) if self.is_whole_short() => shorts,
            Some(_) => Vec::new(),
            None => shorts.into_iter().chain(ids).collect(),
        };
        let mut meant: Vec<T> = named.into_iter().collect();
        for found in prefixed {
            if !meant.iter().any(|known| job(known) == job(&found)) {
                meant.push(found);
            }
        }
        meant
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Timestamp;

    fn id() -> JobId {
        JobId::new(3, Timestamp(1_794_700_800_000), [0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8])
    }

    fn loose(text: &str) -> Loose {
        match text.parse() {
            Ok(Reference::Loose(loose)) => loose,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn ids_and_last_are_parsed() {
        assert_eq!("@last".parse(), Ok(Reference::Last));
        assert_eq!(id().to_string().parse(), Ok(Reference::Id(id())));
    }

    #[test]
    fn every_prefix_of_an_id_matches_it() {
        let text = id().to_string();
        let key = id().as_uuid().as_u128();
        for end in 5..text.len() {
            for part in [&text[..end], &text[4..end]] {
                let ids = loose(part).ids.unwrap_or_else(|| panic!("{part}"));
                assert!(ids.contains(&key), "{part}");
            }
        }
        // Without `job_`, the whole id is one key.
        let whole = loose(&text[4..]).ids.expect("it is an id");
        assert_eq!((*whole.start(), *whole.end()), (key, key));
        assert!(!loose(&text[..20].replace("01m7", "01m8")).ids.expect("it reads").contains(&key));
        // Another cell is another id.
        assert!(id().begins_with("job_0301m7e81w") && id().begins_with("03"));
        assert!(!id().begins_with("job_0201m7e81w") && !id().begins_with("02"));
        let none: Vec<JobId> = loose("job_02").settle(|id| *id, None, Vec::new(), vec![id()]);
        assert_eq!(none, []);
        assert_eq!(loose("038").ids, None);
    }

    #[test]
    fn prefixes_of_a_short_form_match_from_four_characters_on() {
        let short = id().short();
        let low = (id().as_uuid().as_u128() & ((1 << 40) - 1)) as u64;
        for end in 4..=8 {
            assert!(loose(&short[..end]).shorts.expect("it is short").contains(&low), "{end}");
        }
        let whole = loose(&short).shorts.expect("it is short");
        assert_eq!((*whole.start(), *whole.end()), (low, low));
        assert_eq!(loose(&short[..3]).shorts, None);
        assert!(!loose("zzzz").shorts.expect("it is short").contains(&low));
    }

    #[test]
    fn invalid_texts_are_refused() {
        for text in ["", "@first", "a b", "../etc", "-x", "job_é", &"x".repeat(65)] {
            assert!(text.parse::<Reference>().is_err(), "{text}");
        }
        let long = "/".repeat(9_999).parse::<Reference>().expect_err("it is no name");
        assert!(long.to_string().len() < 200);
        // Letters that do not occur in ids can only be a name.
        let name = loose("build");
        assert_eq!((name.name.as_deref(), name.ids, name.shorts), (Some("build"), None, None));
    }

    #[test]
    fn a_name_takes_precedence_over_prefixes_but_not_over_a_whole_short_form() {
        let check = |text: &str, named: Option<u8>, shorts: &[u8], ids: &[u8], expected: &[u8]| {
            let made = |n: &u8| JobId::new(0, Timestamp(1), [*n; 10]);
            let settled = loose(text).settle(made, named, shorts.to_vec(), ids.to_vec());
            assert_eq!(settled, expected, "{text}");
        };
        check("test", None, &[], &[], &[]);
        check("test", Some(1), &[2, 3], &[4], &[1]);
        check("0000", None, &[2, 3], &[3, 4], &[2, 3, 4]);
        check("testtest", Some(1), &[2], &[], &[1, 2]);
        check("testtest", Some(2), &[2], &[], &[2]);
        check("testtest", None, &[2], &[], &[2]);
    }
}
