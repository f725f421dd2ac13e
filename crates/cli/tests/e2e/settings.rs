//! Settings: shown, changed, and rejected by name.

use crate::home::{Home, run_command};
use crate::plain::plain_text;

#[test]
fn settings_are_shown_with_their_origins() {
    let home = Home::new();
    home.ok(&["config", "set", "slots", "3"]);
    home.ok(&["config", "set", "limits.wall", "1h30m"]);
    let mut command = home.command(&["config", "show"]);
    command.env("LASTWORD_GRACE", "7s");
    insta::assert_snapshot!("config_show", plain_text(&home, &run_command(command).stdout));
    assert_eq!(home.ok(&["config", "get", "limits.wall"]), "1h30m");
    assert_eq!(home.json(&["config", "get", "limits.wall"]), 5_400_000);
    assert_eq!(home.ok(&["config", "path"]), home.state().join("config.toml").display().to_string());
    let items = home.json(&["config", "show"])["items"].clone();
    assert_eq!(items[0]["key"], "slots");
    assert_eq!(items[0]["value"], 3);
}

#[test]
fn c55_an_invalid_setting_makes_the_first_command_fail_and_is_named() {
    let home = Home::new();
    std::fs::create_dir(home.state()).unwrap();
    for (text, name) in [
        ("slots = -1", "`slots`"),
        ("slotz = 1", "did you mean `slots`"),
        ("[limits]\nwall = \"soon\"", "`limits.wall`"),
    ] {
        std::fs::write(home.state().join("config.toml"), text).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(home.state(), std::fs::Permissions::from_mode(0o700)).unwrap();
        for words in [&["ls"][..], &["run", "true"], &["daemon", "run"], &["config", "show"]] {
            let output = home.run(words);
            assert_eq!(output.code, 125, "{words:?}: {output:?}");
            assert!(
                output.stderr.contains(name) && output.stderr.contains("config.toml"),
                "{words:?}: {output:?}"
            );
            assert_eq!(output.stdout, "");
        }
        assert!(!home.state().join("journal.db").exists(), "nothing was started");
    }
    std::fs::remove_file(home.state().join("config.toml")).unwrap();
    let mut command = home.command(&["ls"]);
    command.env("LASTWORD_SLOTS", "lots");
    let refused = run_command(command);
    assert!(refused.code == 125 && refused.stderr.contains("LASTWORD_SLOTS"), "{refused:?}");
}

#[test]
fn an_invalid_value_is_not_written() {
    let home = Home::new();
    for (key, value) in [("slots", "-1"), ("grace", "soon"), ("limits.output", "1.5M"), ("log_level", "loud")]
    {
        let output = home.run(&["config", "set", key, value]);
        assert!(output.code == 125 && output.stderr.contains(key), "{output:?}");
    }
    let output = home.run(&["config", "set", "limit.wall", "1h"]);
    assert!(output.stderr.contains("did you mean `limits.wall`"), "{output:?}");
    assert!(!home.state().join("config.toml").exists());
}
