//! The id of this host: made once, in the state folder. The id of the machine is not enough, because images are cloned with it.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use lastword_api::Code;
use lastword_core::HostId;

use crate::failure::Failure;

/// The name of its file.
const FILE: &str = "host";

/// Returns the id of this host. A state folder with a journal of an earlier version keeps the id that it has used, which is `machine`.
pub(super) fn host_id(state: &Path, machine: impl FnOnce() -> String) -> Result<HostId, Failure> {
    let file = state.join(FILE);
    let failed = |error: io::Error| Failure::new(Code::Unavailable, format!("{}: {error}", file.display()));
    match fs::read_to_string(&file) {
        Ok(text) if !text.trim().is_empty() => return Ok(HostId(text.trim().into())),
        // A crash left it empty: nothing was stored under it.
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let is_older = state.join("journal.db").exists();
    let id = if is_older { machine() } else { random().map_err(failed)? };
    write(&file, &id).map_err(failed)?;
    Ok(HostId(id.into()))
}

fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::from)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes the file so that a crash leaves all of it or nothing, and no journal is written before it.
fn write(file: &Path, id: &str) -> io::Result<()> {
    let part = file.with_extension("part");
    let mut options = fs::OpenOptions::new();
    let mut written = options.write(true).create(true).truncate(true).mode(0o600).open(&part)?;
    io::Write::write_all(&mut written, format!("{id}\n").as_bytes())?;
    written.sync_all()?;
    fs::rename(&part, file)?;
    fs::File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_a_clone_of_the_machine_has_another() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let machine = || "machine".to_owned();
        let first = host_id(one.path(), machine).unwrap();
        assert_eq!(host_id(one.path(), machine).unwrap(), first);
        assert_ne!(host_id(two.path(), machine).unwrap(), first);
        assert_ne!(&*first.0, "machine");
    }

    #[test]
    fn a_journal_of_an_earlier_version_keeps_its_host() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("journal.db"), "").unwrap();
        let old = host_id(folder.path(), || "machine".to_owned()).unwrap();
        assert_eq!(&*old.0, "machine");
        assert_eq!(host_id(folder.path(), || "renamed".to_owned()).unwrap(), old);
    }
}
