use proptest::prelude::*;

use super::*;

/// The definition, letter by letter.
fn naive(pattern: &[char], escape: Option<char>, text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((first, rest)) if Some(*first) == escape => {
            let Some((literal, rest)) = rest.split_first() else { return false };
            text.split_first().is_some_and(|(next, text)| next == literal && naive(rest, escape, text))
        }
        Some(('%', rest)) => (0..=text.len()).any(|skipped| naive(rest, escape, &text[skipped..])),
        Some((first, rest)) => {
            let fits = |next: &char| *first == '_' || next == first;
            text.split_first().is_some_and(|(next, text)| fits(next) && naive(rest, escape, text))
        }
    }
}

#[test]
fn patterns_match_whole_texts() {
    let cases = [
        // pattern, escape, text, matches
        ("", None, "", true),
        ("", None, "a", false),
        ("%", None, "", true),
        ("%", None, "anything", true),
        ("abc", None, "abc", true),
        ("abc", None, "ABC", false),
        ("abc", None, "abcd", false),
        ("a%", None, "abc", true),
        ("%c", None, "abc", true),
        ("%b%", None, "abc", true),
        ("a%a", None, "a", false),
        ("a%a", None, "aa", true),
        ("_", None, "", false),
        ("_", None, "ä", true),
        ("_", None, "ab", false),
        ("a_c", None, "abc", true),
        ("%_b%_d", None, "xabcd", true),
        ("%_b%_d", None, "bd", false),
        ("a.c", None, "abc", false),
        ("50!%", Some("!"), "50%", true),
        ("50!%", Some("!"), "500", false),
        ("a!_b", Some("!"), "a_b", true),
        ("a!_b", Some("!"), "axb", false),
        ("!!", Some("!"), "!", true),
        ("%%", Some("%"), "%", true),
        ("__", Some("_"), "_", true),
        ("[a-z]", None, "b", false),
        ("[a-z]", None, "[a-z]", true),
    ];
    for case @ (pattern, escape, text, expected) in cases {
        let pattern = Pattern::new(pattern, escape).unwrap();
        assert_eq!(pattern.matches(text, &mut LikeSteps::default()), Ok(expected), "{case:?}");
    }
}

#[test]
fn an_escape_is_one_character_and_escapes_something() {
    let cases = [
        ("a", "", Err(PatternError::Escape)),
        ("a", "ab", Err(PatternError::Escape)),
        ("a", "ä", Ok(())),
        ("a!", "!", Err(PatternError::Unfinished)),
        ("%", "%", Err(PatternError::Unfinished)),
    ];
    for case @ (pattern, escape, expected) in cases {
        assert_eq!(Pattern::new(pattern, Some(escape)).map(drop), expected, "{case:?}");
    }
}

proptest! {
    #[test]
    fn matching_is_what_the_definition_says(
        pattern in "[ab%_!]{0,7}",
        text in "[abä!]{0,8}",
        escaped: bool,
    ) {
        let escape = escaped.then_some('!');
        if let Ok(compiled) = Pattern::new(&pattern, escaped.then_some("!")) {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            let found = compiled.matches(&text, &mut LikeSteps::default());
            prop_assert_eq!(found, Ok(naive(&letters(&pattern), escape, &letters(&text))));
        }
    }
}
