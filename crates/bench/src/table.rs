//! Figures as tables in Markdown, for a terminal and for a page at once.
//!
//! Invariant: every line has as many cells as the header.

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

/// A table: the first and the last column begin at the left, those between end at the right.
pub(crate) fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    for row in rows {
        let cells = row.iter().map(String::as_str).chain(std::iter::repeat(""));
        table.add_row(cells.take(header.len()));
    }
    for column in table.column_iter_mut().skip(1).take(header.len().saturating_sub(2)) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n")
}

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
