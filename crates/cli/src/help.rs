//! The first screen of help: the commands by what they are for, in the order of use.

use clap::Command;

/// Every command that is shown, in its group.
pub(crate) const GROUPS: [(&str, &[&str]); 9] = [
    ("Start and watch", &["run", "ls", "show", "attach", "logs", "events", "wait", "result", "seen"]),
    ("Answer and steer", &["question", "answer", "approve", "deny", "rule", "send", "interrupt", "limit"]),
    ("Stop and run again", &["cancel", "kill", "retry", "resume", "conversation", "abandon"]),
    ("Worktrees", &["diff", "apply"]),
    ("From inside a job", &["progress"]),
    ("Order and clean up", &["label", "group", "usage", "rm", "prune"]),
    ("Daemon and settings", &["daemon", "doctor", "config", "trust", "prices"]),
    ("Fleet", &["serve", "worker", "fleet"]),
    ("Help", &["help", "man", "completion", "version"]),
];

/// Columns of a command's name.
pub(crate) const NAME_COLUMNS: usize = 12;

/// Columns of help on a wider terminal: longer lines are hard to read.
pub(crate) const WIDTH_MAX: usize = 100;

/// Returns the program with its commands in groups; clap would show them as one list.
pub(crate) fn grouped(program: Command) -> Command {
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}{{after-help}}",
        commands(&program),
        options(&program)
    );
    program.help_template(template)
}

/// Returns the commands of all groups, each with what it says about itself.
fn commands(program: &Command) -> String {
    let style = program.get_styles();
    let (header, literal) = (style.get_header(), style.get_literal());
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{header}{title}:{header:#}\n"));
        for verb in names.iter().filter_map(|name| program.find_subcommand(name)) {
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {literal}{:<NAME_COLUMNS$}{literal:#}  {about}\n", verb.get_name()));
        }
        text.push('\n');
    }
    text
}

/// Returns the options of the program: those that it would have without commands.
fn options(program: &Command) -> String {
    let bare = Command::new("lastword").version(lastword_api::VERSION).max_term_width(WIDTH_MAX);
    let bare = bare.disable_help_flag(true).disable_version_flag(true);
    let mut bare = bare.args(program.get_arguments().cloned()).help_template("{all-args}");
    bare.render_help().ansi().to_string().trim_end().to_owned()
}
