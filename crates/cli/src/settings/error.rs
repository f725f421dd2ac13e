//! Why a setting is invalid, and where its value came from.

use std::path::PathBuf;

/// Why settings cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingsError {
    /// There is no such setting.
    #[error("{at}: there is no setting `{name}`{hint}")]
    Unknown { at: Origin, name: String, hint: String },
    /// The value is invalid.
    #[error("{at}: setting `{name}`: {why}")]
    Malformed { at: Origin, name: &'static str, why: String },
    /// The file is not valid TOML.
    #[error("{0}")]
    NotToml(String),
    /// The file cannot be read or written.
    #[error("{path}: {error}", path = path.display())]
    File { path: PathBuf, error: String },
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// A line of a file.
    File(PathBuf, usize),
    /// A variable.
    Environment(String),
    Flag,
    /// An argument of `config`.
    Config,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path, line) => write!(f, "{}:{line}", path.display()),
            Origin::Environment(name) => write!(f, "environment ({name})"),
            Origin::Flag => f.write_str("--set"),
            Origin::Config => f.write_str("config"),
        }
    }
}
