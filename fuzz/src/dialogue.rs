//! A dialogue with an agent that says anything. A line that begins with `>` is ours; every other one is the agent's.

use lastword_agents::{Dialogue, Goals, Heard, PART_BYTES_MAX, Place, Show, Start, Transcript};
use lastword_core::InputNo;
use lastword_core::job::PendingInput;
use lastword_core::question::Reply;
use lastword_core::receipt::Exit;
use lastword_core::report::Signal;
use lastword_core::spec::{Dialect, Permission, Terms};

/// Bytes of the largest state of a dialogue.
const STATE_BYTES_MAX: usize = 640 << 10;

/// Goes through the lines; where one is empty, who listens is stored and restored.
pub(crate) fn run(dialect: Dialect, bytes: &[u8]) {
    let mut start = Start { prompt: "do it".to_owned(), ..Start::default() };
    // What an input is about decides by which rules it is heard, so that both are tried.
    start.permissions.otherwise =
        if bytes.len().is_multiple_of(2) { Permission::Ask } else { Permission::Allow };
    start.resume = bytes.len().is_multiple_of(3).then(|| "earlier".to_owned());
    let mut dialogue = Dialogue::new(start.clone(), &Terms { dialect, ..Terms::default() });
    let (mut last, mut show, mut transcript) = (0, Show::new(dialect), Transcript::new(Some(dialect)));
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        match line.strip_prefix(b"> ") {
            Some(ours) => {
                dialogue.wrote(ours, InputNo(index as u32));
            }
            None if line.is_empty() => {
                let stored = dialogue.store();
                assert!(stored.len() <= STATE_BYTES_MAX, "{} bytes are kept", stored.len());
                dialogue = Dialogue::restored(start.clone(), &stored).expect("what was stored is restored");
                let place: Place = transcript.place().to_string().parse().expect("a place is read again");
                transcript = Transcript::at(Some(dialect), &place).expect("a place is of its dialect");
            }
            None => {
                let line = line.strip_prefix(b"< ").unwrap_or(line);
                let line_fed = [line, b"\n"].concat();
                check(&dialogue.read(&line_fed), &mut last);
                let mut rest = &line_fed[..];
                while let Some(changes) = transcript.step(&mut rest) {
                    assert!(changes.iter().all(|change| change.text.len() <= PART_BYTES_MAX), "{changes:?}");
                }
                show.line(line);
            }
        }
        due(&dialogue, index % 3);
    }
    for exit in [Exit::Code(0), Exit::Signal(9), Exit::Code(1)] {
        check(&dialogue.exited(exit, "its last line"), &mut last);
    }
}

fn check(heard: &[Heard], last: &mut u64) {
    for Heard { offset, signal } in heard {
        assert!(offset > last, "{signal:?} at {offset}, after {last}");
        *last = *offset;
        if let Signal::ItemCompleted { title } = signal {
            assert!(title.chars().count() <= 400 && !title.contains('\n'), "{title}");
        }
    }
}

/// Asks for what is due, in one of three moods.
fn due(dialogue: &Dialogue, mood: usize) {
    let input = |no, question: Option<&str>, steer| PendingInput {
        no: InputNo(no),
        question: question.map(str::to_owned),
        text: "allow".to_owned(),
        reply: question.map(|_| Reply::Allow),
        eof: false,
        steer,
    };
    let inputs =
        [input(900_001, Some("0#1"), false), input(900_002, None, true), input(900_003, None, false)];
    let due = dialogue.next(&Goals { inputs: &inputs, interrupt: mood > 0, stop: mood > 1 });
    assert!(due.is_none_or(|due| !due.line.contains('\n')), "a line has one line");
}
