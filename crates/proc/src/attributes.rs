//! What a process inherits besides its environment: umask, resource limits and nice value.
//!
//! A job gets those of the command that submitted it, not of the daemon that runs it. An unprivileged process can lower a hard limit and
//! raise its nice value, but not the reverse; attributes that cannot be set are reported.

use rustix::fs::Mode;
use rustix::process::{
    Resource, Rlimit, getpriority_process, getrlimit, setpriority_process, setrlimit, umask,
};

/// All resource limits, by their names in `prlimit`. Records contain the names, and reports one bit each: append only.
pub(crate) const RESOURCES: [(&str, Resource); 16] = [
    ("as", Resource::As),
    ("core", Resource::Core),
    ("cpu", Resource::Cpu),
    ("data", Resource::Data),
    ("fsize", Resource::Fsize),
    ("locks", Resource::Locks),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("rss", Resource::Rss),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
    ("sigpending", Resource::Sigpending),
    ("stack", Resource::Stack),
];

/// The umask of a job whose client names none, whatever the daemon's is.
const UMASK_DEFAULT: u32 = 0o022;

/// Inherited attributes of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The bits that new files do not get.
    pub umask: u32,
    /// The nice value; the daemon's if `None`.
    pub nice: Option<i32>,
    /// Resource limits; those not listed are the daemon's.
    pub limits: Vec<ResourceLimit>,
}

/// A resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceLimit {
    /// Its index in `RESOURCES`.
    index: usize,
    limit: Rlimit,
}

/// The attributes that could not be set: one bit per resource whose hard limit could not be raised, and one for the nice value.
pub(crate) type Withheld = u32;

/// The bit of the nice value.
const NICE: Withheld = 1 << RESOURCES.len();

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes { umask: UMASK_DEFAULT, nice: None, limits: Vec::new() }
    }
}

impl ResourceLimit {
    /// Returns the limit of a resource, where `None` means unlimited; `None` if there is no resource of that name.
    pub fn new(name: &str, soft: Option<u64>, hard: Option<u64>) -> Option<ResourceLimit> {
        let index = RESOURCES.iter().position(|(known, _)| *known == name)?;
        Some(ResourceLimit { index, limit: Rlimit { current: soft, maximum: hard } })
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        RESOURCES[self.index].0
    }

    /// Returns the soft limit; `None` means unlimited.
    pub fn soft(&self) -> Option<u64> {
        self.limit.current
    }

    /// Returns the hard limit; `None` means unlimited.
    pub fn hard(&self) -> Option<u64> {
        self.limit.maximum
    }

    fn resource(&self) -> Resource {
        RESOURCES[self.index].1
    }
}

impl Attributes {
    /// Returns those of this process. Only for single-threaded processes: the umask changes for a moment.
    pub fn own() -> Attributes {
        let mask = umask(Mode::RWXG | Mode::RWXO);
        umask(mask);
        let limit = |(index, (_, resource)): (usize, &(&str, Resource))| ResourceLimit {
            index,
            limit: getrlimit(*resource),
        };
        Attributes {
            umask: mask.bits(),
            nice: getpriority_process(None).ok(),
            limits: RESOURCES.iter().enumerate().map(limit).collect(),
        }
    }

    /// Encodes them without an equals sign, so that the text can be the value of a variable.
    pub fn encode(&self) -> String {
        let umask = format!("umask {}", self.umask);
        let nice = self.nice.map(|nice| format!("priority {nice}"));
        let limits = self.limits.iter().map(|limit| format!("{} {}", limit.name(), spell(limit.limit)));
        [umask].into_iter().chain(nice).chain(limits).collect::<Vec<String>>().join(",")
    }

    /// Decodes them. Skips what this version does not know.
    pub fn decode(text: &str) -> Attributes {
        let mut attributes = Attributes::default();
        for (name, value) in text.split(',').filter_map(|pair| pair.split_once(' ')) {
            match name {
                "umask" => attributes.umask = value.parse().unwrap_or(UMASK_DEFAULT),
                "priority" => attributes.nice = value.parse().ok(),
                _ => attributes.limits.extend(limit(name, value)),
            }
        }
        attributes
    }

