use super::{markdown, thousands};

#[test]
fn a_short_row_is_filled_and_columns_between_end_at_the_right() {
    let rows = [vec!["a-long-name".into(), "3".into(), "note".into()], vec!["c".into()]];
    let expected = [
        "| suite       | passed | note |",
        "|-------------|-------:|------|",
        "| a-long-name |      3 | note |",
    ];
    let text = markdown(&["suite", "passed", "note"], &rows);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], expected[0]);
    assert_eq!(lines[2], expected[2]);
    assert_eq!(lines[3].matches('|').count(), 4);
}

#[test]
fn large_numbers_are_written_in_groups_of_three() {
    let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
    for case @ (number, text) in cases {
        assert_eq!(thousands(number), text, "{case:?}");
    }
}
