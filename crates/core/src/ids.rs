//! Identifiers and times: job ids, sequence numbers, fences, timestamps.
//!
//! Clients make ids from a time and random bytes that they pass in.
//!
//! An *owner* is a daemon or worker that runs jobs. Each start of it is an *incarnation*. The owner that has a job is its *holder*, and an
//! owner that wants one is a *claimant*.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Crockford's base32 in lower case: no `i`, `l`, `o`, `u`, and it sorts like the number.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Characters of a UUID in base32: 128 bits, five at a time, rounded up.
const UUID_CHARS: usize = 26;

/// Characters of a cell number.
const CELL_CHARS: usize = 2;

/// The text every job id opens with.
const PREFIX: &str = "job_";

/// Characters of the short form of an id. It encodes the last 40 bits, which are random.
pub const SHORT_CHARS: usize = 8;

/// The number of cells: ten bits. A laptop is cell zero.
pub const CELLS_MAX: u16 = 1 << 10;

/// A job's id: a version 7 UUID whose `rand_a` field contains the cell.
///
/// The text form is `job_`, the cell in two characters, and the UUID in 26 (`job_00` + `06a3…`). It sorts by cell, then by creation
/// time. The UUID contains the cell too, so sixteen bytes are enough for a key, and a router needs no lookup.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Uuid);

impl JobId {
    /// Returns an id for `cell`, made at `at` from ten random bytes.
    ///
    /// # Panics
    /// If `cell` is not below [`CELLS_MAX`].
    pub fn new(cell: u16, at: Timestamp, random: [u8; 10]) -> JobId {
        assert!(cell < CELLS_MAX, "cell {cell} is out of range");
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&at.0.to_be_bytes()[2..]);
        // Version in the high nibble, then twelve bits: the cell and two random ones.
        let rand_a = (cell << 2) | u16::from(random[0] & 0b11);
        bytes[6] = 0x70 | (rand_a >> 8) as u8;
        bytes[7] = rand_a as u8;
        bytes[8] = 0x80 | (random[1] & 0x3f);
        bytes[9..].copy_from_slice(&random[2..9]);
        bytes[15] ^= random[9];
        JobId(Uuid::from_bytes(bytes))
    }

    /// Returns the sixteen bytes that a store uses as the key.
    pub fn as_uuid(self) -> Uuid {
        self.0
    }

    /// Converts a store's key back to an id; `None` if it is not a valid one.
    pub fn from_uuid(uuid: Uuid) -> Option<JobId> {
        let bytes = uuid.as_bytes();
        (bytes[6] >> 4 == 7 && bytes[8] >> 6 == 0b10).then_some(JobId(uuid))
    }

    /// Returns the cell of the job.
    pub fn cell(self) -> u16 {
        let bytes = self.0.as_bytes();
        ((u16::from(bytes[6] & 0x0f) << 8) | u16::from(bytes[7])) >> 2
    }

    /// Returns the short form that lists show: the last eight characters.
    pub fn short(self) -> String {
        let mut text = [0; SHORT_CHARS];
        encode(self.0.as_u128(), &mut text);
        text.iter().map(|byte| char::from(*byte)).collect()
    }

    /// Returns a job as a person calls it: by its name, if it has one, and its short id.
    pub fn called(self, name: Option<&str>) -> String {
        name.map_or_else(|| self.short(), |name| format!("{name} ({})", self.short()))
    }

    /// Returns the bits that the short form encodes.
    pub fn short_bits(self) -> u64 {
        (self.0.as_u128() & ((1 << SHORT_BITS) - 1)) as u64
    }

    /// Reports whether the id starts with this text, with or without `job_`.
    pub fn begins_with(self, text: &str) -> bool {
        let id = self.to_string();
        id[PREFIX.len()..].starts_with(text.strip_prefix(PREFIX).unwrap_or(text))
    }

    /// Returns when the id was made, by the client's clock.
    pub fn made_at(self) -> Timestamp {
        let mut ms = [0; 8];
        ms[2..].copy_from_slice(&self.0.as_bytes()[..6]);
        Timestamp(u64::from_be_bytes(ms))
    }
}

fn encode(mut number: u128, out: &mut [u8]) {
    for slot in out.iter_mut().rev() {
        *slot = ALPHABET[(number & 31) as usize];
        number >>= 5;
    }
}

fn decode(text: &[u8]) -> Option<u128> {
    text.iter().try_fold(0u128, |number, byte| {
        let digit = ALPHABET.iter().position(|known| known == byte)?;
        if number >> 123 != 0 {
            return None;
        }
        Some((number << 5) | digit as u128)
    })
}

/// Bits that the short form encodes.
const SHORT_BITS: usize = SHORT_CHARS * 5;

