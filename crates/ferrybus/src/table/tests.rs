use super::*;

#[test]
fn columns_are_as_wide_as_their_widest_cell_and_numbers_end_in_line() {
    let mut table = Table::new(&["NAME", "STATUS", "ACTIVE"], 2);
    table.row(["orders".into(), "Active".into(), "12".into()]);
    table.row(["é".into(), "SendDisabled".into(), "1234567".into()]);
    let expected =
        ["NAME    STATUS         ACTIVE", "orders  Active             12", "é       SendDisabled  1234567"];
    assert_eq!(table.lines(), expected);
}

#[test]
fn letters_that_take_two_columns_of_a_terminal_count_for_two() {
    let mut table = Table::new(&["NAME", "ACTIVE"], 1);
    table.row(["日本".into(), "1".into()]);
    table.row(["abcde".into(), "2".into()]);
    assert_eq!(table.lines(), ["NAME   ACTIVE", "日本        1", "abcde       2"]);
}

#[test]
fn control_characters_for_a_terminal_are_escaped() {
    let mut table = Table::new(&["A"], 1);
    table.row(["x\n\u{1b}[2J".into()]);
    assert_eq!(table.lines(), ["A", "x\\n\\u{1b}[2J"]);
}
