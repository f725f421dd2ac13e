//! Applying changes while the user saves files of the checkout.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]
#![expect(clippy::disallowed_methods, reason = "the tests run git as a user would")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastword_git::{ApplyRefusal, Git, Plan, View};

fn git(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(words).current_dir(folder).env("HOME", folder).env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Ann").env(format!("GIT_{role}_EMAIL"), "ann@example.org");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A checkout, and a folder in which a job changed `a` and `z`, deleted `b` and `old/c`, made `new/d`, and a file of the folder `turned`.
struct Place {
    folder: tempfile::TempDir,
    view: View,
    git: Git,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let (top, work) = (folder.path().join("top"), folder.path().join("work"));
        for place in [&top, &work] {
            std::fs::create_dir_all(place.join("old")).unwrap();
            std::fs::create_dir_all(place.join("turned")).unwrap();
        }
        for file in ["a", "b", "old/c", "turned/t", "z"] {
            std::fs::write(top.join(file), format!("{file}\n")).unwrap();
        }
        git(&top, &["init", "--quiet", "--initial-branch=main"]);
        git(&top, &["add", "--all"]);
        git(&top, &["commit", "--quiet", "--message", "first"]);
        for file in ["a", "z", "new/d", "turned"] {
            let _ = std::fs::remove_dir(work.join(file));
            std::fs::create_dir_all(work.join(file).parent().unwrap()).unwrap();
            std::fs::write(work.join(file), format!("{file} of the job\n")).unwrap();
        }
        let (base, tool) = (git(&top, &["rev-parse", "HEAD"]), Git::new(std::env::vars_os()));
        let view = View::open(&tool, &top.join(".git"), &work, &base, "none").unwrap().unwrap();
        Place { folder, view, git: tool }
    }

    fn top(&self) -> PathBuf {
        self.folder.path().join("top")
    }

    fn plan(&self) -> Plan<'_> {
        Plan::make(&self.view, &self.git, &self.top()).unwrap().unwrap()
    }

    /// Returns every file of the checkout, and what is left in its git directory of an apply.
    fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.top()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().map(Result::unwrap) {
                let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
                let is_left = name.starts_with(".lastword");
                if folder.ends_with(".git") && !is_left {
                    continue;
                }
                match entry.file_type().unwrap().is_dir() && !is_left {
                    true => folders.push(path),
                    false => {
                        let name = path.strip_prefix(self.top()).unwrap().display().to_string();
                        drop(files.insert(name, std::fs::read_to_string(&path).unwrap_or_default()));
                    }
                }
            }
        }
        files
    }
}

#[test]
fn changes_are_applied_and_nothing_else_is_left() {
    let place = Place::new();
    let plan = place.plan();
    assert_eq!(plan.count(), 7);
    assert_eq!(plan.apply().unwrap(), Ok(()));
    let expected =
        ["a", "new/d", "turned", "z"].map(|file| (file.to_owned(), format!("{file} of the job\n")));
    assert_eq!(place.files(), BTreeMap::from(expected));
    assert!(!place.top().join("old").exists());
    drop(plan);
    assert_eq!(place.plan().count(), 0);
}

/// Whatever is saved between the look and the write stays, and so does every other file.
#[test]
fn a_file_that_is_saved_meanwhile_is_not_overwritten() {
    type Save = fn(&Path);
    let saves: [(&str, Save); 9] = [
        ("a", |top| std::fs::write(top.join("a"), "a\nmine\n").unwrap()),
        // As many bytes as before.
        ("a", |top| std::fs::write(top.join("a"), "A\n").unwrap()),
        ("a", |top| std::fs::remove_file(top.join("a")).unwrap()),
        ("z", |top| {
            std::fs::write(top.join("draft"), "z\n").unwrap();
            std::fs::rename(top.join("draft"), top.join("z")).unwrap();
        }),
        ("b", |top| std::fs::write(top.join("b"), "mine\n").unwrap()),
        ("old/c", |top| std::fs::write(top.join("old/c"), "mine\n").unwrap()),
        ("new/d", |top| {
            std::fs::create_dir(top.join("new")).unwrap();
            std::fs::write(top.join("new/d"), "mine\n").unwrap();
        }),
        ("a", |top| {
            std::fs::remove_file(top.join("a")).unwrap();
            std::fs::create_dir(top.join("a")).unwrap();
            std::fs::write(top.join("a/mine"), "mine\n").unwrap();
        }),
        ("turned/t", |top| std::fs::write(top.join("turned/t"), "mine\n").unwrap()),
    ];
    for (n, (file, save)) in saves.into_iter().enumerate() {
        let place = Place::new();
        let plan = place.plan();
        save(&place.top());
        let saved = place.files();
        let refused = plan.apply().unwrap();
        assert_eq!(refused, Err(ApplyRefusal::Saved(vec![file.into()])), "save {n}");
        assert_eq!(place.files(), saved, "save {n}");
    }
}
