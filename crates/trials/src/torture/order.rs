//! The words between the judge and the driver, one line each. The judge is root and outside; the driver is
//! under test, and inside.

use std::path::PathBuf;
use std::time::Duration;

use lastword_core::receipt::Level;

/// Levels by the names they have on the command line.
pub(crate) const LEVELS: [(&str, Level); 4] = [
    ("subreaper", Level::Subreaper),
    ("landlock", Level::Landlock),
    ("cgroup", Level::Cgroup),
    ("namespace", Level::Namespace),
];

/// Returns the name of a level.
pub(crate) fn name_of(level: Level) -> &'static str {
    LEVELS.iter().find(|(_, known)| *known == level).map_or("none", |(name, _)| name)
}

/// Returns the level of a name.
pub(crate) fn level_of(name: &str) -> Result<Level, String> {
    let known = LEVELS.iter().find(|(known, _)| *known == name);
    known.map(|(_, level)| *level).ok_or_else(|| format!("there is no level `{name}`"))
}

/// Which keeper process is killed with -9 at the moment of the stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// Neither.
    None,
    /// The shim, instead of a stop: the guard must end the tree.
    Shim,
    /// The guard, just before the stop: the shim must do without.
    Guard,
}

impl Victim {
    const NAMES: [(&'static str, Victim); 3] =
        [("none", Victim::None), ("shim", Victim::Shim), ("guard", Victim::Guard)];

    pub(crate) fn named(name: &str) -> Result<Victim, String> {
        let known = Victim::NAMES.iter().find(|(known, _)| *known == name);
        known
            .map(|(_, victim)| *victim)
            .ok_or_else(|| format!("`{name}` is no part of a keeper: shim, guard"))
    }

    pub(crate) fn name(self) -> &'static str {
        Victim::NAMES.iter().find(|(_, victim)| *victim == self).map_or("", |(name, _)| name)
    }
}

/// One trial, as the driver is told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// The attempt's folder, to be made.
    pub(crate) folder: PathBuf,
    pub(crate) adversary: String,
    pub(crate) canary: PathBuf,
    /// What the adversary gets to escape with.
    pub(crate) outside: Option<PathBuf>,
    pub(crate) level: Level,
    /// How long after the launch to stop it. Zero: as soon as the keeper listens.
    pub(crate) moment: Duration,
    pub(crate) victim: Victim,
}

impl Order {
    /// Writes it as a line. Paths here are of our own making and have no blanks.
    pub(crate) fn to_line(&self) -> String {
        format!(
            "{} {} {} {} {} {} {}",
            self.folder.display(),
            self.adversary,
            self.canary.display(),
            self.outside.as_ref().map_or("-".into(), |path| path.display().to_string()),
            name_of(self.level),
            self.moment.as_nanos(),
            self.victim.name()
        )
    }

    /// Reads a line.
    pub(crate) fn from_line(line: &str) -> Result<Order, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[folder, adversary, canary, outside, level, moment, victim] = words.as_slice() else {
            return Err(format!("`{line}` is no order"));
        };
        Ok(Order {
            folder: folder.into(),
            adversary: adversary.into(),
            canary: canary.into(),
            outside: (outside != "-").then(|| outside.into()),
            level: level_of(level)?,
            moment: Duration::from_nanos(moment.parse().map_err(|_| format!("`{moment}` is no time"))?),
            victim: Victim::named(victim)?,
        })
    }
}

/// What the driver did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// When the stop was sent, on the boot clock. `None`: the tree had ended by itself before.
    pub(crate) sent_ns: Option<u64>,
    /// Guard and shim, which may still be there for as long as they take to exit.
    pub(crate) keepers: Vec<i32>,
    /// What did not go as it must.
    pub(crate) trouble: Option<String>,
}

impl Done {
    /// Writes it as a line.
    pub(crate) fn to_line(&self) -> String {
        let sent = self.sent_ns.map_or("-".into(), |at| at.to_string());
        let keepers: Vec<String> = self.keepers.iter().map(i32::to_string).collect();
        let trouble = self.trouble.as_deref().unwrap_or_default().replace('\n', " ");
        format!("{sent} {} {trouble}", if keepers.is_empty() { "-".into() } else { keepers.join(",") })
    }

    /// Reads a line.
    pub(crate) fn from_line(line: &str) -> Result<Done, String> {
        let mut words = line.trim_end().splitn(3, ' ');
        let (Some(sent), Some(keepers)) = (words.next(), words.next()) else {
            return Err(format!("the driver said `{line}`"));
        };
        let trouble = words.next().filter(|trouble| !trouble.is_empty()).map(str::to_owned);
        Ok(Done {
            sent_ns: sent.parse().ok(),
            keepers: keepers.split(',').filter_map(|pid| pid.parse().ok()).collect(),
            trouble,
        })
    }
}

/// What is tried: it claims to be able to end a tree.
pub(crate) trait Tried {
    /// Returns the number of the process that must stay, and the names of the levels that can be asked for.
    fn greeting(&self) -> String;

    /// Launches, waits for the moment, stops, and returns when the stop was heard.
    fn try_one(&self, order: &Order) -> Result<Done, String>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_read_what_the_other_wrote() {
        let order = Order {
            folder: "/tmp/a".into(),
            adversary: "storm".into(),
            canary: "/tmp/b".into(),
            outside: None,
            level: Level::Cgroup,
            moment: Duration::from_micros(200),
            victim: Victim::Shim,
        };
        assert_eq!(Order::from_line(&order.to_line()), Ok(order.clone()));
        let order = Order { outside: Some("/tmp/c".into()), ..order };
        assert_eq!(Order::from_line(&order.to_line()), Ok(order));
        for done in [
            Done::default(),
            Done { sent_ns: Some(7), keepers: vec![1, 2], trouble: None },
            Done { sent_ns: None, keepers: vec![3], trouble: Some("no exec: gone".into()) },
        ] {
            assert_eq!(Done::from_line(&done.to_line()), Ok(done));
        }
    }
}
