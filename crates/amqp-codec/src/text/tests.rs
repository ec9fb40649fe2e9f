use super::*;

#[test]
fn a_text_is_cut_between_characters() {
    // One, two, three and four bytes.
    let text = "a\u{e9}\u{20ac}\u{1f600}";
    let cases =
        [(0, 0), (1, 1), (2, 1), (3, 3), (5, 3), (6, 6), (9, 6), (10, 10), (11, 10), (usize::MAX, 10)];
    for (max, expected) in cases {
        assert_eq!(cut(text, max), &text[..expected], "{max}");
    }
    assert_eq!(cut("", 5), "");
}
