//! Views: what readers see of a job. Each is a fold of its log. The row is stored with the events; the others are made on read.

pub mod row;
pub mod session;
pub mod timeline;
pub mod usage;
