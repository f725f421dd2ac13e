//! A disk that keeps what was synced and, of the rest, whatever it likes.
//!
//! The journal's records lie on it as frames: length, checksum, payload. A crash keeps the synced bytes and a part of
//! the others, cut anywhere and perhaps with a wrong byte. Reading stops at the first frame that is not whole.

use std::sync::Arc;

use lastword_core::event::Stored;
use lastword_core::life::{Life, Place};
use lastword_core::view::row::Row;
use lastword_core::{
    Append, AppendId, Epoch, Event, Fact, Fence, Incarnation, Job, JobId, OwnerId, Seq, Timestamp,
};
use lastword_store::memory::Record;

use crate::random::Random;
use crate::schedules::fnv;

/// Bytes before the payload: its length and its checksum.
const HEADER: usize = 4 + 8;

const APPEND: u8 = 1;
const LIFE: u8 = 2;
const LIFE_OVER: u8 = 3;

/// The bytes of the log.
#[derive(Default)]
pub(super) struct Disk {
    bytes: Vec<u8>,
    synced: usize,
}

impl Disk {
    /// Writes one record, and returns the checksum of its frame. Volatile until the next sync.
    pub(super) fn write(&mut self, record: &Record) -> u64 {
        let start = self.bytes.len();
        self.bytes.extend([0; HEADER]);
        match record {
            Record::Append(append) => put_append(&mut self.bytes, append),
            Record::Life(life) => put_life(&mut self.bytes, life),
            Record::LifeOver(life) => {
                self.bytes.push(LIFE_OVER);
                put_incarnation(&mut self.bytes, *life);
            }
        }
        let payload = start + HEADER;
        let sum = fnv(&self.bytes[payload..]);
        let length = (self.bytes.len() - payload) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.bytes[start + 4..payload].copy_from_slice(&sum.to_le_bytes());
        sum
    }

    /// Makes everything durable.
    pub(super) fn sync(&mut self) {
        self.synced = self.bytes.len();
    }

    /// Loses power: of what was not synced a part stays, if `torn` cut in the middle or with a wrong byte.
    pub(super) fn crash(&mut self, random: &mut Random, torn: bool) {
        let loose = self.bytes.len() - self.synced;
        if loose == 0 {
            return;
        }
        let kept = if torn { random.below(loose as u64 + 1) as usize } else { 0 };
        self.bytes.truncate(self.synced + kept);
        if torn && kept > 0 && random.chance(40) {
            let at = self.synced + random.below(kept as u64) as usize;
            self.bytes[at] ^= 1 << random.below(8);
        }
    }

    /// Loses the last records, synced or not: another disk takes over that did not get them. The first one stays.
    pub(super) fn lose_last(&mut self, count: usize) {
        let (mut ends, mut at) = (Vec::new(), 0);
        while let Some((_, end)) = self.frame(at) {
            ends.push(end);
            at = end;
        }
        let kept = ends.len().saturating_sub(count).max(1);
        if let Some(end) = ends.get(kept - 1) {
            self.bytes.truncate(*end);
        }
    }

    /// Reads the log from its beginning, and cuts off what is not whole.
    pub(super) fn read(&mut self) -> Vec<Record> {
        let (mut records, mut at) = (Vec::new(), 0);
        while let Some((record, end)) = self.frame(at) {
            records.push(record);
            at = end;
        }
        self.bytes.truncate(at);
        self.synced = at;
        records
    }

