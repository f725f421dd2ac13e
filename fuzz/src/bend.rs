//! Bends JSON as JSON: libFuzzer by itself mostly breaks it, and what is broken is turned away at the door.

use libfuzzer_sys::fuzzer_mutate;
use serde_json::Value;

/// Changes `bytes` of the first `size`, and returns how many they are now. Half of the time it leaves that to libFuzzer.
pub(crate) fn bend(bytes: &mut [u8], size: usize, size_max: usize, seed: u32) -> usize {
    let mut numbers = Numbers(u64::from(seed) << 16 | 1);
    let bent = if numbers.one_in(2) { None } else { bent(&bytes[..size], &mut numbers) };
    match bent.filter(|bent| bent.len() <= size_max && bent.len() <= bytes.len()) {
        Some(bent) => {
            bytes[..bent.len()].copy_from_slice(&bent);
            bent.len()
        }
        None => fuzzer_mutate(bytes, size, size_max),
    }
}

/// Returns the lines with one of them said otherwise, again, many times, or not at all.
fn bent(bytes: &[u8], numbers: &mut Numbers) -> Option<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let at = numbers.below(lines.len());
    match numbers.below(8) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, Vec::new()),
        2 => lines.swap(at, numbers.below(at + 1)),
        3 => {
            for no in 0..=numbers.below(300) {
                let again = otherwise(&lines[at], |value, numbers| rename(value, no, numbers), numbers)?;
                lines.push(again);
            }
            lines.push(Vec::new());
        }
        _ => lines[at] = otherwise(&lines[at], |value, numbers| change(value, numbers), numbers)?,
    }
    Some(lines.join(&b'\n'))
}

fn otherwise(line: &[u8], how: impl Fn(&mut Value, &mut Numbers), numbers: &mut Numbers) -> Option<Vec<u8>> {
    let json = line.iter().position(|byte| *byte == b'{')?;
    let mut value = serde_json::from_slice(&line[json..]).ok()?;
    how(&mut value, numbers);
    Some([&line[..json], value.to_string().as_bytes()].concat())
}

/// Gives other names to what has one, and more words to some texts.
fn rename(value: &mut Value, no: usize, numbers: &mut Numbers) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match name.to_ascii_lowercase().ends_with("id") && (member.is_string() || member.is_number())
                {
                    true => *member = format!("{no}-{}", "n".repeat(no % 100)).into(),
                    false => rename(member, no, numbers),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, no, numbers)),
        _ => {}
    }
}

/// Changes one value somewhere in it.
fn change(value: &mut Value, numbers: &mut Numbers) {
    match value {
        Value::Object(members) if !members.is_empty() && !numbers.one_in(8) => {
            let at = numbers.below(members.len());
            members.values_mut().nth(at).into_iter().for_each(|member| change(member, numbers));
        }
        Value::Array(items) if !items.is_empty() && !numbers.one_in(8) => {
            let at = numbers.below(items.len());
            change(&mut items[at], numbers);
        }
        _ => *value = numbers.value(value),
    }
}

/// Numbers, one after the other (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end.max(1)
    }

    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn value(&mut self, old: &Value) -> Value {
        // Texts mostly stay texts: most of what can go wrong with them is in their length and in their characters.
        let how = if old.is_string() && !self.one_in(3) { 9 } else { self.below(10) };
        match how {
            0 => Value::Null,
            1 => self.next().into(),
            2 => (-1.5e300).into(),
            3 => self.one_in(2).into(),
            4 => Value::Array(vec![old.clone(); self.below(20)]),
            5 => serde_json::json!({ "id": old.clone(), "type": "text" }),
            6 => self.below(30).into(),
            _ => {
                let part = ["a", "é", "😀", "\u{1}", "\"", "/../", " ", "\n", "\u{202e}"][self.below(9)];
                let before = old.as_str().unwrap_or_default();
                format!("{before}{}{}", "x".repeat(self.below(4)), part.repeat(self.below(300))).into()
            }
        }
    }
}
