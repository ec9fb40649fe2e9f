use super::*;

#[test]
fn a_page_says_in_its_head_whether_more_follow() {
    let last = format!("<feed><link rel=\"self\"/>{}", "<entry></entry>".repeat(300));
    let with_next =
        format!("<feed><link rel=\"self\"/><link rel=\"next\"/>{}", "<entry></entry>".repeat(300));
    assert!(!has_next(last.as_bytes()) && has_next(with_next.as_bytes()));
    assert!(!has_next(b"") && has_next(b"<link rel=\"next\"/>"));
    assert_eq!(occurrences(last.as_bytes(), b"<entry>"), 300);
}
