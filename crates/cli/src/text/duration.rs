//! Durations: `90s`, `5m`, `1h30m`.

/// The units, longest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Parses a duration in milliseconds. The error is a sentence, for clap.
pub(crate) fn parse_ms(text: &str) -> Result<u64, String> {
    let expected = || format!("`{}` is not a duration such as 90s, 5m or 1h30m", super::clean::clean(text));
    if text == "0" {
        return Ok(0);
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "`{text}` has no unit: write {text}s for seconds, {text}m for minutes, {text}h for hours"
        ));
    }
    let mut rest = text;
    let mut total = 0u64;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().map_err(|_| expected())?;
        rest = &rest[digits..];
        let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == &rest[..letters]).ok_or_else(expected)?;
        rest = &rest[letters..];
        // From longest to shortest, each at most once; anything else is probably a typo.
        if *unit_ms >= last {
            return Err(expected());
        }
        last = *unit_ms;
        total = number.checked_mul(*unit_ms).and_then(|ms| total.checked_add(ms)).ok_or_else(expected)?;
    }
    if last == u64::MAX { Err(expected()) } else { Ok(total) }
}

/// Formats a duration with at most two units: `45ms`, `1.2s`, `3m12s`, `2h05m`, `3d4h`.
pub(crate) fn show_ms(ms: u64) -> String {
    let (seconds, minutes, hours, days) = (ms / 1_000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..10_000 => format!("{seconds}.{}s", ms % 1_000 / 100),
        10_000..60_000 => format!("{seconds}s"),
        60_000..3_600_000 => format!("{minutes}m{:02}s", seconds % 60),
        3_600_000..86_400_000 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

/// Formats a duration with one unit, for a table column: `45s`, `3m`, `2h`, `5d`.
pub(crate) fn show_coarse(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{}s", ms / 1_000),
        60_000..3_600_000 => format!("{}m", ms / 60_000),
        3_600_000..86_400_000 => format!("{}h", ms / 3_600_000),
        _ => format!("{}d", ms / 86_400_000),
    }
}

/// Formats a duration exactly, so that it can be parsed again.
pub(crate) fn spell_ms(ms: u64) -> String {
    if ms == 0 {
        return "0".to_owned();
    }
    let mut rest = ms;
    let mut text = String::new();
    for (name, unit_ms) in UNITS {
        if rest / unit_ms > 0 {
            text.push_str(&format!("{}{name}", rest / unit_ms));
        }
        rest %= unit_ms;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_spellings_are_parsed() {
        for (text, ms) in [
            ("0", 0),
            ("0s", 0),
            ("250ms", 250),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
        ] {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
            assert_eq!(parse_ms(&spell_ms(ms)), Ok(ms), "{text} round trip");
        }
    }

    #[test]
    fn anything_else_is_rejected_with_a_hint() {
        for text in
            ["", "s", "-5s", "5 s", "1.5h", "5x", "1m1h", "1m1m", "5m3", "99999999999999999999s", "٣s"]
        {
            let refused = parse_ms(text).expect_err(text);
            assert!(refused.contains("90s, 5m or 1h30m"), "{refused}");
        }
        assert!(parse_ms("90").expect_err("no unit").contains("90s for seconds"));
        assert!(parse_ms("300000000000d").is_err(), "overflow");
    }

    #[test]
    fn a_duration_is_formatted_briefly() {
        for (ms, exact, coarse) in [
            (0, "0ms", "0s"),
            (45, "45ms", "0s"),
            (1_250, "1.2s", "1s"),
            (59_999, "59s", "59s"),
            (192_000, "3m12s", "3m"),
            (7_500_000, "2h05m", "2h"),
            (273_600_000, "3d4h", "3d"),
        ] {
            assert_eq!((show_ms(ms).as_str(), show_coarse(ms).as_str()), (exact, coarse));
        }
    }
}
