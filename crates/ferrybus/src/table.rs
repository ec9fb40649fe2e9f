//! Tables of text: the same columns on a terminal and in a pipe.
//!
//! Invariant: no cell holds a line break or a control character, so each entry is one line.

use std::io::{self, IsTerminal as _};

use comfy_table::{CellAlignment, ContentArrangement, presets};

use crate::{failure::Failure, output};

/// Lines with columns of one width each.
#[derive(Debug)]
pub(crate) struct Table {
    titles: &'static [&'static str],
    /// Columns from this one on are numbers, which end in line.
    numbers_from: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these titles; from column `numbers_from` on there are numbers.
    pub(crate) const fn new(titles: &'static [&'static str], numbers_from: usize) -> Self {
        Self { titles, numbers_from, rows: Vec::new() }
    }

    /// Adds a line.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| output::printable(&cell)).collect());
    }

    /// Prints it; nothing where there is nothing.
    pub(crate) fn print(&self) -> Result<(), Failure> {
        let mut lines = self.lines().into_iter();
        let Some(titles) = lines.next().filter(|_| !self.rows.is_empty()) else { return Ok(()) };
        if io::stdout().is_terminal() && output::colours_wanted() {
            output::line(format_args!("\x1b[1m{titles}\x1b[0m"))?;
        } else {
            output::line(titles)?;
        }
        lines.try_for_each(output::line)
    }

    fn lines(&self) -> Vec<String> {
        let mut table = comfy_table::Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.titles).add_rows(&self.rows);
        for (at, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if at >= self.numbers_from {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

#[cfg(test)]
mod tests;
