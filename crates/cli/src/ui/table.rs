//! Tables that fit the terminal: columns as wide as their content; if there is not enough room, the last column shrinks first, then the
//! widest.

use crate::text::clean::{clean, columns, cut};

/// The space between two columns.
const GAP: &str = "  ";

/// The minimum width of the last column.
const FLEXIBLE_MIN: usize = 8;

/// The minimum width of the others, so that their values remain distinguishable.
const OTHERS_MIN: usize = 12;

/// A table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table with these columns, the last of which may be cut.
    pub(crate) fn new(heads: Vec<&'static str>) -> Table {
        Table { heads, rows: Vec::new() }
    }

    /// Adds a row, and cleans its cells.
    pub(crate) fn push(&mut self, cells: Vec<String>) {
        self.rows.push(cells.into_iter().map(|cell| clean(&cell).into_owned()).collect());
    }

    /// Lays the table out for a width. `paint` colours a cell, given its row (`None` for the head), column and text.
    pub(crate) fn lines(
        &self,
        width: usize,
        paint: impl Fn(Option<usize>, usize, &str) -> String,
    ) -> Vec<String> {
        let heads: Vec<String> = self.heads.iter().map(|head| (*head).to_owned()).collect();
        let widths = self.widths(width);
        let line = |row: Option<usize>, cells: &[String]| {
            let last = widths.len().saturating_sub(1);
            let cells = widths.iter().zip(cells).enumerate().map(|(column, (wide, cell))| {
                let cell = cut(cell, *wide);
                let pad = if column == last { 0 } else { wide - columns(&cell) };
                format!("{}{}", paint(row, column, &cell), " ".repeat(pad))
            });
            cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
        };
        let mut lines = vec![line(None, &heads)];
        lines.extend(self.rows.iter().enumerate().map(|(number, cells)| line(Some(number), cells)));
        lines
    }

    fn widths(&self, width: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.heads.iter().map(|head| columns(head)).collect();
        for row in &self.rows {
            for (wide, cell) in widths.iter_mut().zip(row) {
                *wide = (*wide).max(columns(cell));
            }
        }
        let Some(last) = widths.len().checked_sub(1) else { return widths };
        let taken = |widths: &[usize]| widths[..last].iter().sum::<usize>() + last * GAP.len();
        while taken(&widths) + widths[last].min(FLEXIBLE_MIN) > width {
            let widest = widths[..last].iter_mut().max().filter(|widest| **widest > OTHERS_MIN);
            let Some(widest) = widest else { break };
            *widest -= 1;
        }
        let before = taken(&widths);
        let room = width.saturating_sub(before).max(FLEXIBLE_MIN);
        widths[last] = widths[last].min(room);
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(vec!["ID", "STATE", "COMMAND"]);
        table.push(vec!["a1".into(), "running".into(), "sleep 100 and then some more words".into()]);
        table.push(vec!["b22".into(), "ok".into(), "echo \x1b[31mred".into()]);
        table
    }

    #[test]
    fn the_last_column_shrinks_and_cells_are_cleaned() {
        let plain = |_: Option<usize>, _: usize, text: &str| text.to_owned();
        assert_eq!(
            table().lines(30, plain),
            ["ID   STATE    COMMAND", "a1   running  sleep 100 and t…", "b22  ok       echo ␛[31mred"]
        );
        assert!(table().lines(200, plain)[1].ends_with("more words"));
        assert!(table().lines(5, plain).iter().all(|line| columns(line) <= 14 + FLEXIBLE_MIN));
    }

    #[test]
    fn a_long_name_shrinks_before_the_table_exceeds_the_terminal() {
        let mut table = Table::new(vec!["ID", "NAME", "COMMAND"]);
        table.push(vec!["a1".into(), "x".repeat(60), "true".into()]);
        let plain = |_: Option<usize>, _: usize, text: &str| text.to_owned();
        assert_eq!(table.lines(30, plain)[1], format!("a1  {}…  true", "x".repeat(16)));
        assert_eq!(table.lines(80, plain)[1], format!("a1  {}  true", "x".repeat(60)));
        assert_eq!(table.lines(1, plain)[1], format!("a1  {}…  true", "x".repeat(OTHERS_MIN - 1)));
    }

    #[test]
    fn colour_codes_have_no_width() {
        let painted = table().lines(30, |_, _, text| format!("\x1b[1m{text}\x1b[0m"));
        let bare: Vec<String> =
            painted.iter().map(|line| line.replace("\x1b[1m", "").replace("\x1b[0m", "")).collect();
        assert_eq!(bare, table().lines(30, |_, _, text| text.to_owned()));
    }
}
