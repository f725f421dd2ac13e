//! Renders the receipt of an attempt: what was found, what it took to stop it, and the proof.

use lastword_api::{Attempt, Process, Receipt, Stop};

use super::describe;
use super::style::Style;
use crate::text::clean::{clean, cut};
use crate::text::moment::between;
use crate::text::{duration, size};

/// Processes listed; the rest are counted.
const NAMED_MAX: usize = 6;

/// Returns the lines of a receipt.
pub(crate) fn lines(attempt: &Attempt, stop: Option<&Stop>, style: Style, width: usize) -> Vec<String> {
    let Some(receipt) = &attempt.receipt else { return Vec::new() };
    let mut lines = Vec::new();
    let mut add = |head: &str, text: String| {
        let room = width.saturating_sub(12).max(20);
        for (number, part) in wrap(&text, room).into_iter().enumerate() {
            let head = if number == 0 { head } else { "" };
            lines.push(format!("  {}  {part}", style.faint(&format!("{head:<8}"))));
        }
    };
    if let Some(exit) = &receipt.exit {
        add("exit", describe::exit(exit).replace("exit ", "code "));
    }
    add("found", found(receipt, stop.is_some()));
    for process in receipt.processes.iter().chain(&receipt.leftovers).take(NAMED_MAX) {
        add("", named(process, width));
    }
    if let Some(took) = took(receipt, stop) {
        add("took", took);
    }
    add("proof", proof(receipt, style));
    if receipt.may_escape {
        let what = "it entered a PID namespace made elsewhere, or could change its user; what it left there is not covered";
        add("", style.warn(what));
    }
    if receipt.output.lost || receipt.output.kept < receipt.output.seen {
        add("output", output(receipt, style));
    }
    lines
}

fn found(receipt: &Receipt, stopped: bool) -> String {
    let left = receipt.leftovers.len() as u64;
    match (receipt.found, left) {
        (0, _) if stopped => "nothing: it had already exited".to_owned(),
        (0, _) => "nothing left behind".to_owned(),
        (found, 0) => describe::count(found, "process", "processes"),
        (found, left) => {
            let left = describe::count(left, "of them was", "of them were");
            format!("{}; {left} left behind by the command", describe::count(found, "process", "processes"))
        }
    }
}

fn named(process: &Process, width: usize) -> String {
    cut(&format!("{:>7}  {}", process.pid, clean(&process.command)), width.saturating_sub(14).max(20))
}

/// Returns what it took to stop: each rung, with the time since the request.
fn took(receipt: &Receipt, stop: Option<&Stop>) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for taken in &receipt.rungs {
        let after = stop.map(|stop| between(stop.requested_at, taken.at)).filter(|after| *after >= 100);
        let after = after.map_or_else(String::new, |after| format!(" after {}", duration::show_ms(after)));
        parts.push(format!("{}{after}", describe::rung(&taken.rung)));
    }
    let rungs = clean(&parts.join(", then ")).into_owned();
    let all = receipt.asked_to_empty_ms.map(|ms| format!("{} in total", duration::show_ms(ms)));
    match (rungs.is_empty(), all) {
        (true, None) => None,
        (true, Some(all)) => Some(all),
        (false, None) => Some(rungs),
        (false, Some(all)) => Some(format!("{rungs}; {all}")),
    }
}

fn proof(receipt: &Receipt, style: Style) -> String {
    let sentence = describe::proof(&receipt.proof);
    match receipt.certain {
        true => format!("{}: {sentence}", style.good("nothing is left running")),
        false => format!("{}: {sentence}", style.warn("not certain")),
    }
}

fn output(receipt: &Receipt, style: Style) -> String {
    let kept = format!("{} of {} kept", size::show(receipt.output.kept), size::show(receipt.output.seen));
    match receipt.output.lost {
        true => format!("{kept}; {}", style.bad("some could not be written, or was deleted")),
        false => kept,
    }
}

/// Wraps a text at spaces. A word longer than `room` is not broken.
pub(crate) fn wrap(text: &str, room: usize) -> Vec<String> {
    // Indented text is already laid out.
    if text.starts_with(' ') {
        return vec![text.to_owned()];
    }
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if visible(line) + 1 + visible(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the width of a text without its colour codes.
fn visible(text: &str) -> usize {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        shown.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    shown.push_str(rest);
    crate::text::clean::columns(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_wraps_at_spaces_and_colour_codes_have_no_width() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("\x1b[32mone\x1b[0m two", 7), ["\x1b[32mone\x1b[0m two"]);
        assert_eq!(wrap("enormous words stay", 5), ["enormous", "words", "stay"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
