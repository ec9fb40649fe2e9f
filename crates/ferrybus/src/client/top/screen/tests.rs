use ratatui::{Terminal, backend::TestBackend};

use super::*;
use crate::client::top::metrics::EntityMetrics;

fn view(count: usize) -> View {
    let row = |number: usize| Row {
        name: format!("queue-{number}"),
        kind: "queue".into(),
        reading: EntityMetrics {
            active: number as u64,
            dead_letter: 1,
            oldest_age: Some(3_725.0),
            ..EntityMetrics::default()
        },
        rate_in: Some(12.5),
        rate_out: None,
    };
    View {
        place: "localhost:5672".into(),
        interval: "2s".into(),
        rows: (0..count).map(row).collect(),
        total: count,
        sort: Column::Active,
        is_reversed: false,
        filter: String::new(),
        is_editing: false,
        is_paused: false,
        is_cut: false,
        error: None,
        selected: 0,
        with_colours: true,
    }
}

fn drawn(view: &View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

#[test]
fn the_screen_has_totals_a_table_and_the_keys() {
    let lines = drawn(&view(2), 110, 8);
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>().join(" "),
        "ferrybus top localhost:5672 2 entities every 2s"
    );
    assert_eq!(lines[1], "in 25.0/s  out -/s  active 1  scheduled 0  locked 0  dead-letter 2");
    let heading: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(heading, ["NAME", "KIND", "ACTIVEv", "SCHED", "DEAD", "LOCKED", "IN/S", "OUT/S", "OLDEST"]);
    assert!(lines[3].starts_with("> queue-0 "), "{lines:?}");
    let row: Vec<&str> = lines[4].split_whitespace().collect();
    assert_eq!(row, ["queue-1", "queue", "1", "0", "1", "0", "12.5", "-", "1h", "2m"]);
    assert!(lines[7].starts_with("q quit  / filter"), "{lines:?}");
}

#[test]
fn any_size_is_drawn() {
    let mut view = view(300);
    view.selected = 299;
    view.sort = Column::Name;
    for (width, height) in [(1, 1), (3, 2), (20, 5), (79, 24), (200, 60)] {
        let lines = drawn(&view, width, height);
        if height > 10 {
            assert!(
                lines.iter().any(|line| line.starts_with("> queue-299")),
                "{width} x {height}: {lines:?}"
            );
        }
    }
    view.rows.clear();
    view.filter = "x".into();
    assert!(drawn(&view, 80, 10).join("\n").contains("no entity has that in its name"));
}

#[test]
fn a_narrow_terminal_does_without_columns_before_it_does_without_names() {
    let titles = |width| {
        let lines = drawn(&view(3), width, 8);
        assert!(lines[3].starts_with("> queue-0 "), "{lines:?}");
        lines[2].split_whitespace().count()
    };
    assert_eq!([122, 78, 62, 32].map(titles), [9, 8, 6, 3]);
}

#[test]
fn trouble_pauses_and_filters_are_seen() {
    let mut view = view(1);
    view.total = 9;
    view.filter = "queue".into();
    view.is_paused = true;
    let lines = drawn(&view, 120, 6);
    assert!(lines[0].contains("1 of 9 entities") && lines[0].ends_with("paused"), "{lines:?}");
    assert!(lines[5].ends_with("filter: queue"), "{lines:?}");
    view.is_editing = true;
    view.error = Some("cannot ask".into());
    let lines = drawn(&view, 120, 6);
    assert!(lines[0].ends_with("cannot ask") && lines[5] == "filter: queue_", "{lines:?}");
}