    fn frame(&self, at: usize) -> Option<(Record, usize)> {
        let mut header = Reader(self.bytes.get(at..)?);
        let length = header.number::<4>()? as usize;
        let sum = header.number::<8>()? as u64;
        let rest = &self.bytes[at + HEADER..];
        let payload = rest.get(..length).filter(|payload| fnv(payload) == sum)?;
        Some((Reader(payload).record()?, at + HEADER + length))
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_incarnation(out: &mut Vec<u8>, incarnation: Incarnation) {
    out.extend(incarnation.as_u128().to_le_bytes());
}

fn put_life(out: &mut Vec<u8>, life: &Life) {
    out.push(LIFE);
    put_incarnation(out, life.incarnation);
    for text in [&life.owner.0, &life.place.host.0, &life.place.boot] {
        put_text(out, text);
    }
    out.extend(life.beat.to_le_bytes());
    out.extend(life.lease_ms.to_le_bytes());
}

fn put_append(out: &mut Vec<u8>, append: &Append) {
    out.push(APPEND);
    out.extend(append.job.as_uuid().as_bytes());
    out.extend(append.expected.0.to_le_bytes());
    out.extend(append.id.0.to_le_bytes());
    out.extend(append.at.0.to_le_bytes());
    out.push(u8::from(append.fence.is_some()));
    if let Some(fence) = &append.fence {
        put_text(out, &fence.owner.0);
        put_incarnation(out, fence.incarnation);
        out.extend(fence.epoch.0.to_le_bytes());
    }
    out.extend((append.events.len() as u16).to_le_bytes());
    for event in &append.events {
        let stored = event.fact.encode();
        out.extend(event.seq.0.to_le_bytes());
        put_text(out, &stored.kind);
        out.extend(stored.version.to_le_bytes());
        put_text(out, &stored.body);
    }
}

/// Reads a payload from its front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn number<const N: usize>(&mut self) -> Option<u128> {
        let mut bytes = [0; 16];
        bytes[..N].copy_from_slice(self.take(N)?);
        Some(u128::from_le_bytes(bytes))
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number::<4>()? as usize;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    fn record(mut self) -> Option<Record> {
        match self.number::<1>()? as u8 {
            LIFE => Some(Record::Life(Life {
                incarnation: Incarnation::from_u128(self.number::<16>()?),
                owner: OwnerId(Arc::from(self.text()?)),
                place: Place::new(&self.text()?, &self.text()?),
                beat: self.number::<8>()? as u64,
                lease_ms: self.number::<8>()? as u64,
            })),
            LIFE_OVER => Some(Record::LifeOver(Incarnation::from_u128(self.number::<16>()?))),
            APPEND => self.append().map(|append| Record::Append(Box::new(append))),
            _ => None,
        }
    }

    fn append(&mut self) -> Option<Append> {
        let mut uuid = [0; 16];
        uuid.copy_from_slice(self.take(16)?);
        let job = JobId::from_uuid(uuid::Uuid::from_bytes(uuid))?;
        let expected = Seq(self.number::<8>()? as u64);
        let id = AppendId(self.number::<16>()?);
        let at = Timestamp(self.number::<8>()? as u64);
        let fence = match self.number::<1>()? {
            0 => None,
            _ => Some(Fence {
                owner: OwnerId(Arc::from(self.text()?)),
                incarnation: Incarnation::from_u128(self.number::<16>()?),
                epoch: Epoch(self.number::<4>()? as u32),
            }),
        };
        let count = self.number::<2>()?;
        let mut events = Vec::with_capacity(count.min(64) as usize);
        for _ in 0..count {
            events.push(self.event(at)?);
        }
        // The row is not on this disk: it is the fold of the events, and the replay makes it.
        Some(Append { job, expected, fence, read_in: None, id, at, events, row: blank_row(job) })
    }

    fn event(&mut self, at: Timestamp) -> Option<Event> {
        let seq = Seq(self.number::<8>()? as u64);
        let kind = self.text()?;
        let version = self.number::<2>()? as u16;
        let body = self.text()?;
        let fact = Fact::decode(Stored { kind, version, body }).ok()?;
        Some(Event { seq, at, fact })
    }
}

/// Returns a row that stands for none until the fold has made the real one.
fn blank_row(job: JobId) -> Row {
    let mut unborn = Job::unborn(job);
    unborn.spec = Some(super::plan::blank_spec());
    unborn.phase = lastword_core::Phase::Launching;
    Row::of(&unborn)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Record {
        let incarnation = Incarnation { instance: 1, number: 7 };
        Record::Life(Life {
            owner: OwnerId(Arc::from(name)),
            incarnation,
            place: Place::new("h", "b"),
            beat: 9,
            lease_ms: 5,
        })
    }

    fn names(records: &[Record]) -> Vec<String> {
        let name = |record: &Record| match record {
            Record::Life(life) => life.owner.to_string(),
            Record::Append(append) => append.job.to_string(),
            Record::LifeOver(life) => life.number.to_string(),
        };
        records.iter().map(name).collect()
    }

    #[test]
    fn what_was_synced_survives_every_crash_and_nothing_is_half_read() {
        for seed in 0..500 {
            let mut disk = Disk::default();
            disk.write(&owner("first"));
            disk.write(&owner("second"));
            disk.sync();
            disk.write(&owner("third"));
            disk.write(&owner("fourth"));
            disk.crash(&mut Random::new(seed), seed % 2 == 0);
            let read = names(&disk.read());
            assert!(read.len() >= 2, "{read:?}");
            assert_eq!(read, ["first", "second", "third", "fourth"][..read.len()]);
            disk.write(&owner("fifth"));
            assert_eq!(names(&disk.read()).last().map(String::as_str), Some("fifth"));
        }
    }
}