/// Returns the range of keys of ids with this prefix, given with or without `job_`; `None` if no id has it.
///
/// The range does not depend on the cell. A journal has jobs of one cell only, so [`JobId::begins_with`] then keeps all or none.
pub(crate) fn prefix_range(text: &str) -> Option<RangeInclusive<u128>> {
    let digits = text.strip_prefix(PREFIX).unwrap_or(text).as_bytes();
    if digits.is_empty() || digits.len() > CELL_CHARS + UUID_CHARS {
        return None;
    }
    let (cell, key) = digits.split_at(digits.len().min(CELL_CHARS));
    decode(cell)?;
    let first = decode(key)?;
    let missing = (UUID_CHARS - key.len()) * 5;
    // 26 characters encode two bits more than a key has.
    if key.first().is_some_and(|byte| *byte > b'7') {
        return None;
    }
    Some(match u32::try_from(missing) {
        Ok(missing @ 0..128) => first << missing..=(first << missing) | ((1 << missing) - 1),
        _ => 0..=u128::MAX,
    })
}

/// Returns the range of short bits whose short form has this prefix; `None` if there are none.
pub(crate) fn short_range(text: &str) -> Option<RangeInclusive<u64>> {
    let missing = SHORT_CHARS.checked_sub(text.len())? * 5;
    let first = (decode(text.as_bytes())? as u64) << missing;
    Some(first..=first | ((1 << missing) - 1))
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; CELL_CHARS + UUID_CHARS];
        encode(u128::from(self.cell()), &mut text[..CELL_CHARS]);
        encode(self.0.as_u128(), &mut text[CELL_CHARS..]);
        f.write_str(PREFIX)?;
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a job id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a job id: expected `job_` and 28 characters of 0-9 and a-z without i, l, o, u")]
pub struct NotAJobId(String);

impl FromStr for JobId {
    type Err = NotAJobId;

    fn from_str(text: &str) -> Result<JobId, NotAJobId> {
        let read = || {
            let digits = text.strip_prefix(PREFIX)?.as_bytes();
            if digits.len() != CELL_CHARS + UUID_CHARS {
                return None;
            }
            let cell = decode(&digits[..CELL_CHARS])?;
            let id = JobId::from_uuid(Uuid::from_u128(decode(&digits[CELL_CHARS..])?))?;
            (u128::from(id.cell()) == cell).then_some(id)
        };
        // Bound the echo of a longer text.
        read().ok_or_else(|| NotAJobId(text.chars().take(64).collect()))
    }
}

impl Serialize for JobId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<JobId, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// Returns the number after this one.
            pub fn next(self) -> $name {
                $name(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// The position of an event in its job's log, from one, without gaps. A job's version is the number of its newest event; zero means
    /// that the log is empty.
    Seq(u64)
}
number! {
    /// The number of a claim of a job, from one.
    Epoch(u32)
}
number! {
    /// The number of an attempt of a job, from one.
    AttemptNo(u32)
}
number! {
    /// The number of a turn of a job, from one, counted over all attempts.
    TurnNo(u32)
}
number! {
    /// The number of an input of a job, from one, by which repeats are recognised.
    InputNo(u32)
}

/// A time by the wall clock, in milliseconds since 1970. For users and for due times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the time `ms` milliseconds later.
    pub fn plus_ms(self, ms: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(ms))
    }
}

/// A time by the host's awake clock, in milliseconds since boot without suspends.
///
/// Limits use it. Two values can be compared only within one boot of one host, which no process tree outlives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Awake(pub u64);

impl Awake {
    /// Returns the time `ms` milliseconds later.
    pub fn plus_ms(self, ms: u64) -> Awake {
        Awake(self.0.saturating_add(ms))
    }
}

/// A time by the host's boot clock, in milliseconds since boot including suspends.
///
/// Leases use it: they run out while the lid is closed. Two values can be compared only within one boot of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootTime(pub u64);

impl BootTime {
    /// Returns the time `ms` milliseconds later.
    pub fn plus_ms(self, ms: u64) -> BootTime {
        BootTime(self.0.saturating_add(ms))
    }
}

/// The current time by both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The wall clock.
    pub wall: Timestamp,
    /// The awake clock of this host.
    pub awake: Awake,
}

/// The name of an owner, which stays the same over its restarts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnerId(pub Arc<str>);

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a host, on which process trees can be seen and signalled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostId(pub Arc<str>);

/// An incarnation of an owner: one start of it. The journal issues a new one at each registration, and never the same twice.
///
/// `instance` identifies the database. A restored or cloned one has another instance, so that older incarnations are not valid there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// The database that issued it.
    pub instance: u64,
    /// Counts up within the instance.
    pub number: u64,
}

