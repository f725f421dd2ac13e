//! The OpenAPI document: generated from the handlers. A test compares it with the committed one, which is served.

use lastword_api::Problem;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Required, Response, ResponseBuilder};
use utoipa::{Modify, OpenApi, ToSchema as _};

use crate::{
    changes, conversations, daemon, events, groups, health, jobs, output, processes, progress, transcript,
    usage, workers,
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Lastword",
        description = "Runs and supervises commands and coding agents. Served on a private unix socket that only its user can \
                       reach. Every response that is not a success is a problem (RFC 9457) with a stable `code`.",
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
        jobs::seen,
        jobs::prune,
        jobs::set_limits,
        jobs::set_labels,
        jobs::send,
        jobs::answer_question,
        jobs::remove_rule,
        jobs::interrupt,
        jobs::resize,
        jobs::resume,
        conversations::list,
        conversations::show,
        conversations::remove,
        events::of_job,
        events::of_all,
        processes::list,
        changes::list,
        changes::patch,
        progress::report,
        output::read,
        transcript::of_job,
        output::result,
        usage::sums,
        groups::list,
        groups::set,
        groups::remove,
        workers::list,
        workers::invite,
        workers::remove,
        daemon::show,
        daemon::stop,
        health::live,
        health::ready,
        health::openapi,
    ),
    modifiers(&Problems, &OptionalBodies),
    tags(
        (name = "jobs", description = "Submit, show, list, stop, retry and remove jobs."),
        (name = "conversations", description = "Chains of jobs around one session of an agent."),
        (name = "events", description = "Events of one job or of all, in pages or as a stream."),
        (name = "output", description = "The output, the transcript and the result of a job."),
        (name = "groups", description = "Groups of jobs, which have slots."),
        (name = "fleet", description = "The workers of a server."),
        (name = "daemon", description = "The daemon."),
    ),
)]
struct Document;

/// Adds a problem as the default response of every operation, with its own media type.
struct Problems;

/// The media type of a problem.
const PROBLEM: &str = "application/problem+json";

impl Modify for Problems {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let schema = Ref::from_schema_name(Problem::name());
        let content = || ContentBuilder::new().schema(Some(schema.clone())).build();
        let any = "Any other failure.";
        let any = ResponseBuilder::new().description(any).content(PROBLEM, content()).build();
        let items = document.paths.paths.values_mut();
        let operations = items.flat_map(|item| {
            [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete]
        });
        for operation in operations.flatten() {
            for response in operation.responses.responses.values_mut() {
                if let RefOr::T(Response { content: media, .. }) = response
                    && media.get("application/json") == Some(&RefOr::T(content()))
                {
                    media.clear();
                    media.insert(PROBLEM.to_owned(), RefOr::T(content()));
                }
            }
            operation.responses.responses.insert("default".to_owned(), any.clone().into());
        }
    }
}

/// Says which bodies may be missing: `utoipa` calls every body required.
struct OptionalBodies;

/// The operations whose path says what to do.
const OPTIONAL: [&str; 2] = ["cancel_job", "interrupt_turn"];

impl Modify for OptionalBodies {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let operations = document.paths.paths.values_mut().filter_map(|item| item.post.as_mut());
        for operation in operations {
            if operation.operation_id.as_deref().is_some_and(|id| OPTIONAL.contains(&id))
                && let Some(RefOr::T(body)) = &mut operation.request_body
            {
                body.required = Some(Required::False);
            }
        }
    }
}

/// Returns the OpenAPI document of this build. It is committed as `docs/reference/openapi.json`.
pub fn openapi() -> String {
    let text = Document::openapi().to_pretty_json().unwrap_or_default();
    // `utoipa` spells the registered formats `uint32` and `uint64` in its own way.
    let mut text = text.replace("\"format\": \"u-int", "\"format\": \"uint");
    text.push('\n');
    text
}
