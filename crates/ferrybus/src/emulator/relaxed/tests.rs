use proptest::prelude::*;
use serde_json::Value;

use super::*;

#[test]
fn comments_and_trailing_commas_go() {
    let cases = [
        ("{}", "{}"),
        ("{} // end", "{} "),
        ("// first\n{}", "\n{}"),
        ("/* a */{}", " {}"),
        ("/*\n\n*/{}", "\n\n {}"),
        ("[1,]", "[1 ]"),
        ("[1, // one\n]", "[1  \n]"),
        ("[1, /* , */ ]", "[1    ]"),
        ("{\"a\":1,}", "{\"a\":1 }"),
        ("[1,2]", "[1,2]"),
        ("[1,,]", "[1, ]"),
        ("\"a // b /* c */ ,]\"", "\"a // b /* c */ ,]\""),
        ("\"\\\"//\"", "\"\\\"//\""),
        ("\"unended // ,", "\"unended // ,"),
        ("\u{feff}{}", "{}"),
    ];
    for case @ (text, expected) in cases {
        assert_eq!(to_json(text).as_deref(), Ok(expected), "{case:?}");
    }
}

#[test]
fn a_comment_without_end_is_named_by_its_line() {
    assert_eq!(to_json("{\n /* oh"), Err(OpenComment { line: 2 }));
    assert_eq!(to_json("/*/"), Err(OpenComment { line: 1 }));
}

proptest! {
    #[test]
    fn plain_json_comes_out_unchanged(texts in prop::collection::vec("\\PC{0,12}", 0..6), number in any::<i32>()) {
        let plain = serde_json::json!({ "texts": texts, "number": number, "none": null, "map": { "a": [1, 2] } });
        let text = serde_json::to_string_pretty(&plain).unwrap();
        prop_assert_eq!(to_json(&text).unwrap(), text);
    }

    #[test]
    fn relaxing_never_panics_and_keeps_line_numbers(text in "([\\[\\]{},\"\\\\/* \n1]|\\PC){0,60}") {
        if let Ok(json) = to_json(&text) {
            prop_assert_eq!(json.matches('\n').count(), text.matches('\n').count());
            let _value = serde_json::from_str::<Value>(&json);
        }
    }
}