    /// Raises what must be raised in this process, and returns what could not be. Lowers nothing, so that the rest of the preparation is
    /// not restricted.
    pub(crate) fn raise(&self) -> Withheld {
        let mut withheld = 0;
        for limit in &self.limits {
            let now = getrlimit(limit.resource());
            let more = Rlimit { maximum: limit.hard(), ..now };
            if is_more(limit.hard(), now.maximum) && setrlimit(limit.resource(), more).is_err() {
                withheld |= 1 << limit.index;
            }
        }
        if let Some(nice) = self.nice
            && setpriority_process(None, nice).is_err()
        {
            withheld |= NICE;
        }
        withheld
    }

    /// Applies them to this process, as far as they could be raised. Called last: memory or descriptors may be short afterwards.
    pub(crate) fn apply(&self) {
        for limit in &self.limits {
            let _ = setrlimit(limit.resource(), within(limit.limit, getrlimit(limit.resource()).maximum));
        }
        umask(Mode::from_raw_mode(self.umask));
    }

    /// Describes what could not be set, and what the child has instead.
    pub(crate) fn describe(&self, withheld: Withheld) -> Option<String> {
        let limits = self.limits.iter().filter(|limit| withheld & 1 << limit.index != 0).map(|limit| {
            let has = within(limit.limit, getrlimit(limit.resource()).maximum);
            format!("{} {} (has {})", limit.name(), spell(limit.limit), spell(has))
        });
        let nice = self.nice.filter(|_| withheld & NICE != 0).map(|nice| {
            let has = getpriority_process(None).map_or_else(|_| "?".to_owned(), |nice| nice.to_string());
            format!("nice {nice} (has {has})")
        });
        let all: Vec<String> = limits.chain(nice).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// Reports whether one limit allows more than another.
pub(crate) fn is_more(one: Option<u64>, other: Option<u64>) -> bool {
    one.unwrap_or(u64::MAX) > other.unwrap_or(u64::MAX)
}

/// Caps a limit at a hard limit.
fn within(limit: Rlimit, hard: Option<u64>) -> Rlimit {
    let cut = |value: Option<u64>| if is_more(value, hard) { hard } else { value };
    Rlimit { current: cut(limit.current), maximum: cut(limit.maximum) }
}

/// Spells a limit as `soft:hard`.
fn spell(limit: Rlimit) -> String {
    let one = |value: Option<u64>| value.map_or_else(|| "unlimited".to_owned(), |value| value.to_string());
    format!("{}:{}", one(limit.current), one(limit.maximum))
}

fn limit(name: &str, value: &str) -> Option<ResourceLimit> {
    let (soft, hard) = value.split_once(':')?;
    ResourceLimit::new(name, number(soft)?, number(hard)?)
}

fn number(text: &str) -> Option<Option<u64>> {
    match text {
        "unlimited" => Some(None),
        text => text.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_round_trip() {
        let limits = vec![
            ResourceLimit::new("core", Some(0), None).unwrap(),
            ResourceLimit::new("nofile", Some(256), Some(4096)).unwrap(),
        ];
        for sent in [
            Attributes { umask: 0o027, nice: Some(-5), limits },
            Attributes { umask: 0, nice: None, limits: Vec::new() },
            Attributes::own(),
        ] {
            assert_eq!(Attributes::decode(&sent.encode()), sent);
        }
        assert_eq!(ResourceLimit::new("moon", None, None), None);
        assert_eq!(Attributes::decode("moon 1:2,nofile x:1,something else"), Attributes::default());
    }

    #[test]
    fn a_limit_is_capped_at_the_hard_limit() {
        for (soft, hard, most, given) in [
            (Some(5), Some(9), Some(9), (Some(5), Some(9))),
            (Some(5), Some(9), Some(7), (Some(5), Some(7))),
            (None, None, Some(7), (Some(7), Some(7))),
            (Some(8), None, None, (Some(8), None)),
        ] {
            let cut = within(Rlimit { current: soft, maximum: hard }, most);
            assert_eq!((cut.current, cut.maximum), given, "{soft:?}:{hard:?} within {most:?}");
        }
    }

    #[test]
    fn attributes_that_could_not_be_set_are_named() {
        let limits = vec![ResourceLimit::new("nofile", Some(10), None).unwrap()];
        let attributes = Attributes { umask: 0, nice: Some(-20), limits };
        assert_eq!(attributes.describe(0), None);
        let text = attributes.describe(NICE | 1 << 9).unwrap();
        assert!(
            text.starts_with("nofile 10:unlimited (has 10:") && text.contains(", nice -20 (has "),
            "{text}"
        );
    }
}
