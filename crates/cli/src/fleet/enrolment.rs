//! The enrolment of a worker: its name, the token that proves it, and the servers that accept it. One file in the state folder, readable by
//! its owner alone.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use lastword_api::Code;
use lastword_link::{Fingerprint, Remote, Timing, Trust};
use lastword_store::Said;
use serde::{Deserialize, Serialize};

use crate::daemon::names::host_name;
use crate::failure::Failure;
use crate::paths;

/// The name of its file.
const FILE: &str = "enrolment.json";

/// What a worker knows of its fleet.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Enrolment {
    /// The name of the worker, which is the owner of what it claims.
    pub(crate) name: String,
    /// Proves the name to every server of the fleet.
    pub(crate) token: String,
    /// Servers of one fleet. Any of them will do.
    pub(crate) servers: Vec<KnownServer>,
}

/// A server that a worker accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KnownServer {
    /// `host:port`.
    pub(crate) address: String,
    /// Its certificate.
    #[serde(with = "fingerprint")]
    pub(crate) fingerprint: Fingerprint,
}

/// The token is left out: what is printed for debugging ends up in logs.
impl fmt::Debug for Enrolment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enrolment").field("name", &self.name).field("servers", &self.servers).finish()
    }
}

impl Enrolment {
    /// Reads the enrolment in a state folder; `None` before there is one.
    pub(crate) fn load(state: &Path) -> Result<Option<Enrolment>, Failure> {
        let file = path(state);
        let failed = |why: &dyn fmt::Display| {
            Failure::new(Code::Unavailable, format!("cannot read {}: {why}", file.display()))
        };
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        if fs::metadata(&file).map_err(|error| failed(&error))?.mode() & 0o077 != 0 {
            let words = format!("other users can read the token in {}", file.display());
            return Err(Failure::new(Code::Forbidden, words).next(format!("chmod 600 {}", file.display())));
        }
        match serde_json::from_slice(&text) {
            Ok(enrolment) => Ok(Some(enrolment)),
            // Not the error of the parser, which may quote the token.
            Err(_) => Err(failed(&"it is no enrolment").next("delete it and enrol this worker again")),
        }
    }

    /// Writes the enrolment into a private state folder. A crash leaves the earlier file or the new one.
    pub(crate) fn store(&self, state: &Path) -> Result<(), Failure> {
        paths::make_private(state)?;
        let file = path(state);
        let written = serde_json::to_vec_pretty(self).map_err(io::Error::from).and_then(|mut text| {
            text.push(b'\n');
            write(&file, &text)
        });
        written.map_err(|error| {
            Failure::new(Code::Unavailable, format!("cannot write {}: {error}", file.display()))
        })
    }

    /// Remembers a server, in place of what was known of the same address.
    pub(crate) fn add_server(&mut self, server: KnownServer) {
        self.servers.retain(|known| known.address != server.address);
        self.servers.push(server);
    }

    /// Returns where a link of this worker goes, which runs `slots` jobs at once.
    pub(crate) fn remote(&self, slots: u32) -> Remote {
        Remote {
            servers: self.servers.iter().map(|server| server.address.clone()).collect(),
            trust: Trust::Fingerprints(self.servers.iter().map(|server| server.fingerprint).collect()),
            token: self.token.clone(),
            said: Said {
                version: Some(lastword_api::VERSION.to_owned()),
                slots: Some(slots),
                host: Some(host_name()),
            },
            timing: Timing::default(),
        }
    }
}

/// Returns the file of an enrolment.
pub(crate) fn path(state: &Path) -> PathBuf {
    state.join(FILE)
}

fn write(file: &Path, text: &[u8]) -> io::Result<()> {
    let part = file.with_extension("json.part");
    // An earlier part may have other permissions, which opening it would keep.
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut written = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    written.write_all(text)?;
    written.sync_all()?;
    fs::rename(&part, file)?;
    fs::File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// A fingerprint as text.
mod fingerprint {
    use lastword_link::Fingerprint;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(fingerprint: &Fingerprint, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(fingerprint)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Fingerprint, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn server(address: &str, digit: &str) -> KnownServer {
        KnownServer { address: address.to_owned(), fingerprint: digit.repeat(64).parse().unwrap() }
    }

    fn ann() -> Enrolment {
        Enrolment {
            name: "ann".to_owned(),
            token: "secret".to_owned(),
            servers: vec![server("one:7777", "1")],
        }
    }

    #[test]
    fn it_is_private_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        assert_eq!(Enrolment::load(&state).unwrap(), None);
        ann().store(&state).unwrap();
        assert_eq!(Enrolment::load(&state).unwrap(), Some(ann()));
        assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(path(&state)).unwrap().mode() & 0o777, 0o600);
        let text = fs::read_to_string(path(&state)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["servers"][0]["fingerprint"], "1".repeat(64));
        assert!(!format!("{:?}", ann()).contains("secret"));
    }

    #[test]
    fn a_file_that_others_can_read_and_one_that_is_none_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        ann().store(&state).unwrap();
        fs::set_permissions(path(&state), fs::Permissions::from_mode(0o640)).unwrap();
        let refused = Enrolment::load(&state).unwrap_err();
        assert!(refused.text().contains("chmod 600"), "{}", refused.text());
        // Writing it again mends that.
        ann().store(&state).unwrap();
        Enrolment::load(&state).unwrap();
        fs::write(path(&state), r#"{"token":"secret"}"#).unwrap();
        let refused = Enrolment::load(&state).unwrap_err();
        assert!(refused.text().contains("enrol this worker again"), "{}", refused.text());
        assert!(!refused.text().contains("secret"));
    }

    #[test]
    fn a_server_that_has_another_certificate_now_replaces_the_earlier_one() {
        let mut enrolment = ann();
        enrolment.add_server(server("two:7777", "2"));
        enrolment.add_server(server("one:7777", "3"));
        assert_eq!(enrolment.servers, [server("two:7777", "2"), server("one:7777", "3")]);
    }
}
