use super::{markdown, thousands};

#[test]
fn columns_are_as_wide_as_their_widest_cell() {
    let text = markdown(&["suite", "passed"], &[vec!["a-long-name".into(), "3".into()], vec!["b".into()]]);
    assert_eq!(
        text,
        "| suite       | passed |\n|-------------|-------:|\n| a-long-name |      3 |\n| b           |        |\n"
    );
}

#[test]
fn thousands_are_set_apart() {
    for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(thousands(number), text);
    }
}
