//! Pages: a piece of a longer list, and where the next one begins.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Event;

/// A piece of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// What is in it.
    pub items: Vec<T>,
    /// Pass it as `cursor` to get the next piece; absent at the end.
    pub next_cursor: Option<String>,
    /// Whether something has just died and its end could not be recorded yet: ask again.
    #[serde(default)]
    pub unsettled: bool,
}

impl<T> Page<T> {
    /// Returns a list that has no next piece.
    pub fn whole(items: Vec<T>) -> Page<T> {
        Page { items, next_cursor: None, unsettled: false }
    }
}

/// A piece of the feed over all jobs. It has no end: what happens later comes after its cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Feed {
    /// Events, per job in order.
    pub items: Vec<Event>,
    /// Pass it as `cursor` to go on; absent while nothing was ever written.
    pub next_cursor: Option<String>,
}
