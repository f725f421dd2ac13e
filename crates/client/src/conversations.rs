//! Requests about conversations.

use hyper::Method;
use lastword_api::{Conversation, ConversationInFull, Page};

use crate::call::{Call, Query, conversation_path};

/// Which conversations a list has.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Of this name.
    pub name: Option<String>,
    /// Whose newest job is in this group.
    pub group: Option<String>,
    /// Whose newest job has this label, as `name=value`.
    pub label: Option<String>,
    /// Begun from this directory or below it.
    pub cwd: Option<String>,
    /// At most this many.
    pub limit: Option<u32>,
    /// After the page that returned this cursor.
    pub cursor: Option<String>,
}

/// Lists conversations, each by its newest job.
pub fn list(filter: &Filter) -> Call<Page<Conversation>> {
    let query = Query::default()
        .with("name", filter.name.as_ref())
        .with("group", filter.group.as_ref())
        .with("label", filter.label.as_ref())
        .with("cwd", filter.cwd.as_ref())
        .with("limit", filter.limit)
        .with("cursor", filter.cursor.as_ref());
    Call::get(query.after("/v1/conversations"))
}

/// Shows the conversation of a job.
pub fn show(reference: &str) -> Call<ConversationInFull> {
    Call::get(conversation_path(reference))
}

/// Removes the conversation of a job; with `unsaved` also if its worktree holds work that was not applied.
pub fn remove(reference: &str, unsaved: bool) -> Call<()> {
    let query = Query::default().with("unsaved", unsaved.then_some(true));
    Call::new(Method::DELETE, query.after(&conversation_path(reference)))
}
