use proptest::prelude::*;

use super::*;

fn words(text: &str) -> Vec<TokenKind<'_>> {
    let mut lexer = Lexer::new(text);
    let mut words = Vec::new();
    loop {
        match lexer.next() {
            Ok(Token { kind: TokenKind::End, .. }) => return words,
            Ok(token) => words.push(token.kind),
            Err(error) => panic!("{text}: {error}"),
        }
    }
}

fn error(text: &str) -> String {
    let mut lexer = Lexer::new(text);
    loop {
        match lexer.next() {
            Ok(Token { kind: TokenKind::End, .. }) => panic!("{text} has no error"),
            Ok(_) => {}
            Err(error) => return error.to_string(),
        }
    }
}

#[test]
fn each_form_of_a_word_is_read() {
    let delimited = |name: &str| TokenKind::Delimited(name.into());
    let text = |text: &str| TokenKind::Text(text.into());
    let cases = [
        ("  ", vec![]),
        ("a_1b", vec![TokenKind::Name("a_1b")]),
        ("größe", vec![TokenKind::Name("größe")]),
        ("цвет2", vec![TokenKind::Name("цвет2")]),
        ("色", vec![TokenKind::Name("色")]),
        ("[a.b c]", vec![delimited("a.b c")]),
        ("[a]]b]", vec![delimited("a]b")]),
        ("\"a\"\"b\"", vec![delimited("a\"b")]),
        ("'it''s'", vec![text("it's")]),
        ("''", vec![text("")]),
        ("'日本'", vec![text("日本")]),
        ("@p_1", vec![TokenKind::Parameter("@p_1")]),
        ("0", vec![TokenKind::Integer(0)]),
        ("18446744073709551615", vec![TokenKind::Integer(u64::MAX)]),
        ("1894.1204", vec![TokenKind::Double(1894.1204)]),
        (".5", vec![TokenKind::Double(0.5)]),
        ("2.", vec![TokenKind::Double(2.0)]),
        ("101.5E5", vec![TokenKind::Double(101.5e5)]),
        ("0.5e-2", vec![TokenKind::Double(0.005)]),
        ("1E+3", vec![TokenKind::Double(1000.0)]),
        ("a.b", vec![TokenKind::Name("a"), TokenKind::Sign("."), TokenKind::Name("b")]),
        ("a<>b", vec![TokenKind::Name("a"), TokenKind::Sign("<>"), TokenKind::Name("b")]),
        (
            "<=>=!=<>",
            vec![TokenKind::Sign("<="), TokenKind::Sign(">="), TokenKind::Sign("!="), TokenKind::Sign("<>")],
        ),
        ("-5", vec![TokenKind::Sign("-"), TokenKind::Integer(5)]),
        ("\t(\r\n,;", vec![TokenKind::Sign("("), TokenKind::Sign(","), TokenKind::Sign(";")]),
    ];
    for (input, expected) in cases {
        assert_eq!(words(input), expected, "{input}");
    }
}

#[test]
fn what_is_no_word_is_reported_at_its_place() {
    let cases = [
        ("a ? b", "line 1, column 3: expected a name, a value or an operator, found `?`"),
        ("a\n  #", "line 2, column 3: expected a name, a value or an operator, found `#`"),
        ("ä ~", "line 1, column 3: expected a name, a value or an operator, found `~`"),
        ("_a", "line 1, column 1: expected a name, a value or an operator, found `_`"),
        ("@1", "line 1, column 1: expected a name, a value or an operator, found `@`"),
        ("!", "line 1, column 1: expected a name, a value or an operator, found `!`"),
        ("12ab", "line 1, column 3: expected a name, a value or an operator, found `a`"),
        ("1E", "line 1, column 2: expected a name, a value or an operator, found `E`"),
        ("a 'bc", "line 1, column 3: this string has no end"),
        ("a 'b''", "line 1, column 3: this string has no end"),
        ("[a]]", "line 1, column 1: this name has no end"),
        ("\"a", "line 1, column 1: this name has no end"),
        ("[]", "line 1, column 1: a name has at least one character"),
        ("\"\"", "line 1, column 1: a name has at least one character"),
        ("18446744073709551616", "line 1, column 1: this number is too large"),
        ("1E999", "line 1, column 1: this number is too large"),
    ];
    for (input, expected) in cases {
        assert_eq!(error(input), expected, "{input}");
    }
}

proptest! {
    #[test]
    fn words_stand_in_order_with_white_space_between(text in "\\PC{0,40}") {
        let mut lexer = Lexer::new(&text);
        let mut end = 0;
        while let Ok(token) = lexer.next() {
            prop_assert!(token.start >= end && token.end <= text.len());
            prop_assert_eq!(text[end..token.start].trim(), "");
            end = token.end;
            if token.kind == TokenKind::End {
                prop_assert_eq!(end, text.len());
                break;
            }
            prop_assert!(token.end > token.start);
        }
    }
}
