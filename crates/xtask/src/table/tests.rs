use super::{markdown, thousands};

#[test]
fn columns_but_the_last_are_as_wide_as_their_widest_cell() {
    let long = "x".repeat(200);
    let rows = [
        vec!["a-long-name".into(), "3".into(), long.clone()],
        vec!["b".into(), "12345678".into(), "short".into()],
        vec!["c".into()],
    ];
    let text = markdown(&["suite", "passed", "note"], &rows);
    let expected = [
        "| suite       |   passed | note |",
        "|-------------|---------:|------|",
        &format!("| a-long-name |        3 | {long} |"),
        "| b           | 12345678 | short |",
        "| c           |          |  |",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_table_of_one_column_or_none_is_drawn() {
    assert_eq!(markdown(&["only"], &[vec!["cell".into()]]), "| only |\n|------|\n| cell |\n");
    assert_eq!(markdown(&[], &[]), "||\n||\n");
}

#[test]
fn thousands_are_set_apart() {
    for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(thousands(number), text);
    }
}
