//! A place in a transcript: an offset, and the state of the transcript there. It is stored as numbers without names, because it is part of
//! every cursor. It is as long as a few tools are: two kilobytes with the most that can run.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use lastword_core::spec::Dialect;

use super::change::PART_BYTES_MAX;
use super::fold::{Fold, Open, TOOLS_MAX, Tool};
use super::output::Output;
use crate::once::Format;

/// The longest stored form that is read, in bytes.
const TEXT_BYTES_MAX: usize = 2 << 10;

/// The numbers before those of the tools.
const FIXED: usize = 8;

/// The numbers of a tool.
const TOOL: usize = 3;

const DIALECTS: [Dialect; 4] = [Dialect::Claude, Dialect::Codex, Dialect::Acp, Dialect::Once];
const FORMATS: [Format; 6] =
    [Format::Codex, Format::Claude, Format::Gemini, Format::Goose, Format::Opencode, Format::Copilot];

/// A place between two steps of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The offset of the next byte of the output.
    pub offset: u64,
    /// What kind of output, flags, format, message, reasoning, and each tool. See `of_fold` and `of_output`.
    numbers: Vec<u64>,
}

/// A text is not a place in this transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a place in this transcript")]
pub struct BadPlace;

impl Place {
    pub(super) fn of_fold(fold: &Fold) -> Place {
        let kind = DIALECTS.iter().position(|dialect| *dialect == fold.dialect).map_or(0, |index| index + 1);
        let format =
            FORMATS.iter().position(|format| Some(*format) == fold.format).map_or(0, |index| index + 1);
        let flags = [
            fold.in_parts,
            fold.is_present,
            fold.missed_start,
            fold.part_of.is_some(),
            fold.message.is_some(),
            fold.reasoning.is_some(),
            fold.is_skipping,
        ];
        let flags = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u64::from(*flag));
        let [message, reasoning] =
            [fold.message, fold.reasoning].map(|open| open.unwrap_or(Open { n: 0, bytes: 0 }));
        let part_of = fold.part_of.unwrap_or(0);
        let mut numbers = vec![kind as u64, flags, format as u64, part_of];
        numbers.extend([message.n, message.bytes, reasoning.n, reasoning.bytes]);
        numbers.extend(fold.tools.iter().flat_map(|tool| [tool.id, tool.item.n, tool.item.bytes]));
        Place { offset: fold.end, numbers }
    }

    pub(super) fn of_output(output: &Output) -> Place {
        let numbers =
            vec![0, u64::from(output.begin.is_some()), 0, 0, output.begin.unwrap_or(0), output.bytes, 0, 0];
        Place { offset: output.offset, numbers }
    }

    pub(super) fn fold(&self, dialect: Dialect) -> Result<Fold, BadPlace> {
        let (fixed, tools) = self.numbers.split_at_checked(FIXED).ok_or(BadPlace)?;
        let [kind, flags, format, part_of, message, message_bytes, reasoning, reasoning_bytes] =
            <[u64; FIXED]>::try_from(fixed).map_err(|_| BadPlace)?;
        let known = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
        if known(kind).and_then(|index| DIALECTS.get(index)) != Some(&dialect) || flags >> 7 != 0 {
            return Err(BadPlace);
        }
        let format = match format {
            0 => None,
            number => Some(*known(number).and_then(|index| FORMATS.get(index)).ok_or(BadPlace)?),
        };
        let has = |bit: u32| flags >> bit & 1 == 1;
        let open = |bit: u32, n: u64, bytes: u64| has(bit).then_some(Open { n, bytes });
        let tools = tools.chunks_exact(TOOL);
        let tools = tools.map(|tool| Tool { id: tool[0], item: Open { n: tool[1], bytes: tool[2] } });
        let mut fold = Fold::new(dialect);
        (fold.in_parts, fold.is_present, fold.missed_start) = (has(0), has(1), has(2));
        (fold.format, fold.part_of) = (format, has(3).then_some(part_of));
        fold.message = open(4, message, message_bytes);
        fold.reasoning = open(5, reasoning, reasoning_bytes);
        (fold.tools, fold.end, fold.is_skipping) = (tools.collect(), self.offset, has(6));
        // A text that says the same in another way was not written here.
        if Place::of_fold(&fold) == *self { Ok(fold) } else { Err(BadPlace) }
    }

    pub(super) fn output(&self) -> Result<Output, BadPlace> {
        let number = |index: usize| self.numbers.get(index).copied().unwrap_or(0);
        let begin = (number(1) == 1).then_some(number(4));
        let output = Output { offset: self.offset, begin, bytes: number(5) };
        let is_possible = output.bytes <= PART_BYTES_MAX as u64;
        if is_possible && Place::of_output(&output) == *self { Ok(output) } else { Err(BadPlace) }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.offset)?;
        self.numbers.iter().try_for_each(|number| write!(f, "-{number:x}"))
    }
}

impl FromStr for Place {
    type Err = BadPlace;

    fn from_str(text: &str) -> Result<Place, BadPlace> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(BadPlace);
        }
        let mut numbers = text.split('-').map(|number| u64::from_str_radix(number, 16));
        let offset = numbers.next().and_then(Result::ok).ok_or(BadPlace)?;
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().map_err(|_| BadPlace)?;
        if numbers.len() > FIXED + TOOL * TOOLS_MAX {
            return Err(BadPlace);
        }
        let place = Place { offset, numbers };
        // Signs and leading zeros are read, but not written.
        if place.to_string() == text { Ok(place) } else { Err(BadPlace) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_state_is_stored_and_read_alike() {
        let mut fold = Fold::new(Dialect::Once);
        let item = Open { n: u64::MAX, bytes: u64::MAX };
        (fold.in_parts, fold.missed_start, fold.format) = (true, true, Some(Format::Copilot));
        (fold.message, fold.reasoning, fold.part_of) = (Some(item), Some(item), Some(u64::MAX));
        fold.tools = (0..TOOLS_MAX as u64).map(|no| Tool { id: u64::MAX - no, item }).collect();
        fold.end = u64::MAX;
        let place = Place::of_fold(&fold);
        let text = place.to_string();
        assert!(text.len() <= TEXT_BYTES_MAX, "{}", text.len());
        assert_eq!(text.parse(), Ok(place.clone()));
        assert_eq!(place.fold(Dialect::Once), Ok(fold));
        assert_eq!(place.fold(Dialect::Claude), Err(BadPlace));
        assert_eq!(place.output(), Err(BadPlace));
        assert!(format!("{text}-1").parse::<Place>().is_err(), "a tool too many");
    }
}
