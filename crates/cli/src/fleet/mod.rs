//! A worker's place in a fleet: which servers it knows, and how they know it.

pub(crate) mod enrolment;
