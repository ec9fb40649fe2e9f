//! The screen of `ferrybus top`: what stands where.
//!
//! Invariant: any size of the terminal is drawn without a panic; what does not fit is cut off.

use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Cell, Paragraph, Row as Cells, Table, TableState},
};

use super::model::{Column, Row, rate_text};

/// Everything that is shown.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Debug)]
pub(super) struct View {
    /// Host and port.
    pub(super) place: String,
    /// Time between two samples, as text.
    pub(super) interval: String,
    /// The lines that are picked, in order.
    pub(super) rows: Vec<Row>,
    /// Entities in all.
    pub(super) total: usize,
    pub(super) sort: Column,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    /// The filter is being written.
    pub(super) is_editing: bool,
    pub(super) is_paused: bool,
    /// The broker has more entities than it shows.
    pub(super) is_cut: bool,
    /// Reason why there is no newer sample.
    pub(super) error: Option<String>,
    /// The line that is marked.
    pub(super) selected: usize,
    pub(super) with_colours: bool,
}

impl View {
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let heights =
            [Constraint::Length(1), Constraint::Length(1), Constraint::Min(2), Constraint::Length(1)];
        let [title, totals, table, keys] = Layout::vertical(heights).areas(frame.area());
        frame.render_widget(Paragraph::new(self.title()), title);
        frame.render_widget(Paragraph::new(self.state()).alignment(Alignment::Right), title);
        frame.render_widget(Paragraph::new(self.totals()), totals);
        self.draw_table(frame, table);
        frame.render_widget(Paragraph::new(self.keys()), keys);
    }

    fn colour(&self, colour: Color) -> Style {
        if self.with_colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn title(&self) -> Line<'_> {
        let shown = self.rows.len();
        let count = if shown == self.total {
            format!("{shown} entities")
        } else {
            format!("{shown} of {} entities", self.total)
        };
        let cut = if self.is_cut { ", the broker has more" } else { "" };
        Line::from(vec![
            Span::styled("ferrybus top", self.colour(Color::Cyan).add_modifier(Modifier::BOLD)),
            Span::raw(format!("  {}  {count}{cut}", self.place)),
        ])
    }

    fn state(&self) -> Line<'_> {
        if let Some(error) = &self.error {
            return Line::styled(format!("{error} "), self.colour(Color::Red).add_modifier(Modifier::BOLD));
        }
        if self.is_paused {
            return Line::styled("paused ", self.colour(Color::Yellow).add_modifier(Modifier::BOLD));
        }
        Line::styled(format!("every {} ", self.interval), self.colour(Color::DarkGray))
    }

    fn totals(&self) -> Line<'_> {
        let sum = |of: fn(&Row) -> u64| self.rows.iter().map(of).fold(0, u64::saturating_add);
        let rate = |of: fn(&Row) -> Option<f64>| {
            let rates: Vec<f64> = self.rows.iter().filter_map(of).collect();
            rate_text((!rates.is_empty()).then(|| rates.iter().sum()))
        };
        let dead = sum(Row::dead_letters);
        let dead_style = if dead > 0 { self.colour(Color::Red) } else { Style::new() };
        Line::from(vec![
            Span::raw(format!("in {}/s  out {}/s  ", rate(|row| row.rate_in), rate(|row| row.rate_out))),
            Span::raw(format!(
                "active {}  scheduled {}  ",
                sum(|row| row.reading.active),
                sum(|row| row.reading.scheduled)
            )),
            Span::raw(format!("locked {}  ", sum(|row| row.reading.locked))),
            Span::styled(format!("dead-letter {dead}"), dead_style),
        ])
    }

    fn draw_table(&self, frame: &mut Frame<'_>, area: Rect) {
        if self.rows.is_empty() {
            let text =
                if self.filter.is_empty() { "no entities yet" } else { "no entity has that in its name" };
            let block = Block::new().borders(Borders::TOP);
            frame.render_widget(Paragraph::new(text).alignment(Alignment::Center).block(block), area);
            return;
        }
        let columns = fitting(&self.rows, area.width.saturating_sub(2));
        let header = Cells::new(columns.iter().map(|(column, _)| self.heading(*column)));
        let header = header.style(Style::new().add_modifier(Modifier::REVERSED));
        let line = |row| Cells::new(columns.iter().map(|(column, _)| self.cell(row, *column)));
        let table = Table::new(self.rows.iter().map(line), columns.iter().map(|(_, width)| *width))
            .header(header)
            .column_spacing(SPACING)
            .highlight_symbol(MARK)
            .row_highlight_style(Style::new().add_modifier(Modifier::BOLD));
        let mut state = TableState::default().with_selected(Some(self.selected.min(self.rows.len() - 1)));
        frame.render_stateful_widget(table, area, &mut state);
    }

    /// The letter that sorts by the column is underlined.
    fn heading(&self, column: Column) -> Cell<'static> {
        let arrow = match (column == self.sort, self.is_reversed) {
            (false, _) => "",
            (true, false) => "v",
            (true, true) => "^",
        };
        let title_letters = column.title().char_indices();
        let at = title_letters.into_iter().find(|(_, letter)| letter.to_ascii_lowercase() == column.key());
        let at = at.map_or(0, |(at, _)| at);
        let (before, rest) = column.title().split_at_checked(at).unwrap_or_default();
        let (key, after) = rest.split_at_checked(1).unwrap_or_default();
        let key = Span::styled(key, Style::new().add_modifier(Modifier::UNDERLINED | Modifier::BOLD));
        let line = Line::from(vec![Span::raw(before), key, Span::raw(after), Span::raw(arrow)]);
        Cell::new(line.alignment(alignment(column)))
    }

    fn cell(&self, row: &Row, column: Column) -> Cell<'static> {
        let style = match column {
            Column::DeadLetter if row.dead_letters() > 0 => self.colour(Color::Red),
            Column::In if row.rate_in.is_some_and(|rate| rate > 0.0) => self.colour(Color::Green),
            Column::Out if row.rate_out.is_some_and(|rate| rate > 0.0) => self.colour(Color::Green),
            Column::Kind => self.colour(Color::DarkGray),
            _ => Style::new(),
        };
        aligned(row.cell(column), column, style)
    }

    fn keys(&self) -> Line<'_> {
        if self.is_editing {
            return Line::from(vec![
                Span::styled("filter: ", Style::new().add_modifier(Modifier::BOLD)),
                Span::raw(self.filter.clone()),
                Span::styled("_", Style::new().add_modifier(Modifier::SLOW_BLINK)),
            ]);
        }
        let filter =
            if self.filter.is_empty() { String::new() } else { format!("  filter: {}", self.filter) };
        let keys = "q quit  / filter  underlined letter sorts  r reverse  p pause  arrows move";
        Line::styled(format!("{keys}{filter}"), self.colour(Color::DarkGray))
    }
}

