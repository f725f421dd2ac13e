//! What a job changed in its worktree: the files, and the patch.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse as _;
use lastword_api::{self as api, Changes, Code, Problem, Worktree};
use lastword_core::JobId;
use lastword_engine::{FileChange, PatchPart};
use lastword_store::Store;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::extract::Query;
use crate::failure::{Failure, Reply};
use crate::jobs::view;
use crate::principal::Principal;

/// Files in a response.
const FILES_MAX: usize = 2_000;

/// The default size of a part of a patch in bytes, and the largest.
const LIMIT_DEFAULT: usize = 64 << 10;
const LIMIT_MAX: usize = 256 << 10;

/// Returns the files that a job changed in its worktree.
///
/// Works while the job runs. The jobs of a conversation share a worktree, and what all of them changed.
#[utoipa::path(
    get, operation_id = "job_changes", path = "/v1/jobs/{ref}/changes", tag = "output",
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`.")),
    responses(
        (status = 200, description = "The files.", body = Changes),
        (status = 400, description = "The job has no worktree.", body = Problem),
        (status = 503, description = "Git cannot say what was changed.", body = Problem),
    ),
)]
pub(crate) async fn list<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(reference): Path<String>,
) -> Reply {
    let (owner, worktree) = find(&app, &principal, &reference).await?;
    let changes = app.engine().changes(owner).await?;
    let sum = |lines: fn(&FileChange) -> Option<u64>| changes.files.iter().filter_map(lines).sum();
    Ok(Json(Changes {
        base: worktree.base,
        branch: worktree.branch,
        added: sum(|file| file.added),
        deleted: sum(|file| file.deleted),
        more: changes.files.len().saturating_sub(FILES_MAX) as u64,
        files: changes.files.iter().take(FILES_MAX).map(file).collect(),
        left_out: changes.left_out,
    })
    .into_response())
}

/// Which part of the patch to return.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PatchQuery {
    /// Only the changes of this file, by its path in the worktree.
    path: Option<String>,
    /// The offset of the first byte.
    offset: Option<u64>,
    /// The number of bytes; at most 256 KiB.
    #[param(minimum = 1, maximum = 262_144)]
    limit: Option<usize>,
}

/// Reads the patch of what a job changed in its worktree, as `git apply` takes it.
///
/// The body has the bytes. `Lastword-Offset` is their offset, `Lastword-Next` the offset to continue at, and `Lastword-Size` the size of the
/// whole patch. Each part is of the worktree as it is then: a patch that is read in parts while the job runs may not fit together.
#[utoipa::path(
    get, operation_id = "job_patch", path = "/v1/jobs/{ref}/diff", tag = "output",
    params(("ref" = String, Path, description = "An id or a prefix of one, a name, or `@last`."), PatchQuery),
    responses(
        (status = 200, description = "Bytes of the patch.", content_type = "application/octet-stream"),
        (status = 400, description = "The job has no worktree.", body = Problem),
        (status = 404, description = "The job, or the change of that file, does not exist.", body = Problem),
        (status = 503, description = "Git cannot say what was changed.", body = Problem),
    ),
)]
pub(crate) async fn patch<J: Store>(
    State(app): State<App<J>>,
    principal: Principal,
    Path(reference): Path<String>,
    Query(query): Query<PatchQuery>,
) -> Reply {
    let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Failure::invalid(format!("`limit` must be between 1 and {LIMIT_MAX}")));
    }
    let (owner, _) = find(&app, &principal, &reference).await?;
    let offset = query.offset.unwrap_or(0);
    let part = PatchPart { path: query.path.clone().map(Into::into), offset, limit };
    let Some(piece) = app.engine().patch(owner, part).await? else {
        let path: String = query.path.unwrap_or_default().chars().take(200).collect();
        return Err(Problem::new(Code::NotFound, format!("no change of `{path}` in this worktree")).into());
    };
    let next = offset + piece.bytes.len() as u64;
    let headers = [
        ("lastword-offset", HeaderValue::from(offset)),
        ("lastword-next", HeaderValue::from(next)),
        ("lastword-size", HeaderValue::from(piece.size)),
    ];
    let mut response = (headers, piece.bytes).into_response();
    let bytes = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, bytes);
    Ok(response)
}

/// Returns the worktree that a job runs in, and the job that it was made for.
async fn find<J: Store>(
    app: &App<J>,
    principal: &Principal,
    reference: &str,
) -> Result<(JobId, Worktree), Failure> {
    let id = principal.find(app, reference).await?;
    let job = app.engine().job(id).await?;
    let worktree = view(app, &job).await?.worktree.ok_or_else(|| {
        let called = job.value.called();
        Failure::invalid(format!("{called} was not run with a worktree, so its changes are unknown"))
    })?;
    Ok((worktree.job.parse().unwrap_or(id), *worktree))
}

fn file(file: &FileChange) -> api::FileChange {
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    api::FileChange {
        path: text(&file.path),
        from: file.from.as_deref().map(text),
        kind: file.kind.as_str().to_owned(),
        added: file.added,
        deleted: file.deleted,
        is_repository: file.is_repository,
    }
}
