//! What people write: files of settings, of profiles and of agents, lengths of time, sizes; and what must not reach a terminal.

use std::path::Path;
use std::sync::LazyLock;

use lastword_agents::{Definitions, PriceTable, price_of};

use crate::profile::Profile;
use crate::settings::Settings;
use crate::text::{clean, duration, similar, size};

static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("there is a folder for files"));

/// A file of agents is read, or refused with words.
pub(crate) fn agents_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Definitions::with(Some(text)) {
        Ok(all) => all.all().for_each(|(_, agent)| drop(agent.terms(Default::default()))),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A file of prices is read, or refused with words, and no price makes a sum overflow.
pub(crate) fn prices_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match PriceTable::read(text) {
        Ok(table) => table.models.keys().for_each(|model| assert!(price_of(&table.models, model).is_some())),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A file of settings is read, or refused with words.
pub(crate) fn settings_file(bytes: &[u8]) {
    let path = FOLDER.path().join("settings.toml");
    std::fs::write(&path, bytes).expect("a file can be written");
    if let Err(error) = Settings::load(&path, &[], &[]) {
        assert!(!error.to_string().is_empty());
    }
}

/// A profile is read, or refused with a line that it has. What it sets is shown on lines of their own.
pub(crate) fn profile_file(bytes: &[u8]) {
    match Profile::parse(Path::new("p.toml"), bytes) {
        Ok(profile) => profile.lines().iter().for_each(|line| assert!(!line.contains('\n'), "{line:?}")),
        Err(error) => {
            let text = error.to_string();
            let line = text.strip_prefix("p.toml:").and_then(|rest| rest.split(':').next());
            let line: usize = line.and_then(|line| line.parse().ok()).expect("a line");
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&line), "{text}");
        }
    }
}

/// A job's output for a terminal has colours and nothing else that acts on it, however it is cut; each line ends plain, and nothing is
/// concealed.
pub(crate) fn job_output(bytes: &[u8]) {
    use clean::{Cleaner, Colours};
    let whole = Cleaner::new(Colours::Kept).clean(bytes);
    check_colours(&whole);
    let mut cleaner = Cleaner::new(Colours::Kept);
    let size = bytes.first().map_or(1, |byte| usize::from(*byte % 7) + 1);
    let pieces: Vec<String> = bytes.chunks(size).map(|piece| cleaner.clean(piece)).collect();
    pieces.iter().for_each(|piece| check_colours(piece));
    assert_eq!(Cleaner::new(Colours::Kept).clean(pieces.concat().as_bytes()), whole);
    let plain = Cleaner::new(Colours::Dropped).clean(bytes);
    assert_eq!(Cleaner::new(Colours::Dropped).clean(whole.as_bytes()), plain);
    assert!(!plain.contains('\x1b'));
}

fn check_colours(text: &str) {
    for line in text.split('\n') {
        let mut is_plain = true;
        let mut parts = line.split('\x1b');
        let mut shown = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (parameters, rest) = part.split_once('m').expect("a sequence ends with `m`");
            let parameters = parameters.strip_prefix('[').expect("a sequence begins with `[`");
            assert!(parameters.chars().all(|char| matches!(char, '0'..='9' | ';' | ':')));
            assert!(parameters.split([';', ':']).all(|number| number.parse() != Ok(8)));
            is_plain = parameters == "0";
            shown.push_str(rest);
        }
        assert!(is_plain, "{line:?}");
        assert!(!shown.chars().any(|char| char.is_control() && char != '\t'));
    }
}

/// What is cleaned is clean, and stays as it is when it is cleaned again; what reads as a length or a size reads again as it is spelled.
pub(crate) fn text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let once = clean::clean(&text);
    assert!(!once.chars().any(char::is_control));
    assert_eq!(clean::clean(&once), once);
    assert!(!clean::clean_lines(&text).chars().any(|char| char.is_control() && char != '\n'));
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
        let json = clean::clean_json(&text);
        let again = serde_json::from_str::<serde_json::Value>(&json).ok();
        // A break between values is no part of any.
        assert!(again.is_none_or(|again| again == value));
    }
    for width in [0, 1, 2, 40] {
        assert!(clean::columns(&clean::cut(&once, width)) <= width.max(1));
    }
    if let Ok(ms) = duration::parse_ms(&text) {
        assert_eq!(duration::parse_ms(&duration::spell_ms(ms)), Ok(ms));
        let _ = (duration::show_ms(ms), duration::show_coarse(ms));
    }
    if let Ok(amount) = size::parse(&text) {
        assert_eq!(size::parse(&size::spell(amount)), Ok(amount));
        size::show(amount);
    }
    similar::nearest(&text, ["wall", "stall", "limits.output"]);
}
