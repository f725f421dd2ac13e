//! Compares what a command printed with what its page shows. [`RULES`] lists the words that may differ from run to run; everything else must be
//! equal, word by word.

/// A place in a line: what is before it and what begins there.
struct Place<'a> {
    before: &'a str,
    here: &'a str,
}

/// One kind of word that differs from run to run.
struct Rule {
    /// What replaces it, on both sides.
    name: &'static str,
    /// Returns its length in bytes at a place, or zero.
    len: fn(&Place<'_>) -> usize,
}

#[rustfmt::skip] // One row, one rule.
const RULES: &[Rule] = &[
    Rule { name: "<id>", len: job_id },
    Rule { name: "<short>", len: short_id },
    Rule { name: "<moment>", len: moment },
    Rule { name: "<time>", len: |place| shaped(place.here, "00:00:00") },
    Rule { name: "<took>", len: measured },
    Rule { name: "<age>", len: age },
    Rule { name: "<pid>", len: pid },
    Rule { name: "<size>", len: size },
    Rule { name: "<level>", len: level },
];

/// The indentation of a proof that continues in the next line.
const PROOF_INDENT: &str = "            ";

/// A row of a time line that is shown only if a start took long enough.
const STARTING: &str = "<time> starting <took>";

/// The alphabet of ids: base 32 without letters that look like digits.
const LETTERS: &str = "0123456789abcdefghjkmnpqrstvwxyz";

/// Reports whether what was printed is what the page shows. A line `...` on the page stands for any lines.
pub(super) fn same(shown: &[String], printed: &[String]) -> bool {
    matches(&plain_lines(shown), &plain_lines(printed))
}

/// Returns lines without what differs from run to run. Joins a proof with its continuation lines.
fn plain_lines(lines: &[String]) -> Vec<String> {
    let mut plain_lines: Vec<String> = Vec::new();
    for line in lines {
        let goes_on = line.starts_with(PROOF_INDENT)
            && plain_lines.last().is_some_and(|last| last.starts_with("proof "));
        let line = plain(line);
        if !goes_on && line != STARTING {
            plain_lines.push(line);
        }
    }
    plain_lines
}

fn matches(shown: &[String], printed: &[String]) -> bool {
    match (shown, printed) {
        ([], []) => true,
        ([first, rest @ ..], _) if first == "..." => {
            (0..=printed.len()).any(|left_out| matches(rest, &printed[left_out..]))
        }
        ([first, rest @ ..], [line, others @ ..]) => first == line && matches(rest, others),
        _ => false,
    }
}

/// Returns a line without what differs from run to run. Columns move with it, so spaces count as one.
pub(super) fn plain(line: &str) -> String {
    // Bars are drawn to scale.
    let line: String = line.chars().map(|c| if "░▒▓█■".contains(c) { ' ' } else { c }).collect();
    let mut plain = String::new();
    let mut at = 0;
    while let Some(c) = line[at..].chars().next() {
        let place = Place { before: &line[..at], here: &line[at..] };
        let is_inside = place.before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let rule = (!is_inside)
            .then(|| RULES.iter().map(|rule| (rule.name, (rule.len)(&place))).find(|(_, len)| *len > 0))
            .flatten();
        match rule {
            Some((name, len)) => {
                plain.push_str(name);
                at += len;
            }
            None => {
                plain.push(c);
                at += c.len_utf8();
            }
        }
    }
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    // The time of a rung is shown only if it took long enough.
    if plain.starts_with("took ") { plain.replace(" after <took>", "") } else { plain }
}

/// Returns how much of a text is made of some characters, if nothing that could belong to it follows.
fn run_of(text: &str, of: impl Fn(char) -> bool) -> usize {
    let len = text.find(|c| !of(c)).unwrap_or(text.len());
    let ends = !text[len..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if ends { len } else { 0 }
}

/// Returns the length of a shape, in which `0` stands for a digit, if the text begins with it.
fn shaped(text: &str, shape: &str) -> usize {
    let fits = text.len() >= shape.len()
        && text.bytes().zip(shape.bytes()).all(|(c, s)| if s == b'0' { c.is_ascii_digit() } else { c == s });
    if fits { shape.len() } else { 0 }
}

fn job_id(place: &Place<'_>) -> usize {
    let Some(rest) = place.here.strip_prefix("job_") else { return 0 };
    let len = run_of(rest, |c| LETTERS.contains(c));
    if len == 28 { len + 4 } else { 0 }
}

/// The last eight characters of an id. A word of eight letters is not one, unless it stands where only ids do.
fn short_id(place: &Place<'_>) -> usize {
    let len = run_of(place.here, |c| LETTERS.contains(c));
    let word = &place.here[..len];
    let (before, after) = (place.before, &place.here[len..]);
    let is_alone = before.is_empty()
        && (after.starts_with("  ")
            || [" is ", " keeps ", " changed ", " was "].iter().any(|word| after.starts_with(word)))
        || ["lastword: ", "deleted ", "queued for "].iter().any(|word| before.ends_with(word))
        || before.ends_with('-')
        || before.ends_with('(') && after.starts_with(')');
    if len == 8 && (is_alone || word.contains(|c: char| c.is_ascii_digit())) { len } else { 0 }
}

/// A moment as JSON has it.
fn moment(place: &Place<'_>) -> usize {
    match shaped(place.here, "0000-00-00T00:00:00") {
        0 => 0,
        len => len + place.here[len..].find(['"', ' ']).unwrap_or(place.here.len() - len),
    }
}

/// A measured time: it has a fraction or is in milliseconds. A configured one has and is neither.
fn measured(place: &Place<'_>) -> usize {
    let number = place.here.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
    let (digits, rest) = place.here.split_at(number);
    let unit = run_of(rest, |c| c.is_ascii_alphabetic());
    let is_measured = match &rest[..unit] {
        "ms" | "µs" => true,
        "s" => digits.contains('.'),
        _ => false,
    };
    if number > 0 && is_measured { number + unit } else { 0 }
}

/// How long ago something was: in a line of a list, which begins with a short id, or before the word.
fn age(place: &Place<'_>) -> usize {
    let number = place.here.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let unit = run_of(&place.here[number..], |c| "smhd".contains(c));
    let in_list = short_id(&Place { before: "", here: place.before }) > 0
        && place.here[number + unit..].starts_with("  ");
    let is_age = in_list || place.here[number + unit..].starts_with(" ago");
    if number > 0 && unit == 1 && is_age { number + unit } else { 0 }
}

/// A number after the word, or one that opens a line of a receipt.
fn pid(place: &Place<'_>) -> usize {
    let after_the_word = ["pid", "pid\":", "(pid"].iter().any(|word| place.before.trim_end().ends_with(word));
    let opens = place.before.len() > 8 && place.before.trim().is_empty();
    if after_the_word || opens { run_of(place.here, |c| c.is_ascii_digit()) } else { 0 }
}

/// Bytes on a disk.
fn size(place: &Place<'_>) -> usize {
    let number = place.here.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(0);
    let unit =
        place.here[number..].strip_prefix(' ').map_or(0, |rest| run_of(rest, |c| c.is_ascii_alphabetic()));
    let is_size = number > 0
        && unit > 0
        && ["kB", "MB", "GB", "KiB", "MiB", "GiB", "TiB"]
            .contains(&&place.here[number + 1..number + 1 + unit]);
    if is_size { number + 1 + unit } else { 0 }
}

/// How a tree is contained, and so what proves its end, depends on the machine.
fn level(place: &Place<'_>) -> usize {
    let is_level = place.before.ends_with("contained ");
    let is_proof = place.before.trim_start().starts_with("proof ") && place.before.ends_with("running: ");
    if is_level || is_proof { place.here.len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_left_out() {
        for (line, expected) in [
            ("job_0001m7fk37vje00s271nrth3b9zd", "<id>"),
            ("stubborn (rth3b9zd)  cancelled while running", "stubborn (<short>) cancelled while running"),
            ("abcdefgh  build  failed  7s   12ms  exit 4", "<short> build failed <age> <took> exit 4"),
            (
                "  took      TERM, then KILL after 5.0s; 5.0s in total",
                "took TERM, then KILL; <took> in total",
            ),
            ("  grace     5s between TERM and KILL", "grace 5s between TERM and KILL"),
            ("              17122  sh -c 'sleep 3'", "<pid> sh -c 'sleep 3'"),
            ("  found     3 processes", "found 3 processes"),
            (
                "  12:32:13  running ░░░ ████  61ms  SIGKILL · pid 17122",
                "<time> running <took> SIGKILL · pid <pid>",
            ),
            ("  ended     3s ago", "ended <age> ago"),
            ("lastword: dfmfwjvt timed out", "lastword: <short> timed out"),
            ("+ lastword/edit-khdvabeg", "+ lastword/edit-<short>"),
            ("attempts of a job", "attempts of a job"),
            ("{\"at\":\"2026-11-15T12:14:00.123Z\",\"pid\":12}", "{\"at\":\"<moment>\",\"pid\":<pid>}"),
            ("  tree      contained in a control group", "tree contained <level>"),
            ("ok  journal  intact: 4.0 KiB", "ok journal intact: <size>"),
            ("exit 4", "exit 4"),
        ] {
            assert_eq!(plain(line), expected);
        }
    }

    #[test]
    fn what_is_wrong_is_not_left_out() {
        let is_same = |shown: &str, printed: &str| {
            let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
            same(&lines(shown), &lines(printed))
        };
        assert!(is_same("one\n...\nthree", "one\ntwo\ntwo and a half\nthree"));
        assert!(is_same("took 3ms", "took 14ms"));
        assert!(is_same("one", "12:00:00  starting ░░  245ms\none"));
        assert!(is_same(
            "proof nothing is left running: a",
            "  proof  nothing is left running: b\n            and c"
        ));
        for (shown, printed) in [
            ("exit 4", "exit 5"),
            ("found 3 processes", "found 2 processes"),
            ("cancelled while running", "cancelled before it started"),
            ("one\ntwo", "one"),
            ("one", "one\ntwo"),
            ("one\n...\nthree", "one\ntwo"),
            ("wall 2h", "wall 3h"),
            ("proof nothing is left running: a", "proof not certain: a"),
        ] {
            assert!(!is_same(shown, printed), "{shown} is not {printed}");
        }
    }
}
