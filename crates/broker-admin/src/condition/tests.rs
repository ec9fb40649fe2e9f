use super::*;

#[test]
fn tags_are_read_with_and_without_quotes() {
    let cases = [
        ("*", Match::Any),
        (" * ", Match::Any),
        ("12", Match::Tags([12].into())),
        ("\"12\"", Match::Tags([12].into())),
        ("1, \"2\" ,3", Match::Tags([1, 2, 3].into())),
        ("\"*\"", Match::Tags([].into())),
        ("", Match::Tags([].into())),
        ("abc, 99999999999999999999, -1, \"7", Match::Tags([].into())),
        ("W/\"12\"", Match::Tags([].into())),
    ];
    for (text, expected) in cases {
        assert_eq!(Match::parse(text), expected, "{text}");
    }
}

#[test]
fn only_a_star_or_the_very_tag_holds() {
    assert!(Match::Any.holds(0) && Match::parse("1,2").holds(2));
    assert!(!Match::parse("1,2").holds(3) && !Match::parse("").holds(0));
}

#[test]
fn texts_that_differ_have_other_tags_that_fit_a_number_with_a_sign() {
    let tags = ["", "a", "b", "ab", "ba"].map(tag_of_text);
    for (at, tag) in tags.iter().enumerate() {
        assert!(i64::try_from(*tag).is_ok() && !tags[..at].contains(tag), "{tags:?}");
    }
}
