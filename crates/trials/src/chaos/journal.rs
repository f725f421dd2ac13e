//! The journal, read past the product: by the command line of SQLite or of PostgreSQL.

use lastword_core::JobId;

use super::judge::run::Logged;
use super::members::Members;
use super::plan::AGAIN;

/// Every job that was submitted, how many last words it has, and how many facts follow the first of them.
const JOBS: &str = "
    with words as (select job, count(*) as count, min(seq) as first from events where kind = 'last_word' group by job)
    select hex(submitted.job),
           coalesce(json_extract(submitted.body, '$.spec.labels.chaos'), ''),
           coalesce(words.count, 0),
           (select count(*) from events as later
            where later.job = submitted.job and later.seq > words.first and later.kind not in ('late_reported', 'last_word')),
           json_extract(submitted.body, '$.spec.retry_of') is not null
    from events as submitted left join words on words.job = submitted.job
    where submitted.kind = 'submitted'";

/// The same from PostgreSQL.
const JOBS_POSTGRES: &str = "
    with words as (select job, count(*) as count, min(seq) as first from events where kind = 'last_word' group by job)
    select replace(submitted.job::text, '-', ''),
           coalesce(submitted.body::json #>> '{spec,labels,chaos}', ''),
           coalesce(words.count, 0),
           (select count(*) from events as later
            where later.job = submitted.job and later.seq > words.first and later.kind not in ('late_reported', 'last_word')),
           (submitted.body::json #>> '{spec,retry_of}' is not null)::int
    from events as submitted left join words on words.job = submitted.job
    where submitted.kind = 'submitted'";

/// How many facts were decided outside of these moments: by a clock that was wrong.
const ASTRAY: &str = "select count(*) from events where at not between ";

/// Reads all jobs.
pub(crate) fn jobs(members: &Members) -> Result<Vec<Logged>, String> {
    let text = members.query(JOBS, JOBS_POSTGRES)?;
    text.lines().map(|line| logged(line).ok_or_else(|| format!("the journal has a line {line:?}"))).collect()
}

/// Counts the facts that a wrong clock dated.
pub(crate) fn astray(members: &Members, from_ms: u64, to_ms: u64) -> Result<u64, String> {
    // Numbers of our own, in a question to a program that takes no parameters.
    let question = [ASTRAY, &from_ms.to_string(), " and ", &to_ms.to_string()].concat();
    let count = members.query(&question, &question)?;
    count.trim().parse().map_err(|_| format!("the journal counts {count:?}"))
}

fn logged(line: &str) -> Option<Logged> {
    let words: Vec<&str> = line.split('|').collect();
    let [id, number, last_words, afterthoughts, repeats] = words[..] else { return None };
    let uuid = format!(
        "{}-{}-{}-{}-{}",
        id.get(..8)?,
        id.get(8..12)?,
        id.get(12..16)?,
        id.get(16..20)?,
        id.get(20..)?
    );
    Some(Logged {
        id: JobId::from_uuid(uuid.parse().ok()?)?.to_string(),
        number: number.parse().ok().map(|number: u64| if repeats == "1" { number + AGAIN } else { number }),
        last_words: last_words.parse().ok()?,
        afterthoughts: afterthoughts.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use lastword_core::Timestamp;

    use super::*;

    #[test]
    fn a_line_of_the_journal_is_a_job() {
        let id = JobId::new(0, Timestamp(1_794_700_800_000), [7; 10]);
        let hex = id.as_uuid().simple().to_string().to_uppercase();
        let expected = Logged { id: id.to_string(), number: Some(12), last_words: 1, afterthoughts: 0 };
        assert_eq!(logged(&format!("{hex}|12|1|0|0")), Some(expected));
        assert_eq!(logged(&format!("{hex}|12|1|0|1")).unwrap().number, Some(12 + AGAIN));
        assert_eq!(logged(&format!("{hex}||2|1|0")).unwrap().number, None);
        assert_eq!(logged("nonsense"), None);
    }
}
