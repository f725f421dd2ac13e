//! Limits of a job as users write and read them: `wall` and `2h`, `money` and `1.50`.

use lastword_core::limits::{BadSetting, Limit, SETTINGS, Unit, dollars, parse_setting};

use super::clean::clean;
use super::{duration, similar, size};

/// Parses the value of the limit with this name.
pub(crate) fn parse(name: &str, value: &str) -> Result<(Limit, u64), String> {
    let Some((limit, _)) = SETTINGS.iter().find(|(_, known)| *known == name) else {
        let names = SETTINGS.map(|(_, name)| name);
        let near = similar::nearest(name, names)
            .map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
        return Err(format!("there is no limit `{name}`{near}; the limits are {}", names.join(", ")));
    };
    let value = match limit.unit() {
        Unit::Time => duration::parse_ms(value)?,
        Unit::Bytes => size::parse(value)?,
        Unit::Count => whole(value)?,
        Unit::Money => money(value)?,
    };
    Ok((*limit, value))
}

/// Returns a value of a limit as people write it.
pub(crate) fn spell(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Time => duration::spell_ms(value),
        Unit::Bytes => size::spell(value),
        Unit::Count => value.to_string(),
        Unit::Money => dollars(value),
    }
}

/// Parses a number of turns or tokens.
pub(crate) fn whole(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| format!("`{}` is not a whole number such as 200000", clean(text)))
}

/// Parses an amount of dollars, in millionths.
pub(crate) fn money(text: &str) -> Result<u64, String> {
    match parse_setting("money", text) {
        Ok((_, micros)) => Ok(micros),
        Err(BadSetting::Malformed { expected, .. }) => Err(format!("`{}` is not {expected}", clean(text))),
        Err(unknown) => Err(unknown.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_takes_values_of_its_type() {
        for (name, text, limit, value) in [
            ("wall", "2h", Limit::Wall, 7_200_000),
            ("turn", "20m", Limit::Turn, 1_200_000),
            ("active", "8h", Limit::Active, 28_800_000),
            ("handshake", "90s", Limit::Handshake, 90_000),
            ("idle", "15m", Limit::Idle, 900_000),
            ("stall", "0", Limit::Stall, 0),
            ("output", "50M", Limit::Output, 50 << 20),
            ("turns", "12", Limit::Turns, 12),
            ("tokens", "0", Limit::Tokens, 0),
            ("money", "1.50", Limit::Money, 1_500_000),
        ] {
            assert_eq!(parse(name, text), Ok((limit, value)), "{name}={text}");
        }
        for (name, text) in
            [("wall", "-1s"), ("turns", "1.5"), ("turns", "-1"), ("output", "x"), ("money", "cheap")]
        {
            assert!(parse(name, text).is_err(), "{name}={text}");
        }
        assert!(parse("wal", "2h").is_err_and(|error| error.contains("did you mean `wall`")));
    }
}
