//! The user that a job runs as, if it is another one than the keeper's. Only root can start a process as another user.

use std::ffi::OsString;
use std::path::PathBuf;

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// Its groups, its own first.
    pub groups: Vec<u32>,
    /// Its home folder.
    pub home: PathBuf,
    /// Its shell.
    pub shell: OsString,
}

impl User {
    /// Returns the user of a name, as the files of the machine have it; `None` if they have none.
    pub fn find(name: &str) -> Option<User> {
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        User::parse(name, &read("/etc/passwd"), &read("/etc/group"))
    }

    fn parse(name: &str, users: &str, groups: &str) -> Option<User> {
        let rows = |text: &'_ str| -> Vec<Vec<String>> {
            text.lines().map(|line| line.split(':').map(str::to_owned).collect()).collect()
        };
        let row = rows(users).into_iter().find(|row| row.len() >= 7 && row[0] == name)?;
        let (uid, gid) = (row[2].parse().ok()?, row[3].parse().ok()?);
        let has = |row: &Vec<String>| row.len() >= 4 && row[3].split(',').any(|member| member == name);
        let others = rows(groups).into_iter().filter(has).filter_map(|row| row[2].parse().ok());
        let groups = std::iter::once(gid).chain(others.filter(|other| *other != gid)).collect();
        Some(User {
            name: name.to_owned(),
            uid,
            groups,
            home: row[5].clone().into(),
            shell: row[6].clone().into(),
        })
    }

    /// Encodes its numbers for the keeper.
    pub(crate) fn ids(&self) -> Ids {
        Ids { uid: self.uid, groups: self.groups.clone() }
    }
}

/// The numbers of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    pub(crate) uid: u32,
    /// Its own first.
    pub(crate) groups: Vec<u32>,
}

impl From<&User> for Ids {
    fn from(user: &User) -> Ids {
        user.ids()
    }
}

impl Ids {
    pub(crate) fn encode(&self) -> String {
        let numbers = std::iter::once(&self.uid).chain(&self.groups);
        numbers.map(u32::to_string).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn decode(text: &str) -> Option<Ids> {
        let mut numbers = text.split(',').map(|number| number.parse::<u32>().ok());
        let uid = numbers.next()??;
        let groups = numbers.collect::<Option<Vec<u32>>>()?;
        (!groups.is_empty()).then_some(Ids { uid, groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_its_own_group_and_those_that_name_it() {
        let users = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:100:Ann,,,:/home/ann:/bin/sh\n";
        let groups = "users:x:100:\ndocker:x:7:bob,ann\nann2:x:8:anna\n";
        let ann = User::parse("ann", users, groups).unwrap();
        assert_eq!((ann.uid, &ann.groups[..], ann.home.to_str()), (1000, &[100, 7][..], Some("/home/ann")));
        assert_eq!(User::parse("bob", users, groups), None);
        assert_eq!(Ids::decode(&ann.ids().encode()), Some(ann.ids()));
        assert_eq!((Ids::decode("7"), Ids::decode(""), Ids::decode("7,x")), (None, None, None));
    }
}
