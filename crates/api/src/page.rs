//! Pages of lists.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Event;

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Pass it as `cursor` to get the next page; absent on the last page.
    pub next_cursor: Option<String>,
    /// Whether the tree of a job has ended but its end could not be recorded yet: ask again.
    #[serde(default)]
    pub unsettled: bool,
}

impl<T> Page<T> {
    /// Returns a list of a single page.
    pub fn whole(items: Vec<T>) -> Page<T> {
        Page { items, next_cursor: None, unsettled: false }
    }
}

/// A page of the feed over all jobs. The feed has no last page: later events follow its cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Feed {
    /// Events, in order per job.
    pub items: Vec<Event>,
    /// Pass it as `cursor` to continue; absent while there are no events at all.
    pub next_cursor: Option<String>,
}
