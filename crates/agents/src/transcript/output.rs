//! The items of output without a protocol. An item ends with a line if it can, and its bounds depend on nothing but the bytes before them.

use super::change::{Change, Kind, PART_BYTES_MAX, Status};

/// An item ends with the first line that ends after this many bytes of its text.
const ENOUGH_BYTES: u64 = 4 << 10;

/// Follows output without a protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    /// The offset of the next byte.
    pub(super) offset: u64,
    /// Where the current item began; `None` between two items.
    pub(super) begin: Option<u64>,
    /// The length of its text.
    pub(super) bytes: u64,
}

impl Output {
    /// Takes bytes up to the end of the item. Those of an incomplete character are kept in `rest` until it is complete.
    pub(super) fn step(&mut self, rest: &mut Vec<u8>, bytes: &mut &[u8]) -> Option<Change> {
        // At most the bytes of a full item, and of the character that has no room in it.
        let more = bytes.len().min(PART_BYTES_MAX + 4);
        let known = rest.len();
        rest.extend_from_slice(&bytes[..more]);
        let (text, used, is_full) = self.decode(rest);
        if used == 0 && !is_full {
            *bytes = &bytes[more..];
            return None;
        }
        // Only what was taken in earlier steps is kept: the rest of `bytes` comes again.
        *bytes = &bytes[used.saturating_sub(known).min(bytes.len())..];
        rest.drain(..used.min(rest.len()));
        rest.truncate(known.saturating_sub(used));
        self.offset = self.offset.saturating_add(used as u64);
        let change = self.change(text, used as u64);
        Some(if is_full { self.complete(change) } else { change })
    }

    /// Decodes bytes up to the end of the item: returns the text, the number of bytes, and whether the item is full.
    fn decode(&self, bytes: &[u8]) -> (String, usize, bool) {
        let (mut text, mut used) = (String::new(), 0);
        for chunk in bytes.utf8_chunks() {
            let invalid = chunk.invalid();
            let is_incomplete = !invalid.is_empty()
                && used + chunk.valid().len() + invalid.len() == bytes.len()
                && is_begun(invalid);
            let lost = (!invalid.is_empty() && !is_incomplete)
                .then_some((char::REPLACEMENT_CHARACTER, invalid.len()));
            for (char, width) in chunk.valid().chars().map(|char| (char, char.len_utf8())).chain(lost) {
                let bytes = self.bytes + (text.len() + char.len_utf8()) as u64;
                if bytes > PART_BYTES_MAX as u64 {
                    return (text, used, true);
                }
                text.push(char);
                used += width;
                if char == '\n' && bytes >= ENOUGH_BYTES {
                    return (text, used, true);
                }
            }
        }
        (text, used, false)
    }

    /// Records that bytes were not kept. The current item ends before them.
    pub(super) fn gap(&mut self, skipped: u64) -> Vec<Change> {
        let ended = self.end();
        let n = self.offset;
        self.offset = n.saturating_add(skipped);
        let gap = Change {
            n,
            kind: Kind::Gap,
            status: Status::Completed,
            from: 0,
            text_bytes: 0,
            end: self.offset,
            ..self.change(String::new(), 0)
        };
        self.begin = None;
        ended.into_iter().chain([gap]).collect()
    }

    /// Records that nothing follows, with the bytes of a character that stays incomplete.
    pub(super) fn finish(&mut self, rest: Vec<u8>) -> Vec<Change> {
        if rest.is_empty() {
            return self.end().into_iter().collect();
        }
        let used = rest.len() as u64;
        self.offset = self.offset.saturating_add(used);
        let change = self.change(char::REPLACEMENT_CHARACTER.to_string(), used);
        vec![self.complete(change)]
    }

    fn end(&mut self) -> Option<Change> {
        self.begin?;
        let change = self.change(String::new(), 0);
        Some(self.complete(change))
    }

    fn complete(&mut self, change: Change) -> Change {
        (self.begin, self.bytes) = (None, 0);
        Change { status: Status::Completed, ..change }
    }

    /// Adds to the current item, or begins one, with text of so many bytes before the present offset.
    fn change(&mut self, text: String, used: u64) -> Change {
        let n = *self.begin.get_or_insert(self.offset.saturating_sub(used));
        let from = self.bytes;
        self.bytes = from.saturating_add(text.len() as u64);
        let (kind, status) = (Kind::Output, Status::Running);
        Change {
            n,
            kind,
            id: None,
            title: None,
            status,
            from,
            text,
            text_bytes: self.bytes,
            end: self.offset,
        }
    }
}

/// Reports whether bytes can be the beginning of a character.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}