fn aligned(text: String, column: Column, style: Style) -> Cell<'static> {
    Cell::new(Line::styled(text, style).alignment(alignment(column)))
}

/// Texts begin in line, numbers end in line.
const fn alignment(column: Column) -> Alignment {
    if matches!(column, Column::Name | Column::Kind) { Alignment::Left } else { Alignment::Right }
}

/// The columns that fit, with their widths. Numbers get what they need; the name gets as much as its longest wants, or
/// what is left.
fn fitting(rows: &[Row], width: u16) -> Vec<(Column, u16)> {
    let needed = |column: Column| {
        let cells = rows.iter().map(|row| row.cell(column).chars().count()).max().unwrap_or_default();
        // Room for the arrow of the column that is sorted by.
        u16::try_from(cells.max(column.title().len() + 1)).unwrap_or(u16::MAX)
    };
    let mut others: Vec<(Column, u16)> =
        Column::ALL.into_iter().skip(1).map(|column| (column, needed(column))).collect();
    let taken = |others: &[(Column, u16)]| {
        others.iter().fold(0_u16, |sum, (_, width)| sum.saturating_add(*width).saturating_add(SPACING))
    };
    for expendable in EXPENDABLE {
        if taken(&others).saturating_add(NAME_MIN) > width {
            others.retain(|(column, _)| *column != expendable);
        }
    }
    let name = needed(Column::Name).min(width.saturating_sub(taken(&others))).max(NAME_MIN);
    others.insert(0, (Column::Name, name));
    others
}

/// Columns that a narrow terminal drops, in this order.
const EXPENDABLE: [Column; 6] =
    [Column::Kind, Column::Scheduled, Column::Locked, Column::Oldest, Column::Out, Column::In];
/// Letters of a name that are shown however narrow the terminal is.
const NAME_MIN: u16 = 16;
/// In front of the line that is marked.
const MARK: &str = "> ";
/// Between two columns.
const SPACING: u16 = 2;

#[cfg(test)]
mod tests;
