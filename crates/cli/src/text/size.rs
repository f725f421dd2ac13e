//! Sizes in bytes: `64K`, `10M`, `2GiB`, `500MB`.

/// Units and their spellings. A single letter counts in 1024s, as `ls -h` and `du` do; `MB` in 1000s, as disk vendors do.
const UNITS: [(&[&str], u64); 9] = [
    (&["", "b"], 1),
    (&["k", "kib"], 1 << 10),
    (&["m", "mib"], 1 << 20),
    (&["g", "gib"], 1 << 30),
    (&["t", "tib"], 1 << 40),
    (&["kb"], 1_000),
    (&["mb"], 1_000_000),
    (&["gb"], 1_000_000_000),
    (&["tb"], 1_000_000_000_000),
];

/// Parses a size. The error is a sentence, for clap.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let expected = || format!("`{}` is not a size such as 64K, 10M or 2G", super::clean::clean(text));
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let (_, bytes) = UNITS.iter().find(|(names, _)| names.contains(&unit.as_str())).ok_or_else(expected)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(expected());
    }
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(*bytes)).ok_or_else(expected)
}

/// Formats a size: `512 B`, `4.0 KiB`, `12 MiB`.
pub(crate) fn show(bytes: u64) -> String {
    let mut unit = 0;
    let names = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut tenths = bytes.saturating_mul(10);
    while tenths >= 10_240 && unit + 1 < names.len() {
        tenths /= 1_024;
        unit += 1;
    }
    match (unit, tenths) {
        (0, _) => format!("{bytes} B"),
        (_, 0..100) => format!("{}.{} {}", tenths / 10, tenths % 10, names[unit]),
        _ => format!("{} {}", tenths / 10, names[unit]),
    }
}

/// Formats a size exactly, so that it can be parsed again.
pub(crate) fn spell(bytes: u64) -> String {
    let exact = [(1u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let fitting = exact.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    fitting.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_spellings_are_parsed() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64K", 65_536),
            ("64kib", 65_536),
            ("10m", 10 << 20),
            ("2GB", 2_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
            assert_eq!(parse(&spell(bytes)), Ok(bytes), "{text} round trip");
        }
        for text in ["", "M", "-1", "1.5M", "1 M", "10X", "99999999T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_is_formatted_briefly() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (10_240, "10 KiB"),
            (12 << 20, "12 MiB"),
            (u64::MAX, "1677721 TiB"),
        ] {
            assert_eq!(show(bytes), shown);
        }
    }
}
