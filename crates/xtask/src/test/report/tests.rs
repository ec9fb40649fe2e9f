use std::time::Duration;

use super::{Failure, Row, text};
use crate::counts::Counts;

fn closing(rows: &[Row]) -> Vec<String> {
    text(rows, Duration::from_secs(7)).lines().map(str::to_owned).collect()
}

#[test]
fn the_last_line_is_the_count_of_all_suites() {
    let rows =
        [Row::new("one", Counts { passed: 3, failed: 0, skipped: 1 }, ""), Row::failed("two", "died", "")];
    assert_eq!(closing(&rows).last().unwrap(), "3 passed, 1 failed");
}

#[test]
fn suites_that_have_nothing_have_no_row() {
    let lines = closing(&[Row::new("empty", Counts::default(), ""), Row::new("full", Counts::success(), "")]);
    assert!(lines.iter().any(|line| line.starts_with("| full")));
    assert!(!lines.iter().any(|line| line.contains("empty")));
}

#[test]
fn a_long_note_is_cut_in_the_table_and_told_below_it() {
    let reason = format!("first {}\nlast", "word ".repeat(60));
    let lines = closing(&[Row::failed("suite", &reason, "what it printed")]);
    let row = lines.iter().find(|line| line.starts_with("| suite ") && line.contains("first")).unwrap();
    assert!(row.ends_with("… |") && row.chars().count() < 220, "{row}");
    let title = lines.iter().position(|line| line.starts_with("-- suite: first")).unwrap();
    assert!(lines[title].ends_with("last"), "{}", lines[title]);
    assert_eq!(lines[title + 1], "   what it printed");
}

#[test]
fn a_long_failure_keeps_its_beginning_and_its_end() {
    let cases = [
        // printed lines, characters of each, shown at most
        (30, 10, 30),
        (31, 10, 31),
        (5_000, 10, 31),
        (5_000, 390, 8),
        (2, 100_000, 2),
    ];
    for case @ (count, width, shown_max) in cases {
        let printed: Vec<String> =
            (0..count).map(|number| format!("{number} {}", "x".repeat(width))).collect();
        let lines = closing(&[Row::failed("suite", "reason", &printed.join("\n"))]);
        let shown: Vec<_> = lines.iter().filter(|line| line.starts_with("   ")).collect();
        assert!(shown.len() <= shown_max, "{case:?}: {}", shown.len());
        assert!(shown[0].starts_with("   0 x"), "{case:?}");
        assert!(shown.last().unwrap().starts_with(&format!("   {} x", count - 1)), "{case:?}");
        let chars: usize = shown.iter().map(|line| line.chars().count()).sum();
        assert!(chars < 3_200, "{case:?}: {chars}");
        let told_so = lines.iter().any(|line| line.contains("lines left out"));
        assert_eq!(told_so, shown.len() < count || count > 30, "{case:?}");
    }
}

#[test]
fn many_failures_are_all_named_and_the_first_are_told() {
    let failure = |number: usize| Failure { title: format!("case {number}"), detail: "said".to_owned() };
    let failures: Vec<_> = (0..500).map(failure).collect();
    let lines = closing(&[Row { failures, ..Row::failed("suite", "", "") }]);
    assert_eq!(lines.iter().filter(|line| line.starts_with("-- suite: case ")).count(), 500);
    assert_eq!(lines.iter().filter(|line| *line == "   said").count(), 40);
}
