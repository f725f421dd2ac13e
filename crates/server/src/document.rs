//! The OpenAPI document: made from the handlers, committed, compared by a test, and served as it was committed.

use lastword_api::Problem;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{Modify, OpenApi, ToSchema as _};

use crate::{daemon, events, groups, jobs, output, router};

/// The document as it was committed. Served as it is: making it anew would cost the idle daemon memory for nothing.
pub(crate) const COMMITTED: &str = include_str!("../../../docs/reference/openapi.json");

/// What there is.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Lastword",
        description = "Runs commands and coding agents, and tells the truth about them. On a private unix socket; whoever can \
                       reach it is the user. Every answer that is not a success is a problem by RFC 9457 with a stable `code`.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
        contact(),
    ),
    paths(
        jobs::submit,
        jobs::list,
        jobs::show,
        jobs::remove,
        jobs::cancel,
        jobs::cancel_many,
        jobs::retry,
        jobs::abandon,
        jobs::prune,
        jobs::set_limits,
        jobs::send,
        jobs::answer_question,
        jobs::interrupt,
        jobs::resume,
        events::of_job,
        events::of_all,
        output::read,
        output::result,
        groups::list,
        groups::set,
        groups::remove,
        daemon::show,
        daemon::stop,
        router::live,
        router::ready,
        router::openapi,
    ),
    modifiers(&Problems),
    tags(
        (name = "jobs", description = "Jobs: asked for, shown, stopped, tried again, removed."),
        (name = "events", description = "Events of one job or of all, by pages or as a stream."),
        (name = "output", description = "What a job wrote, and what came of it."),
        (name = "groups", description = "Groups, which have slots."),
        (name = "daemon", description = "The daemon itself."),
    ),
)]
struct Document;

/// Problems have a media type of their own, and any call may be answered with one.
struct Problems;

/// The media type of a problem.
const PROBLEM: &str = "application/problem+json";

impl Modify for Problems {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let schema = Ref::from_schema_name(Problem::name());
        let content = || ContentBuilder::new().schema(Some(schema.clone())).build();
        let any = "Anything else that is not a success.";
        let any = ResponseBuilder::new().description(any).content(PROBLEM, content()).build();
        let items = document.paths.paths.values_mut();
        let operations = items.flat_map(|item| {
            [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete]
        });
        for operation in operations.flatten() {
            for response in operation.responses.responses.values_mut() {
                if let RefOr::T(Response { content: said, .. }) = response
                    && said.get("application/json") == Some(&RefOr::T(content()))
                {
                    said.clear();
                    said.insert(PROBLEM.to_owned(), RefOr::T(content()));
                }
            }
            operation.responses.responses.insert("default".to_owned(), any.clone().into());
        }
    }
}

/// Returns the OpenAPI document of this build, as it is committed at `docs/reference/openapi.json`.
pub fn openapi() -> String {
    let mut text = Document::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}
