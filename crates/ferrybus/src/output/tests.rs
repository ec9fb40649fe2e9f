use super::*;

#[test]
fn progress_shows_a_bar_where_the_end_is_known() {
    let told = |total, done| Progress { what: "removed", total, next: None, shown: false }.text(done);
    assert_eq!(told(Some(480), 120), "removed [#####---------------] 120 of 480");
    assert_eq!(told(Some(1), 1), "removed [####################] 1 of 1");
    assert_eq!(told(Some(0), 0), "removed [--------------------] 0 of 0");
    assert_eq!(told(None, 7), "removed 7");
}

#[test]
fn control_characters_for_a_terminal_are_escaped() {
    assert_eq!(printable("a\nb\u{1b}[2J é"), "a\\nb\\u{1b}[2J é");
}
