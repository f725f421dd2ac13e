//! The environment and attributes of a job's process, as requests give them.

use std::collections::BTreeMap;

use lastword_api as api;
use lastword_engine::Env;
use lastword_proc::{Attributes, ResourceLimit};

use crate::failure::Failure;

/// Converts the environment of a request. Refuses variables that no process can have, and on a fleet all: they would be stored here, and the
/// jobs run elsewhere.
pub(super) fn environment(
    env: &BTreeMap<String, String>,
    attributes: Option<&api::Attributes>,
    is_fleet: bool,
) -> Result<Env, Failure> {
    if is_fleet && !env.is_empty() {
        return Err(Failure::invalid(
            "jobs of a fleet get no environment from here: name variables of the worker in `variables`",
        ));
    }
    let bad = env
        .iter()
        .find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'));
    if let Some((name, _)) = bad {
        let name: String = name.chars().take(64).flat_map(char::escape_default).collect();
        return Err(Failure::invalid(format!("`env`: `{name}` is not a valid variable")));
    }
    let variables = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let attributes = attributes.map(process_attributes).transpose()?.unwrap_or_default();
    Ok(Env { variables, attributes })
}

/// Converts umask, resource limits and nice value. Refuses values that no process can have.
fn process_attributes(asked: &api::Attributes) -> Result<Attributes, Failure> {
    let default = Attributes::default();
    let umask = asked.umask.unwrap_or(default.umask);
    if umask > 0o777 {
        return Err(Failure::invalid("`attributes`: `umask` may be at most 511 (0777)"));
    }
    if asked.nice.is_some_and(|nice| !(-20..=19).contains(&nice)) {
        return Err(Failure::invalid("`attributes`: `nice` must be between -20 and 19"));
    }
    let limit = |(name, limit): (&String, &api::ResourceLimit)| {
        if limit.soft.unwrap_or(u64::MAX) > limit.hard.unwrap_or(u64::MAX) {
            return Err(Failure::invalid("`attributes`: a soft limit exceeds its hard limit"));
        }
        ResourceLimit::new(name, limit.soft, limit.hard).ok_or_else(|| {
            Failure::invalid("`attributes`: `limits` names a resource that this system does not have")
        })
    };
    let limits = asked.limits.iter().map(limit).collect::<Result<_, _>>()?;
    Ok(Attributes { umask, nice: asked.nice, limits })
}
