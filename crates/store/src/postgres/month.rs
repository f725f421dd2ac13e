//! Months: events are kept in one partition for each, by the time in the id of their job.
//!
//! A statement that names the bounds of a month as constants is planned for its partition alone. By a parameter, the server would lock every
//! partition and its indexes at each run, because a plan that is made once covers all of them.

use std::collections::BTreeMap;

use lastword_core::{JobId, Timestamp};
use uuid::Uuid;

/// A month of the calendar, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Month {
    year: i64,
    month: i64,
}

impl Month {
    /// Returns the month of a moment. Days are counted from the first of March, so that leap days come last.
    pub(super) fn of(at: Timestamp) -> Month {
        let days = (at.0 / 86_400_000) as i64 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let (year, month) = (era * 400 + year_of_era, if month < 10 { month + 3 } else { month - 9 });
        Month { year: if month <= 2 { year + 1 } else { year }, month }
    }

    /// Returns the month after this one.
    pub(super) fn next(self) -> Month {
        match self {
            Month { year, month: 12 } => Month { year: year + 1, month: 1 },
            Month { year, month } => Month { year, month: month + 1 },
        }
    }

    /// Returns the name of its partition.
    pub(super) fn partition(self) -> String {
        let Month { year, month } = self;
        format!("events_{year:04}_{month:02}")
    }

    /// Returns the least id of this month, and of the next one.
    pub(super) fn bounds(self) -> (Uuid, Uuid) {
        (least_id(self.begin()), least_id(self.next().begin()))
    }

    /// Returns a statement with its `{from}` and `{to}` replaced by the bounds of this month. The text is the same for all jobs of the
    /// month, so a session prepares it once.
    pub(super) fn bind(self, sql: &str) -> String {
        let (from, to) = self.bounds();
        sql.replace("{from}", &format!("'{from}'")).replace("{to}", &format!("'{to}'"))
    }

    /// Returns its first moment.
    fn begin(self) -> Timestamp {
        let Month { year, month } = self;
        let shifted = if month <= 2 { year - 1 } else { year };
        let (era, year_of_era) = (shifted / 400, shifted % 400);
        let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Timestamp(((era * 146_097 + day_of_era - 719_468) * 86_400_000) as u64)
    }
}

/// Returns the items by the month of their job's id.
pub(super) fn by_month<T>(items: impl IntoIterator<Item = (JobId, T)>) -> BTreeMap<Month, Vec<T>> {
    let mut months: BTreeMap<Month, Vec<T>> = BTreeMap::new();
    for (job, item) in items {
        months.entry(Month::of(job.made_at())).or_default().push(item);
    }
    months
}

/// Returns the least id that a moment can have. No id is of a moment that 48 bits do not hold.
fn least_id(at: Timestamp) -> Uuid {
    if at.0 >> 48 > 0 {
        return Uuid::max();
    }
    let mut bytes = *JobId::new(0, at, [0; 10]).as_uuid().as_bytes();
    bytes[6..].fill(0);
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_where_they_should() {
        for (year, month, ms) in [
            (1970, 1, 0),
            (1970, 2, 2_678_400_000),
            (2000, 3, 951_868_800_000),
            (2024, 2, 1_706_745_600_000),
            (2026, 11, 1_793_491_200_000),
        ] {
            let this = Month { year, month };
            assert_eq!(this.begin(), Timestamp(ms), "{year}-{month}");
            assert_eq!(Month::of(Timestamp(ms)), this);
            if ms > 0 {
                assert_eq!(Month::of(Timestamp(ms - 1)).next(), this);
            }
        }
    }

    #[test]
    fn a_month_holds_the_ids_made_in_it() {
        let (this, next) = (Month { year: 2026, month: 11 }, Month { year: 2026, month: 12 });
        let first = JobId::new(0, this.begin(), [0; 10]);
        let last = JobId::new(1023, Timestamp(next.begin().0 - 1), [0xff; 10]);
        let (from, to) = this.bounds();
        assert!(from <= first.as_uuid() && last.as_uuid() < to);
        assert_eq!([first, last].map(|job| Month::of(job.made_at())), [this, this]);
        let end = JobId::new(1023, Timestamp((1 << 48) - 1), [0xff; 10]);
        let (from, to) = Month::of(end.made_at()).bounds();
        assert!(from <= end.as_uuid() && end.as_uuid() < to);
    }
}
