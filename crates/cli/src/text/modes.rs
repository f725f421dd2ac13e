//! What a program has changed of the terminal it was given, read from its output: so that it can be undone when the program is left.

use std::collections::BTreeSet;

/// The longest sequence that is followed. Those that set modes are shorter.
const SEQUENCE_BYTES_MAX: usize = 64;

/// The cursor is visible: the one mode here that is on by default.
const CURSOR: u16 = 25;

/// Alternate screens. Leaving one that was not entered would move the cursor.
const SCREENS: [u16; 3] = [47, 1047, 1049];

/// Cursor keys, mouse, focus, bracketed paste.
const OTHERS: [u16; 12] = [1, 9, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004];

/// The modes of a terminal that are not as they were.
#[derive(Debug, Default)]
pub(crate) struct Modes {
    changed: BTreeSet<u16>,
    is_keypad_changed: bool,
    /// The bytes of an unfinished sequence.
    sequence: Vec<u8>,
}

impl Modes {
    /// Follows a piece of output. A piece may end in the middle of a sequence.
    pub(crate) fn follow(&mut self, output: &[u8]) {
        for byte in output {
            match (self.sequence.as_slice(), byte) {
                (_, 0x1b) => self.sequence = vec![0x1b],
                ([], _) => {}
                ([_], b'[') => self.sequence.push(b'['),
                ([_], final_byte) => {
                    match final_byte {
                        b'=' => self.is_keypad_changed = true,
                        b'>' => self.is_keypad_changed = false,
                        // A full reset.
                        b'c' => (self.is_keypad_changed, self.changed) = (false, BTreeSet::new()),
                        _ => {}
                    }
                    self.sequence.clear();
                }
                (_, 0x20..=0x3f) if self.sequence.len() < SEQUENCE_BYTES_MAX => self.sequence.push(*byte),
                (_, b'h' | b'l') => {
                    let sequence = std::mem::take(&mut self.sequence);
                    self.set(&sequence[2..], *byte == b'h');
                }
                _ => self.sequence.clear(),
            }
        }
    }

    /// Sets or resets the private modes of a sequence, as in `?1049;25`.
    fn set(&mut self, parameters: &[u8], is_on: bool) {
        let Some(modes) = parameters.strip_prefix(b"?").and_then(|modes| std::str::from_utf8(modes).ok())
        else {
            return;
        };
        for mode in modes.split(';').filter_map(|mode| mode.parse().ok()) {
            let is_known = mode == CURSOR || SCREENS.contains(&mode) || OTHERS.contains(&mode);
            match is_on == (mode == CURSOR) {
                true => self.changed.remove(&mode),
                false => is_known && self.changed.insert(mode),
            };
        }
    }

    /// Returns what makes the terminal as it was. Colours are always reset.
    pub(crate) fn undo(&self) -> String {
        let mut text = String::from("\x1b[0m");
        for mode in &self.changed {
            text.push_str(&format!("\x1b[?{mode}{}", if *mode == CURSOR { 'h' } else { 'l' }));
        }
        if self.is_keypad_changed {
            text.push_str("\x1b>");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_changed_is_undone() {
        for (output, undo) in [
            ("plain \x1b[31mred", "\x1b[0m"),
            ("\x1b[?1049h\x1b[?25l", "\x1b[0m\x1b[?25h\x1b[?1049l"),
            ("\x1b[?1049;25h\x1b[?1000;1006h", "\x1b[0m\x1b[?1000l\x1b[?1006l\x1b[?1049l"),
            ("\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l", "\x1b[0m"),
            ("\x1b[?1h\x1b=", "\x1b[0m\x1b[?1l\x1b>"),
            ("\x1b[?1h\x1b=\x1b>\x1b[?1l", "\x1b[0m"),
            ("\x1b[?1049h\x1bc", "\x1b[0m"),
            ("\x1b[?7h\x1b[4h\x1b[1049h", "\x1b[0m"),
            ("\x1b[?10\x1b[?25l", "\x1b[0m\x1b[?25h"),
        ] {
            for size in 1..=output.len() {
                let mut modes = Modes::default();
                output.as_bytes().chunks(size).for_each(|piece| modes.follow(piece));
                assert_eq!(modes.undo(), undo, "{output:?} in pieces of {size}");
            }
        }
    }
}
