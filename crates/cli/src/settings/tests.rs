//! C55: what does not read stops the start, with its name.

use super::file::read_value;
use super::*;

fn load(text: &str, environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Settings, Bad> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    Settings::load(&path, &own(environment), &own(flags))
}

#[test]
fn c55_what_does_not_read_stops_the_start_with_its_name() {
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
        let said = load(text, &[], &[]).expect_err(text).to_string();
        assert!(said.contains(name), "{text}: {said}");
        assert!(said.contains("config.toml"), "{text}: {said}");
    }
    let said = load("", &[("SLOTS", "-3")], &[]).expect_err("negative").to_string();
    assert!(said.contains("LASTWORD_SLOTS") && said.contains("`slots`"), "{said}");
    let said = load("", &[("LIMIT__WALL", "1h")], &[]).expect_err("unknown").to_string();
    assert!(said.contains("did you mean `LASTWORD_LIMITS__WALL`"), "{said}");
}

#[test]
fn a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default() {
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
fn every_value_is_written_as_it_reads() {
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
fn c55_the_reference_lists_every_key_with_its_default() {
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
    assert_eq!(rows, KEYS.len() + others, "the page has rows for keys that are not there");
    assert_eq!(others, crate::environment::NOT_SETTINGS.len(), "a variable is missing on the page");
}
