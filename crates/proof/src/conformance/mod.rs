//! What every journal must do: one list of cases, run over every backend.
//!
//! A case is given a fresh, empty journal and panics when a promise is broken. Lives are ended by what the case does, never by
//! time. `tests/conformance.rs` makes a test of each case for each backend.

pub mod append;
pub mod catalog;
pub mod claim;
pub mod conversation;
pub mod ending;
pub mod feed;
pub mod fence;
pub mod groups;
pub mod hints;
pub mod idle;
pub mod instance;
pub mod keys;
pub mod list;
pub mod load;
pub mod renew;
pub mod repeat;
mod stage;
pub mod take_over;
pub mod waits;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lastword_store::Store;

/// Hands the list of all cases, by file, to a macro.
#[macro_export]
macro_rules! for_each_case {
    ($callback:ident) => {
        $callback! {
            append:
                c27_an_append_returns_the_version_the_journal_holds,
                c03_a_request_at_an_old_version_is_an_error_and_not_stored,
                c25_of_many_writers_at_one_version_exactly_one_wins,
                c26_row_and_events_agree_after_every_append,
                c26_a_reader_never_sees_half_an_append,
                c44_many_writers_adding_jobs_lose_none,
                c51_one_jobs_limit_leaves_other_jobs_alone,
                an_id_is_taken_once;
            repeat:
                c10_a_repeated_append_is_stored_once,
                c10_a_repeat_after_others_wrote_is_a_success,
                c10_a_repeat_after_a_takeover_is_a_success,
                c10_a_repeated_last_word_is_a_success,
                c10_one_append_sent_many_times_at_once_is_stored_once,
                one_append_id_may_be_used_once_in_each_job;
            fence:
                c34_a_write_by_another_owner_is_refused,
                c34_a_write_to_a_job_nobody_holds_is_refused,
                c35_a_write_of_an_earlier_claim_is_refused,
                c35_a_write_of_an_earlier_life_is_refused,
                c35_an_unwinding_owner_harms_nothing_of_its_successor,
                c42_a_refused_last_word_releases_nothing,
                a_write_under_another_instance_is_refused,
                a_repeat_under_another_instance_is_refused,
                a_request_that_was_read_in_another_instance_conflicts,
                a_late_owner_that_was_not_replaced_can_write,
                anyone_may_request_without_a_fence;
            ending:
                c04_a_job_cancelled_before_its_start_is_never_claimed,
                c08_a_cancelled_queued_job_is_ended_at_once,
                c23_a_second_last_word_is_refused,
                c23_owner_and_cancellers_race_to_one_last_word,
                c24_a_request_after_the_end_changes_nothing,
                c31_a_late_report_is_kept_and_changes_no_view,
                c31_a_late_report_carries_nothing_else_in,
                c64_an_ended_job_is_never_taken;
            claim:
                c27_a_claim_returns_the_log_the_journal_holds,
                c33_concurrent_claimers_never_share_a_job,
                c36_a_claim_starts_nothing,
                higher_priority_first_then_longer_due_then_older,
                a_job_is_claimed_from_its_due_time_on,
                a_job_that_waits_for_another_is_not_claimed,
                a_claim_takes_at_most_what_it_asked_for,
                a_claim_stays_in_its_queue,
                slots_bound_the_held_jobs_of_a_queue,
                slots_hold_when_many_claim_at_once,
                a_stored_group_binds_every_claim,
                slots_set_while_jobs_are_held_count_them,
                a_job_goes_to_an_owner_with_its_labels,
                lines_of_labels_come_in_the_order_of_their_first_jobs,
                what_can_be_claimed_is_told_by_line,
                a_takeover_asks_for_no_pause,
                a_job_given_back_or_tried_again_is_claimed_anew,
                a_job_that_becomes_ready_late_is_not_stranded,
                a_job_of_a_newer_build_is_skipped_and_holds_nobody_up,
                an_owner_that_never_registered_claims_nothing,
                an_owner_whose_life_is_over_claims_nothing,
                a_replaced_life_claims_nothing,
                an_owner_learns_what_it_holds,
                an_append_and_a_claim_in_one_call_are_two;
            idle:
                c93_an_idle_agent_has_no_slot_until_its_holder_claims_one,
                c93_idle_agents_do_not_count_whoever_holds_them,
                c93_slots_hold_when_many_idle_agents_are_sent_messages;
            conversation:
                one_conversation_is_driven_by_one_job,
                one_batch_takes_a_conversation_once,
                concurrent_claimers_never_share_a_conversation,
                a_conversation_the_agent_named_is_taken_too,
                jobs_that_share_a_conversation_are_all_taken_over,
                a_conversation_is_given_back_with_the_job,
                a_busy_conversation_holds_nobody_else_up;
            waits:
                c86_a_wait_lasts_until_its_job_is_told_or_ends,
                c86_a_wait_that_ends_with_its_submission_is_not_stored,
                c86_a_refused_append_changes_no_wait,
                c86_waits_that_are_over_are_found_with_the_outcome,
                c86_a_job_that_is_waited_for_is_not_removed,
                c86_an_end_and_a_wait_at_once_do_not_miss_each_other;
            take_over:
                c06_a_request_survives_a_takeover,
                c06_a_request_at_a_version_before_the_claim_is_not_lost,
                c33_of_many_reconcilers_exactly_one_takes_over,
                c34_a_job_of_a_live_owner_is_not_taken_over,
                c35_a_takeover_fences_the_old_owner,
                a_replaced_life_is_taken_over_at_once,
                a_replaced_life_keeps_its_trees_from_other_hosts,
                a_tree_that_is_alive_is_taken_over_where_it_is,
                a_takeover_asks_for_no_queue_and_no_slot,
                a_kept_job_stays_on_its_host,
                an_abandoned_job_is_taken_from_its_host,
                what_cannot_be_taken_over_holds_nobody_up;
            renew:
                c02_the_holder_learns_of_a_request_by_renewing,
                c02_news_last_until_the_holder_writes,
                news_are_for_the_holder_alone,
                c34_a_replaced_life_cannot_renew,
                c34_a_stranger_cannot_renew,
                every_life_is_a_new_one,
                lives_registered_at_once_are_all_different,
                a_renewal_is_a_beat,
                beats_are_the_instance_and_its_lives,
                renewals_at_once_are_answered_one_by_one,
                c102_a_life_is_ended_only_at_the_beat_that_was_seen,
                c38_a_life_that_was_ended_cannot_renew,
                c102_a_renewal_and_an_end_at_once_are_not_both_a_success,
                c102_a_name_has_one_place;
            instance:
                a_new_journal_does_not_pause,
                only_the_present_pause_can_be_ended;
            load:
                an_unknown_job_has_no_events,
                only_later_events_are_loaded,
                an_unknown_kind_comes_back_as_it_was,
                any_text_comes_back_as_it_was,
                a_large_fact_comes_back_whole;
            list:
                c62_a_list_begins_with_what_a_person_should_look_at,
                a_job_moves_in_a_list_only_when_its_state_changes,
                a_list_continues_as_it_was,
                lists_are_filtered_by_folder_parent_time_and_section;
            catalog:
                an_unknown_job_has_no_row,
                rows_come_newest_first_in_pages,
                rows_are_filtered_by_phase_and_group,
                rows_are_filtered_by_ending_name_and_label,
                a_page_is_filled_with_rows_that_pass,
                a_job_is_found_by_its_id_and_by_its_beginning,
                a_job_is_found_by_its_short_form,
                a_job_is_found_by_its_name_a_live_one_first,
                a_name_does_not_take_over_a_short_form,
                the_newest_job_is_found_as_the_last,
                what_means_many_shows_a_few,
                an_ended_job_is_removed_with_all_that_is_stored,
                c45_a_live_job_is_not_removed,
                c29_a_removal_leaves_the_feed_whole,
                c45_what_nobody_has_seen_is_not_pruned,
                jobs_are_counted_by_phase;
            groups:
                a_group_is_made_changed_and_removed,
                a_group_added_by_many_is_made_once,
                a_budget_is_kept_with_its_group,
                what_jobs_spend_is_counted_by_group_and_day,
                a_sum_that_is_too_large_stays_at_its_bound,
                a_budget_that_is_used_up_closes_its_group_for_the_day;
            keys:
                c10_a_key_is_given_to_one_job,
                c10_one_key_sent_many_times_at_once_is_given_once,
                c10_a_key_stands_as_long_as_its_job,
                c10_a_key_outlives_its_job,
                a_key_stands_for_a_week_and_is_swept;
            hints:
                a_commit_wakes_every_waiter;
            feed:
                c29_the_feed_tells_every_log_in_order,
                an_empty_feed_has_no_place,
                a_place_in_the_feed_can_be_resumed,
                the_end_of_the_feed_is_a_place_after_which_only_what_is_new_comes,
                a_foreign_place_in_the_feed_is_an_error,
                writers_at_work_hide_no_event_from_the_feed;
        }
    };
}

