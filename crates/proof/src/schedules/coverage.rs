//! Faults, and the table of where they struck.

use lastword_core::view::row::PhaseName;

/// Names the faults of a simulation: an enum, and the names in its order.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Something that goes wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &'static [Fault] = &[$(Fault::$name),*];

            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($text),*];

            /// Returns its name in the table.
            pub fn name(self) -> &'static str {
                Fault::NAMES[self as usize]
            }
        }
    };
}
pub(crate) use faults;

/// The rows of a table, and what cannot be.
#[derive(Debug)]
pub struct Table {
    /// The faults of a simulation, by name.
    pub faults: &'static [&'static str],
    /// Cells that cannot be filled, and why.
    pub impossible: &'static [(&'static str, PhaseName, &'static str)],
    /// Phases that its jobs are never in, and why.
    pub never: &'static [(PhaseName, &'static str)],
}

impl Table {
    fn reason(&self, fault: &str, phase: PhaseName) -> Option<&'static str> {
        let found = self.impossible.iter().find(|(one, other, _)| *one == fault && *other == phase);
        let never = self.never.iter().find(|(never, _)| *never == phase);
        found.map(|(_, _, reason)| *reason).or(never.map(|(_, reason)| *reason))
    }
}

/// Where faults struck: counts by fault and phase.
#[derive(Clone, Debug)]
pub struct Coverage {
    table: &'static Table,
    cells: Vec<[u64; PhaseName::ALL.len()]>,
}

impl Coverage {
    /// Returns an empty table.
    pub fn of(table: &'static Table) -> Coverage {
        Coverage { table, cells: vec![[0; PhaseName::ALL.len()]; table.faults.len()] }
    }

    /// Counts one strike of the fault with this number.
    pub(crate) fn struck(&mut self, fault: usize, phase: PhaseName) {
        self.cells[fault][phase as usize] += 1;
    }

    /// Adds the counts of another schedule.
    pub(crate) fn add(&mut self, other: &Coverage) {
        for (row, more) in self.cells.iter_mut().zip(&other.cells) {
            row.iter_mut().zip(more).for_each(|(cell, more)| *cell += more);
        }
    }

    /// Returns the cells that are empty and should not be.
    pub fn gaps(&self) -> Vec<(&'static str, PhaseName)> {
        let rows = self.table.faults.iter().zip(&self.cells);
        let cells = rows.flat_map(|(fault, row)| PhaseName::ALL.map(|phase| (*fault, phase, row)));
        let empty = cells.filter(|(_, phase, row)| row[*phase as usize] == 0);
        let named = empty.map(|(fault, phase, _)| (fault, phase));
        named.filter(|(fault, phase)| self.table.reason(fault, *phase).is_none()).collect()
    }

    /// Returns the table, a line each, and the reasons of its impossible cells.
    pub fn lines(&self) -> Vec<String> {
        let phases = PhaseName::ALL.map(|phase| format!("{:>11}", phase.as_str())).concat();
        let mut lines = vec![format!("{:<15}{phases}", "fault \\ phase")];
        for (fault, row) in self.table.faults.iter().zip(&self.cells) {
            let cells = PhaseName::ALL.map(|phase| match row[phase as usize] {
                0 if self.table.reason(fault, phase).is_some() => format!("{:>11}", "-"),
                count => format!("{count:>11}"),
            });
            lines.push(format!("{fault:<15}{}", cells.concat()));
        }
        for (fault, phase, reason) in self.table.impossible {
            lines.push(format!("-  {fault} while {}: {reason}", phase.as_str()));
        }
        for (phase, reason) in self.table.never {
            lines.push(format!("-  {}: {reason}", phase.as_str()));
        }
        lines
    }
}
