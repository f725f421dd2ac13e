//! Times as people read them: ages, and local times of day.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use lastword_api::Time;

/// Returns the current time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    lastword_proc::clock::wall_ms()
}

/// Returns the milliseconds between two times; 0 if the clock was set back in between.
pub(crate) fn between(from: Time, to: Time) -> u64 {
    to.0.saturating_sub(from.0)
}

/// Formats times in the user's time zone.
pub(crate) struct Clock {
    zone: TimeZone,
    now: Time,
}

impl Clock {
    /// Returns the clock of this machine in its time zone.
    pub(crate) fn local() -> Clock {
        Clock { zone: zone(crate::environment::get("TZ").as_deref()), now: Time(now_ms()) }
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Formats a time of day, with the date if it is not today: `14:03:07`, `Nov 15 14:03:07`.
    pub(crate) fn show(&self, moment: Time) -> String {
        let civil = |moment: Time| {
            let at = i64::try_from(moment.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
            at.unwrap_or_default().to_zoned(self.zone.clone())
        };
        let (then, now) = (civil(moment), civil(self.now));
        let format = match (then.date() == now.date(), then.year() == now.year()) {
            (true, _) => "%H:%M:%S",
            (false, true) => "%b %d %H:%M:%S",
            (false, false) => "%Y-%m-%d %H:%M:%S",
        };
        then.strftime(format).to_string()
    }
}

/// Returns the local time zone, or the one that `TZ` names. Reads a single file: jiff's own lookup scans the whole database first, which
/// takes longer than the rest of a command.
fn zone(said: Option<&str>) -> TimeZone {
    let file = |path: &Path| TimeZone::tzif("local", &std::fs::read(path).ok()?).ok();
    let named = said.map(|name| name.strip_prefix(':').unwrap_or(name));
    let found = match named {
        None => file(Path::new("/etc/localtime")),
        Some(name) if name.contains("..") => None,
        // Joining an absolute path yields that path.
        Some(name) => file(&Path::new(ZONES).join(name)).or_else(|| TimeZone::posix(name).ok()),
    };
    found.unwrap_or(TimeZone::UTC)
}

/// The folder of named zones.
const ZONES: &str = "/usr/share/zoneinfo";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_found_by_file_or_posix_rule_and_falls_back_to_utc() {
        let noon = |said: &str| {
            let clock = Clock { zone: zone(Some(said)), now: Time(1_794_729_600_000) };
            clock.show(Time(1_794_729_600_000))
        };
        for (said, time) in
            [("UTC", "08:00:00"), ("XYZ-3", "11:00:00"), ("../../etc/passwd", "08:00:00"), ("?", "08:00:00")]
        {
            assert_eq!(noon(said), time, "{said}");
        }
        if Path::new(ZONES).join("Asia/Tokyo").exists() {
            assert_eq!(noon("Asia/Tokyo"), "17:00:00");
            assert_eq!(noon(":Asia/Tokyo"), "17:00:00");
        }
    }

    #[test]
    fn another_day_is_shown_with_its_date() {
        let now = 1_794_729_600_000;
        let clock = Clock { zone: TimeZone::UTC, now: Time(now) };
        assert_eq!(clock.show(Time(now - 1_000)), "07:59:59");
        assert_eq!(clock.show(Time(now - 86_400_000)), "Nov 14 08:00:00");
        assert_eq!(clock.show(Time(0)), "1970-01-01 00:00:00");
    }
}