macro_rules! names {
    ($($file:ident: $($case:ident),*;)*) => {
        /// The names of all cases.
        pub const NAMES: &[&str] = &[$($(stringify!($case)),*),*];
    };
}
for_each_case!(names);

/// One case, by name.
pub struct Case<J> {
    /// What it shows.
    pub name: &'static str,
    /// Runs it on a fresh journal; panics when a promise is broken.
    pub run: fn(J) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Returns every case.
pub fn cases<J: Store>() -> Vec<Case<J>> {
    macro_rules! list {
        ($($file:ident: $($case:ident),*;)*) => {
            vec![$($(Case {
                name: stringify!($case),
                run: |journal| Box::pin($file::$case(journal)),
            },)*)*]
        };
    }
    for_each_case!(list)
}

/// A case that did not hold.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Which case.
    pub case: &'static str,
    /// What it said.
    pub why: String,
}

/// How long a case may take. Each is done in a few seconds on the slowest backend, and waits a minute at most for a
/// feed that lags; with a rule broken on purpose one may never end, and that counts as broken.
const CASE_MAX: Duration = Duration::from_secs(120);

/// Runs every case over a backend, each on a journal of its own, and returns those that did not hold.
///
/// `open` returns a fresh, empty journal, and a guard that outlives the case.
pub async fn run_all<J, G, F, Opening>(open: F) -> Vec<Broken>
where
    J: Store,
    F: Fn() -> Opening,
    Opening: Future<Output = (J, G)>,
{
    let mut broken = Vec::new();
    for case in cases::<J>() {
        let (journal, _guard) = open().await;
        // A task of its own turns the panic of a case into an answer.
        let mut running = tokio::spawn((case.run)(journal));
        let why = match tokio::time::timeout(CASE_MAX, &mut running).await {
            Ok(Ok(())) => continue,
            Ok(Err(panic)) => why(panic),
            Err(_) => {
                running.abort();
                format!("it did not end within {} s", CASE_MAX.as_secs())
            }
        };
        broken.push(Broken { case: case.name, why });
    }
    broken
}

fn why(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => {
                payload.downcast_ref::<&str>().map_or_else(String::new, |text| (*text).to_owned())
            }
        },
        Err(error) => error.to_string(),
    }
}
