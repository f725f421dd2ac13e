//! Real agents with a scripted model: the model is the only thing that is not real.
//!
//! - [`known`]: which agents, and how they are set up.
//! - [`install`]: getting them, once, into a cache outside the repository.
//! - [`model`]: what they take for a model.
//! - [`apart`]: namespaces for a trial with them.
//! - [`session`]: a command beside agents that are ready to use.
//! - [`table`]: what they do under the product, behaviour by behaviour.

pub(crate) mod apart;
pub(crate) mod install;
pub(crate) mod known;
pub(crate) mod model;
pub(crate) mod session;
pub(crate) mod table;
