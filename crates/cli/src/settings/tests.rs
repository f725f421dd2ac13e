//! C55: an invalid setting prevents the start, and the error names it.

use super::file::read_value;
use super::*;

fn load(text: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    Settings::load(&path, &own(environment), &own(flags))
}

#[test]
fn c55_an_invalid_setting_prevents_the_start_and_is_named() {
    for (text, name) in [
        ("slots = -1", "`slots`"),
        ("slots = \"many\"", "`slots`"),
        ("slots = 1.5", "`slots`"),
        ("slots = true", "`slots`"),
        ("grace = -5", "`grace`"),
        ("grace = \"-5s\"", "`grace`"),
        ("grace = 5", "`grace`"),
        ("[limits]\nwall = \"soon\"", "`limits.wall`"),
        ("limits.output = \"1.5M\"", "`limits.output`"),
        ("log_level = \"loud\"", "`log_level`"),
        ("slot = 3", "did you mean `slots`"),
        ("[limit]\nwall = \"1h\"", "did you mean `limits.wall`"),
        ("limits = 3", "`limits`"),
        ("slots = [1]", "`slots`"),
        ("slots = ", "config.toml"),
    ] {
        let error = load(text, &[], &[]).expect_err(text).to_string();
        assert!(error.contains(name), "{text}: {error}");
        assert!(error.contains("config.toml"), "{text}: {error}");
    }
    let error = load("", &[("SLOTS", "-3")], &[]).expect_err("negative").to_string();
    assert!(error.contains("LASTWORD_SLOTS") && error.contains("`slots`"), "{error}");
    let error = load("", &[("LIMIT__WALL", "1h")], &[]).expect_err("unknown").to_string();
    assert!(error.contains("did you mean `LASTWORD_LIMITS__WALL`"), "{error}");
}

#[test]
fn flags_override_the_environment_the_file_and_the_defaults_in_this_order() {
    let file = "slots = 3\ngrace = \"9s\"\n[limits]\nwall = \"1h\"\n";
    let settings = load(file, &[("GRACE", "8s"), ("LIMITS__WALL", "0")], &[("limits.wall", "7s")]).unwrap();
    assert_eq!(settings.number("slots"), 3);
    assert_eq!(settings.number("grace"), 8_000);
    assert_eq!(settings.number("limits.wall"), 7_000);
    assert_eq!(settings.number("output.head"), 4 << 20);
    let origins: Vec<String> = settings.iter().map(|(_, _, origin)| origin.to_string()).collect();
    assert!(origins[0].ends_with("config.toml:1"), "{origins:?}");
    assert_eq!(origins[1..4], ["environment (LASTWORD_GRACE)", "--set", "default"]);
}

#[test]
fn a_written_value_parses_to_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, "# mine\ngrace = \"1s\" # short\n").unwrap();
    for key in KEYS {
        let value = (key.default)();
        write_value(&path, key, value).unwrap();
        let read = read_value(&path, key).unwrap().expect("it was written");
        assert_eq!(key.parse(&read, &Origin::Flag), Ok(value), "{}", key.name);
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# mine\ngrace = \"5s\" # short\n"), "{text}");
    assert!(Settings::load(&path, &[], &[]).is_ok(), "{text}");
}

#[test]
fn c55_the_reference_lists_every_setting_with_its_default() {
    let page = include_str!("../../../../docs/reference/settings.md");
    for key in KEYS {
        let default = (key.default)();
        let row = format!("| `{}` | `{}` | `{default}` | {} |", key.name, variable(key.name), key.about);
        assert!(page.lines().any(|line| line == row), "docs/reference/settings.md lacks the row\n{row}");
    }
    let rows = page.lines().filter(|line| line.starts_with("| `") && line.contains("LASTWORD_")).count();
    let others = crate::environment::NOT_SETTINGS
        .iter()
        .filter(|name| page.contains(&format!("| `{name}` |")))
        .count();
    assert_eq!(rows, KEYS.len() + others, "the page has rows for unknown settings");
    assert_eq!(others, crate::environment::NOT_SETTINGS.len(), "a variable is missing on the page");
}
