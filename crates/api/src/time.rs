//! Timestamps: RFC 3339, UTC, milliseconds.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use lastword_core::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// A time by the wall clock, in milliseconds since 1970. On the wire it is text: `2026-11-15T08:23:01.250Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// The text is not a timestamp.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a timestamp such as 2026-11-15T08:23:01.250Z")]
pub struct NotATime(String);

/// The last day whose year has four digits in every time zone. A later stored time is damage, and is shown as this.
const LATEST_MS: u64 = 253_402_128_000_000;

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = i64::try_from(self.0.min(LATEST_MS)).map_err(|_| fmt::Error)?;
        let moment = jiff::Timestamp::from_millisecond(ms).map_err(|_| fmt::Error)?;
        write!(f, "{moment:.3}")
    }
}

impl FromStr for Time {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Time, NotATime> {
        let moment = text.parse::<jiff::Timestamp>().ok();
        let ms = moment.and_then(|moment| u64::try_from(moment.as_millisecond()).ok());
        // Bound the echo of a longer text.
        ms.map(Time).ok_or_else(|| NotATime(text.chars().take(64).collect()))
    }
}

impl From<Timestamp> for Time {
    fn from(moment: Timestamp) -> Time {
        Time(moment.0)
    }
}

impl From<Time> for Timestamp {
    fn from(moment: Time) -> Timestamp {
        Timestamp(moment.0)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("A timestamp: RFC 3339, UTC, with milliseconds."))
            .examples([serde_json::json!("2026-11-15T08:23:01.250Z")]);
        schema.build().into()
    }
}

impl ToSchema for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_has_milliseconds_and_reads_back() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1, "1970-01-01T00:00:00.001Z"),
            (1_794_730_981_250, "2026-11-15T08:23:01.250Z"),
            (LATEST_MS, "9999-12-30T00:00:00.000Z"),
        ] {
            assert_eq!(Time(ms).to_string(), text);
            assert_eq!(text.parse(), Ok(Time(ms)));
            assert_eq!(serde_json::to_string(&Time(ms)).unwrap(), format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Time>(&format!("\"{text}\"")).unwrap(), Time(ms));
        }
        assert_eq!(Time(u64::MAX).to_string(), "9999-12-30T00:00:00.000Z", "a damaged time can be shown");
    }

    #[test]
    fn offsets_are_accepted_and_dates_before_1970_are_not() {
        assert_eq!("2026-11-15T09:23:01.25+01:00".parse(), Ok(Time(1_794_730_981_250)));
        for text in ["", "soon", "2026-11-15", "1969-12-31T23:59:59Z", "2026-11-15T08:23:01"] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Time>("12").is_err());
    }
}