impl Incarnation {
    /// Returns the sixteen bytes that a store keeps.
    pub fn as_u128(self) -> u128 {
        (u128::from(self.instance) << 64) | u128::from(self.number)
    }

    /// Converts back from [`Incarnation::as_u128`].
    pub fn from_u128(number: u128) -> Incarnation {
        Incarnation { instance: (number >> 64) as u64, number: number as u64 }
    }
}

/// What an owner's write to a job is checked against: its incarnation and its claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// The owner.
    pub owner: OwnerId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its claim of the job.
    pub epoch: Epoch,
}

/// Identifies an append. The writer makes it, so that it can repeat an append whose reply was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppendId(pub u128);

/// The namespace of the ids of owners' appends.
const APPENDS: Uuid = Uuid::from_u128(0x6c61_7374_776f_7264_6170_7065_6e64_0001);

impl AppendId {
    /// Returns the id of an owner's `n`th append under `fence`. It is unique without randomness: a digest of all that names the claim.
    ///
    /// Instance and owner are part of it. After a failover that lost the last writes, the database gives the same number to another life,
    /// and an append of the one must not be taken for a repeat of the other's.
    pub fn of_owner(fence: &Fence, n: u32) -> AppendId {
        let mut name = fence.incarnation.as_u128().to_be_bytes().to_vec();
        name.extend(fence.epoch.0.to_be_bytes());
        name.extend(n.to_be_bytes());
        name.extend(fence.owner.0.as_bytes());
        AppendId(Uuid::new_v5(&APPENDS, &name).as_u128())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: [u8; 10] = [0xff, 0xff, 1, 2, 3, 4, 5, 6, 7, 8];

    #[test]
    fn text_form_is_fixed_and_reads_back() {
        let id = JobId::new(3, Timestamp(1_794_700_800_000), RANDOM);
        assert_eq!(id.to_string(), "job_0301m7e81w00e07vy0820c20a1gf");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!((id.short().as_str(), id.short_bits()), ("0c20a1gf", 0x3_0405_060f));
        assert_eq!(id.cell(), 3);
        assert_eq!(id.made_at(), Timestamp(1_794_700_800_000));
        assert_eq!(JobId::from_uuid(id.as_uuid()), Some(id));
    }

    #[test]
    fn every_cell_and_time_reads_back() {
        for cell in [0, 1, 31, 32, CELLS_MAX - 1] {
            for ms in [0, 1, (1 << 48) - 1] {
                let id = JobId::new(cell, Timestamp(ms), RANDOM);
                assert_eq!((id.cell(), id.made_at()), (cell, Timestamp(ms)));
                assert_eq!(id.to_string().parse(), Ok(id));
            }
        }
    }

    #[test]
    fn appends_of_two_claims_have_different_ids() {
        let fence = Fence {
            owner: OwnerId("ann".into()),
            incarnation: Incarnation { instance: 7, number: 2 },
            epoch: Epoch(1),
        };
        let life = |instance, number| Incarnation { instance, number };
        let others = [
            Fence { owner: OwnerId("bob".into()), ..fence.clone() },
            Fence { incarnation: life(8, 2), ..fence.clone() },
            Fence { incarnation: life(7, 3), ..fence.clone() },
            Fence { epoch: Epoch(2), ..fence.clone() },
        ];
        let id = AppendId::of_owner(&fence, 1);
        assert_eq!(AppendId::of_owner(&fence, 1), id);
        assert_ne!(AppendId::of_owner(&fence, 2), id);
        for other in &others {
            assert_ne!(AppendId::of_owner(other, 1), id, "{other:?}");
        }
    }

    #[test]
    fn ids_sort_by_the_time_they_were_made() {
        let early = JobId::new(0, Timestamp(5), [0xff; 10]);
        let late = JobId::new(0, Timestamp(6), [0; 10]);
        assert!(early < late && early.to_string() < late.to_string());
    }

    #[test]
    fn invalid_texts_are_refused() {
        let good = JobId::new(0, Timestamp(1), RANDOM).to_string();
        let other_cell = good.replacen("job_00", "job_01", 1);
        let upper = good.to_uppercase();
        for text in
            ["", "job_", "job_00", "../etc/passwd", &good[4..], &other_cell, &upper, &format!("{good}0")]
        {
            assert!(text.parse::<JobId>().is_err(), "{text}");
        }
        let too_big = format!("job_00{}", "z".repeat(26));
        assert!(too_big.parse::<JobId>().is_err());
    }

    #[test]
    fn an_incarnation_reads_back() {
        let incarnation = Incarnation { instance: 7, number: u64::MAX };
        assert_eq!(Incarnation::from_u128(incarnation.as_u128()), incarnation);
    }
}
