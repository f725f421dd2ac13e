//! Views: what readers see of a job. Each is a fold of its log, made in the same write as the events.

pub mod row;
