//! The numbers of the promises, and which of them must be proven.

use std::ops::RangeInclusive;

/// The number of a promise: 16 for C16.
pub(super) type PromiseId = u16;

/// Every promise there is.
pub(super) const PROMISES: RangeInclusive<PromiseId> = 1..=102;

/// The promises that one machine must keep by itself. The others need a second host, or conversations.
pub(super) const REQUIRED: &[RangeInclusive<PromiseId>] = &[1..=90, 94..=94, 101..=102];

/// The promises that hosts keep together: a test with two workers or more must show each.
pub(super) const REQUIRED_ACROSS_HOSTS: &[RangeInclusive<PromiseId>] =
    &[2..=3, 33..=39, 42..=42, 61..=61, 63..=63, 101..=102];

/// The promises about turns that a real agent must show. C73 is about a moment between two looks of the owner, which no test from outside
/// can hit.
pub(super) const REQUIRED_OF_AGENTS: &[RangeInclusive<PromiseId>] =
    &[56..=58, 68..=72, 74..=82, 88..=90, 94..=94];
