//! What a tree writes, and how much of it is kept.

use lastword_proc::{Keep, Keeper, Launch, Recording, keeper::SLACK_BYTES};

use crate::common::{Place, read, until};

#[test]
fn head_and_tail_are_kept_and_the_middle_is_counted() {
    let place = Place::new();
    let script = "seq 1 1000000";
    let caps = Keep::Caps { head: 1 << 17, tail: 1 << 17 };
    let launch = Launch { stdout: caps, ..place.script("a", script) };
    let record = place.run(&launch);
    let whole: String = (1..=1_000_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(record.receipt.output.seen, whole.len() as u64);
    assert!(record.receipt.output.kept <= (2 << 17) + SLACK_BYTES);
    assert!(!record.receipt.output_lost);
    let mut recording = Recording::open(&launch.dir, "stdout").unwrap();
    let (mut cursor, mut skipped, mut buffer) = (0, 0, vec![0; 10_000]);
    loop {
        let read = recording.read(cursor, &mut buffer).unwrap();
        skipped += read.skipped;
        let at = usize::try_from(read.offset).unwrap();
        assert_eq!(&whole.as_bytes()[at..at + read.bytes], &buffer[..read.bytes]);
        cursor = read.next();
        if read.bytes == 0 {
            break;
        }
    }
    assert_eq!(cursor, whole.len() as u64);
    assert_eq!(skipped, record.receipt.output.seen - record.receipt.output.kept);
    assert!(skipped > 0);
}

#[test]
fn a_spool_loses_nothing_and_blocks_its_writer() {
    let place = Place::new();
    let launch = Launch { stdout: Keep::Spool { ahead_max: 1 << 18 }, ..place.script("a", "seq 1 2000000") };
    place.launch(&launch);
    let mut keeper = Keeper::connect(&launch.dir, 0).unwrap();
    let whole: String = (1..=2_000_000).map(|n| format!("{n}\n")).collect();
    let mut recording = Recording::open(&launch.dir, "stdout").unwrap();
    let (mut cursor, mut all, mut buffer) = (0, Vec::new(), vec![0; 1 << 16]);
    until("all output was read", || {
        let read = recording.read(cursor, &mut buffer).unwrap();
        assert_eq!(read.skipped, 0);
        all.extend_from_slice(&buffer[..read.bytes]);
        cursor = read.next();
        // The keeper may exceed the limit by at most one turn's reads.
        if let Ok(status) = keeper.status() {
            assert!(status.stdout <= cursor + (1 << 18) + (1 << 20), "{} beyond {cursor}", status.stdout);
        }
        let _ = keeper.trim("stdout", cursor);
        (all.len() == whole.len()).then_some(())
    });
    assert_eq!(all, whole.as_bytes());
    let record = place.end_of(&launch);
    assert!(!record.receipt.output_lost);
    assert!(record.receipt.output.kept < record.receipt.output.seen, "trimmed output is deleted");
}

#[test]
fn output_is_readable_while_it_is_written() {
    let place = Place::new();
    let launch = place.script("a", "echo first; sleep 100");
    place.launch(&launch);
    until("the line is recorded", || (read(&launch, "stdout") == "first\n").then_some(()));
    place.stop(&launch, true);
    assert_eq!(read(&launch, "stdout"), "first\n");
}
