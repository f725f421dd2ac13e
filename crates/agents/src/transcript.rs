//! The transcript of an agent or a command: what it says and does as items, the same for every dialect.
//!
//! Output is read line by line, and each line changes items: it begins them, adds to their text or ends them. The state between two lines is
//! small and can be stored, so a transcript continues at any line as if it had been read from the first byte. Output that has no protocol is
//! cut into items of bounded size.
//!
//! * `change`: what is returned. `fold`: the items of a protocol, in terms common to all dialects; `dialects`: what a line of each dialect says.
//! * `output`: the items of plain output.
//! * `place`: the state, and its stored form.

mod change;
mod dialects;
mod fold;
mod output;
mod place;

use lastword_core::spec::Dialect;

use crate::dialogue::LINE_BYTES_MAX;
pub use change::{Change, Kind, PART_BYTES_MAX, Status};
pub(crate) use fold::Fold;
use output::Output;
pub use place::{BadPlace, Place};

/// The longest text of a message, in bytes. What is longer is no message for people.
const MESSAGE_BYTES_MAX: u64 = 1 << 20;

/// Reads output, and returns how it changes the items.
#[derive(Clone, Debug)]
pub struct Transcript {
    reader: Reader,
    /// The current line so far, or the bytes of an incomplete character.
    rest: Vec<u8>,
    /// Bytes of the current line, if it cannot be read: it is too long, or bytes of it are missing.
    skipped: Option<u64>,
}

#[derive(Clone, Debug)]
enum Reader {
    Lines(Fold),
    Output(Output),
}

impl Transcript {
    /// Returns a transcript from the first byte; without a dialect, that of a command.
    pub fn new(dialect: Option<Dialect>) -> Transcript {
        let reader = match dialect {
            None | Some(Dialect::Plain) => Reader::Output(Output::default()),
            Some(dialect) => Reader::Lines(Fold::new(dialect)),
        };
        Transcript { reader, rest: Vec::new(), skipped: None }
    }

    /// Returns a transcript that continues at a place; refused if the place is of output in another dialect.
    pub fn at(dialect: Option<Dialect>, place: &Place) -> Result<Transcript, BadPlace> {
        let reader = match dialect {
            None | Some(Dialect::Plain) => Reader::Output(place.output()?),
            Some(dialect) => Reader::Lines(place.fold(dialect)?),
        };
        let is_skipping = matches!(&reader, Reader::Lines(fold) if fold.is_skipping);
        Ok(Transcript { reader, rest: Vec::new(), skipped: is_skipping.then_some(0) })
    }

    /// Returns the place after the last step.
    pub fn place(&self) -> Place {
        match &self.reader {
            Reader::Lines(fold) => Place::of_fold(fold),
            Reader::Output(output) => Place::of_output(output),
        }
    }

    /// Returns the offset of the next byte that it needs.
    pub fn next_byte(&self) -> u64 {
        let begin = match &self.reader {
            Reader::Lines(fold) => fold.end,
            Reader::Output(output) => output.offset,
        };
        begin.saturating_add(self.skipped.unwrap_or(0)).saturating_add(self.rest.len() as u64)
    }

    /// Takes bytes of the output up to the end of a step, a line for most dialects, and returns its changes; `None` if all bytes were taken
    /// and the step is not complete.
    pub fn step(&mut self, bytes: &mut &[u8]) -> Option<Vec<Change>> {
        match &mut self.reader {
            Reader::Lines(fold) => {
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let (line, after) = bytes.split_at(end.unwrap_or(bytes.len()));
                *bytes = after.get(1..).unwrap_or_default();
                match &mut self.skipped {
                    Some(skipped) => *skipped = skipped.saturating_add(line.len() as u64),
                    None if self.rest.len() + line.len() > LINE_BYTES_MAX => {
                        self.skipped = Some((self.rest.len() + line.len()) as u64);
                        self.rest = Vec::new();
                    }
                    None => self.rest.extend_from_slice(line),
                }
                let changes = match (self.skipped, end) {
                    (None, Some(_)) => fold.next_line(&std::mem::take(&mut self.rest)),
                    (Some(skipped), Some(_)) => {
                        self.skipped = None;
                        fold.gap(skipped.saturating_add(1), false)
                    }
                    // Not read to its end at once: it may have none.
                    (Some(skipped), None) if skipped > LINE_BYTES_MAX as u64 => {
                        self.skipped = Some(0);
                        fold.gap(skipped, true)
                    }
                    (_, None) => return None,
                };
                Some(changes.into_iter().flat_map(bounded).collect())
            }
            Reader::Output(output) => {
                if let Some(skipped) = self.skipped.take() {
                    self.rest = Vec::new();
                    return Some(output.gap(skipped));
                }
                output.step(&mut self.rest, bytes).map(|change| vec![change])
            }
        }
    }

    /// Records that the next bytes of the output were not kept. The next step reports them, with the line that they are part of.
    pub fn skip(&mut self, bytes: u64) {
        let rest = std::mem::take(&mut self.rest).len() as u64;
        // The rest of its line, too, for a protocol.
        self.skipped = Some(self.skipped.unwrap_or(0).saturating_add(rest).saturating_add(bytes));
    }

    /// Records that nothing follows. An incomplete last line of a protocol is dropped.
    pub fn finish(&mut self) -> Vec<Change> {
        match &mut self.reader {
            Reader::Lines(fold) => {
                self.rest = Vec::new();
                let skipped = self.skipped.take().filter(|skipped| *skipped > 0);
                skipped.map(|skipped| fold.gap(skipped, false)).unwrap_or_default()
            }
            Reader::Output(output) => output.finish(std::mem::take(&mut self.rest)),
        }
    }
}

/// Splits a change whose text is too long. Only messages have the rest in further changes.
fn bounded(change: Change) -> Vec<Change> {
    let room = match change.kind {
        Kind::Message | Kind::Reasoning => MESSAGE_BYTES_MAX,
        _ => PART_BYTES_MAX as u64,
    };
    let room = usize::try_from(room.saturating_sub(change.from)).unwrap_or(usize::MAX);
    let kept = floor(&change.text, room);
    if kept <= PART_BYTES_MAX {
        let mut change = change;
        change.text.truncate(kept);
        return vec![change];
    }
    let (mut parts, mut begin) = (Vec::new(), 0);
    while begin < kept {
        let end = begin + floor(&change.text[begin..kept], PART_BYTES_MAX);
        let (is_first, is_last) = (begin == 0, end == kept);
        let from = change.from + begin as u64;
        parts.push(Change {
            id: change.id.clone().filter(|_| is_first),
            title: change.title.clone().filter(|_| is_first),
            status: if is_last { change.status } else { Status::Running },
            from,
            text: change.text[begin..end].to_owned(),
            text_bytes: if is_last { change.text_bytes } else { from + (end - begin) as u64 },
            ..change
        });
        begin = end;
    }
    parts
}

/// Returns the length of the longest beginning of a text that has at most so many bytes and ends with a whole character.
fn floor(text: &str, bytes: usize) -> usize {
    (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}
