//! Tables of text: the same columns on a terminal and in a pipe.
//!
//! Invariant: no cell holds a line break or a control character, so each entry is one line.

use std::io::{self, IsTerminal as _};

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
        let titles: Vec<String> = self.titles.iter().map(|title| (*title).to_owned()).collect();
        let all = || std::iter::once(&titles).chain(&self.rows);
        let width = |at: usize| all().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..self.titles.len()).map(|at| width(at).unwrap_or_default()).collect();
        all().map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row.iter().zip(widths).enumerate().map(|(at, (cell, &width))| {
            if at >= self.numbers_from { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests;
