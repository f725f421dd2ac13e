//! Views: what readers see of a job. Each is a fold of its log. The row is stored in the same write as the events; the
//! others are made of the log when it is read.

pub mod row;
pub mod session;
pub mod timeline;
pub mod usage;
