//! The tests of `e2e` and `survival` that are not run on a link, each with its reason. `cargo xtask e2e --store link` runs all others.

/// Tests of worktrees. `e2e/fleet.rs` has the words that refuse one.
const WORKTREES: &str = "a fleet refuses --worktree for now";

/// Tests of what a job has from its caller. `e2e/fleet.rs` shows that nothing reaches a server.
const NOT_PASSED_ON: &str =
    "a job of a fleet has folder, environment, umask and limits of its worker, not of its caller";

/// Tests of how a daemon is started, stopped and replaced. `e2e/fleet.rs` has what commands do without a server.
const DAEMON: &str = "it is about a daemon, which commands start and replace; a server has a supervisor";

/// Tests of the journal's file.
const FILE: &str = "it is about the file of a laptop's journal; that of a fleet is a database";

/// Tests of the rights of a process inside a job.
const UNKNOWN_JOBS: &str = "a server does not know which processes of its host are jobs of a worker";

/// A test, or with `::` at its end a module, of a test binary; and why it is not run on a link.
pub(crate) const NOT_ON_A_LINK: &[(&str, &str, &str)] = &[
    ("e2e", "agents::an_agent_cannot_answer_its_own_questions", UNKNOWN_JOBS),
    ("e2e", "attributes::", NOT_PASSED_ON),
    ("e2e", "changes::", WORKTREES),
    ("e2e", "chosen::variables_come_from_a_file_and_never_from_an_argument", "a fleet refuses --env-file"),
    ("e2e", "control::a_retry_has_the_current_environment", NOT_PASSED_ON),
    ("e2e", "daemon::a_daemon_does_not_inherit_loader_variables_from_its_client", DAEMON),
    ("e2e", "daemon::a_daemon_starts_automatically_and_reports_its_status", DAEMON),
    ("e2e", "daemon::a_daemon_that_always_dies_is_not_restarted_forever", DAEMON),
    ("e2e", "daemon::a_restart_does_not_disturb_running_commands", DAEMON),
    ("e2e", "daemon::a_stopped_daemon_leaves_its_jobs_running_or_cancels_them", DAEMON),
    ("e2e", "daemon::one_signal_stops_a_daemon_and_two_cancel_its_jobs", DAEMON),
    ("e2e", "daemon::settings_can_be_overridden_for_one_daemon", DAEMON),
    ("e2e", "daemon::the_first_command_shows_why_a_daemon_cannot_start", DAEMON),
    ("e2e", "doctor::a_damaged_journal_is_detected_with_and_without_a_daemon_and_not_changed", FILE),
    ("e2e", "doctor::a_hanging_daemon_is_detected_and_the_remedy_works", DAEMON),
    ("e2e", "doctor::doctor_does_not_disturb_a_running_daemon", FILE),
    (
        "e2e",
        "documents::every_verb_prints_json_in_one_shape",
        "among its verbs are those of worktrees, and those that start a daemon",
    ),
    ("e2e", "fleet::the_daemon_of_a_laptop_has_no_fleet", DAEMON),
    (
        "e2e",
        "follow::a_feed_is_told_that_the_daemon_stops_and_its_jobs_were_cancelled",
        "a server that stops cancels no jobs, and refuses to",
    ),
    ("e2e", "misuse::variables_that_are_not_utf8_are_reported", NOT_PASSED_ON),
    ("e2e", "profiles::a_profile_can_ask_for_worktrees_and_an_option_for_none", WORKTREES),
    (
        "e2e",
        "profiles::a_variable_that_a_profile_needs_must_be_set",
        "on a fleet it is the worker that has it or not, and then fails the launch",
    ),
    ("e2e", "repositories::", WORKTREES),
    ("e2e", "run::a_job_runs_in_the_folder_and_environment_of_its_submitter", NOT_PASSED_ON),
    ("e2e", "settings::c55_a_setting_that_the_running_daemon_does_not_have_is_reported", DAEMON),
    ("e2e", "strangers::a_client_retries_when_the_daemon_has_too_many_connections", DAEMON),
    (
        "e2e",
        "waiting::a_running_job_says_since_when_it_is_silent",
        "a server does not know when a job of a worker wrote last",
    ),
    ("e2e", "worktree::", WORKTREES),
    ("survival", "daemon::", DAEMON),
    ("survival", "disk::", FILE),
    ("survival", "inside::", UNKNOWN_JOBS),
    ("survival", "places::", DAEMON),
    ("survival", "reboot::", "it is about the boots of a laptop, with its daemon"),
    ("survival", "worktree::", WORKTREES),
];
