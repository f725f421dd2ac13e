//! What happened, as a number to compare and, on demand, as lines to read.

/// The FNV-1a hash of `bytes`, eight at a time: it must be the same everywhere and for ever, and quick.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    let mut hash = OFFSET;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        hash = mix(hash, u64::from_le_bytes(word));
    }
    for byte in chunks.remainder() {
        hash = mix(hash, u64::from(*byte) + 1);
    }
    hash
}

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(PRIME);
    mixed ^ (mixed >> 29)
}

/// The trace of one schedule.
pub(crate) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// Returns an empty trace; one that is `readable` keeps lines too.
    pub(crate) fn new(readable: bool) -> Trace {
        Trace { hash: OFFSET, lines: readable.then(Vec::new) }
    }

    /// Takes note of a number.
    pub(crate) fn note(&mut self, word: u64) {
        self.hash = mix(self.hash, word);
    }

    /// Reports whether lines are kept.
    pub(crate) fn is_readable(&self) -> bool {
        self.lines.is_some()
    }

    /// Notes a line, if this trace keeps lines.
    pub(crate) fn say(&mut self, now: u64, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{now:>7} ms  {}", line()));
        }
    }

    /// Returns the hash of everything noted.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the lines.
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }
}
