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
fn what_a_terminal_would_act_on_is_escaped() {
    let mut table = Table::new(&["A"], 1);
    table.row(["x\n\u{1b}[2J".into()]);
    assert_eq!(table.lines(), ["A", "x\\n\\u{1b}[2J"]);
}
