//! The exit record of an attempt whose shim died before it could write one.

use lastword_core::ids::Timestamp;
use lastword_core::receipt::{Level, OutputBytes, Receipt, Rung, RungTaken};

use crate::claim::KeeperClaim;
use crate::clock;
use crate::exit_record::ExitRecord;
use crate::folder::Folder;
use crate::tree::SeenProcesses;

/// Completes a record with what the dead shim had recorded and what was found of its tree.
pub(crate) fn complete(
    folder: &Folder,
    keeper: Option<&KeeperClaim>,
    seen: SeenProcesses,
    began: u64,
    bare: ExitRecord,
) -> ExitRecord {
    let leader = keeper.and_then(|keeper| keeper.leader.as_ref());
    let drained = keeper.and_then(|keeper| keeper.drained);
    let took = clock::awake_ms() - began;
    // Every process found was killed; there is no gentler rung here.
    let kill = RungTaken { rung: Rung::Kill, at: Timestamp(clock::wall_ms().saturating_sub(took)) };
    ExitRecord {
        receipt: Receipt {
            level: leader.map_or(Level::None, |leader| leader.level),
            rungs: if seen.found > 0 { vec![kill] } else { Vec::new() },
            processes: seen.processes,
            found: seen.found,
            output: drained.map_or_else(|| recorded(folder), |drained| drained.output),
            // Output that was in a pipe when the shim died is lost, and its amount is unknown.
            output_lost: drained.map_or(keeper.is_none() || leader.is_some(), |drained| drained.lost),
            may_escape: leader.is_some_and(|leader| leader.may_escape)
                || keeper.is_some_and(|keeper| keeper.entered_foreign),
            exit: keeper.and_then(|keeper| keeper.exited),
            exited_first: keeper.is_some_and(|keeper| keeper.exited_first),
            asked_to_empty_ms: Some(took),
            keeper_stop: keeper.and_then(|keeper| keeper.stop),
            empty_at: Some(lastword_core::Awake(clock::awake_ms())),
            ..bare.receipt
        },
        empty_at_boot_ns: clock::boot_ns(),
        ..bare
    }
}

/// Returns the sizes of the recordings.
fn recorded(folder: &Folder) -> OutputBytes {
    let mut output = OutputBytes::default();
    for name in ["stdout", "stderr"] {
        let file = folder.open_at(name, rustix::fs::OFlags::RDONLY);
        if let Some(stat) = file.ok().and_then(|file| rustix::fs::fstat(file).ok()) {
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            output.seen += size;
            output.kept += size.min(u64::try_from(stat.st_blocks).unwrap_or(0) * 512);
        }
    }
    output
}
