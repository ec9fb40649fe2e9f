//! Rows of text in aligned columns, for a terminal and for Markdown at once.
//!
//! Invariant: every line has as many cells as the header.

/// A Markdown table: the first and the last column begin at the left, those between end at the right.
/// The last one is not padded, so that one long cell does not make every line as long.
pub(crate) fn markdown(header: &[&str], rows: &[Vec<String>]) -> String {
    let last = header.len().saturating_sub(1);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(header.get(column).map(|cell| cell.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..last).map(width).collect();
    let rule = header.iter().enumerate().map(|(column, name)| match widths.get(column) {
        None => "-".repeat(name.chars().count() + 2),
        Some(width) if column == 0 => "-".repeat(width + 2),
        Some(width) => format!("{}:", "-".repeat(width + 1)),
    });
    let mut lines = vec![line(header.iter().copied(), &widths), framed(rule)];
    for row in rows {
        let cells = row.iter().map(String::as_str).chain(std::iter::repeat(""));
        lines.push(line(cells.take(header.len()), &widths));
    }
    lines.concat()
}

/// One line; a cell without a width stays as it is.
fn line<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    framed(cells.enumerate().map(|(column, cell)| {
        let width = widths.get(column).copied().unwrap_or(0);
        let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
        if column == 0 { format!(" {cell}{padding} ") } else { format!(" {padding}{cell} ") }
    }))
}

fn framed(cells: impl Iterator<Item = String>) -> String {
    format!("|{}|\n", cells.collect::<Vec<_>>().join("|"))
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
