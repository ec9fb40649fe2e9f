mod print;

use proptest::prelude::*;

use super::*;
use crate::limits::MAX_FILTER_CHARS;
use crate::sql::SqlFilter;

fn tree(text: &str) -> Result<Predicate, ParseError> {
    let mut parameters = Parameters::new();
    parameters.set("@p", Value::Int(1));
    let cursor = Cursor::new(text, MAX_FILTER_CHARS, &[])?;
    Parser::new(cursor, &parameters).filter()
}

fn read(text: &str) -> Predicate {
    tree(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn operators_bind_in_the_order_of_sql_92() {
    let cases = [
        ("a = 1 OR b = 2 AND c = 3", "(a = 1) OR ((b = 2) AND (c = 3))"),
        ("a = 1 AND b = 2 OR c = 3", "((a = 1) AND (b = 2)) OR (c = 3)"),
        ("NOT a = 1 AND b = 2", "(NOT (a = 1)) AND (b = 2)"),
        ("NOT a = 1 OR b = 2", "(NOT (a = 1)) OR (b = 2)"),
        ("NOT NOT a = 1", "NOT (NOT (a = 1))"),
        ("a + 1 = b * 2", "(a + 1) = (b * 2)"),
        ("a + b * c = 1", "(a + (b * c)) = 1"),
        ("a - b - c = 1", "((a - b) - c) = 1"),
        ("a - (b - c) = 1", "(a - (b - c)) = 1"),
        ("a * b % c / d = 1", "(((a * b) % c) / d) = 1"),
        ("-a * b = 1", "((-a) * b) = 1"),
        ("a - -1 = 1", "(a - (-1)) = 1"),
        ("- + - a = 1", "(-(+(-a))) = 1"),
        ("a LIKE b + '%' AND c IS NULL", "(a LIKE (b + '%')) AND (c IS NULL)"),
        (
            "a LIKE b + '%' ESCAPE 'x' + 'y' OR c IS NULL",
            "(a LIKE (b + '%') ESCAPE ('x' + 'y')) OR (c IS NULL)",
        ),
        ("NOT a IN (1, b + 2) AND c NOT IN (3)", "(NOT (a IN (1, (b + 2)))) AND (c NOT IN (3))"),
        ("((a)) = ((1))", "a = 1"),
        ("((a = 1))", "a = 1"),
        ("(a + 1) * 2 > 3", "((a + 1) * 2) > 3"),
        ("NOT EXISTS(a) OR NOT EXISTS(b)", "(NOT EXISTS(a)) OR (NOT EXISTS(b))"),
    ];
    for (text, same) in cases {
        assert_eq!(read(text), read(same), "{text}");
    }
    assert_ne!(read("(a = 1 OR b = 2) AND c = 3"), read("a = 1 OR b = 2 AND c = 3"));
    assert_ne!(read("NOT (a = 1 AND b = 2)"), read("NOT a = 1 AND b = 2"));
}

#[test]
fn keywords_scopes_and_functions_have_any_case() {
    let cases = [
        ("a = 1 and not b like 'x' or c is not null", "a = 1 AND NOT b LIKE 'x' OR c IS NOT NULL"),
        ("exists(a) oR a iN (true, False, nUll)", "EXISTS(a) OR a IN (TRUE, FALSE, NULL)"),
        ("SYS.label = 'x'", "sys.Label = 'x'"),
        ("sys.Subject = 'x'", "sys.Label = 'x'"),
        ("sys.[Label] = 'x'", "sys.\"Label\" = 'x'"),
        ("USER.a = 1", "a = 1"),
        ("user . [a] = 1", "\"a\" = 1"),
        ("PROPERTY('a') = P('b')", "p('a') = property('b')"),
        ("NEWID() = a", "newid ( ) = a"),
        ("@P = a", "1 = a"),
    ];
    for (text, same) in cases {
        assert_eq!(read(text), read(same), "{text}");
    }
}

#[test]
fn names_that_are_words_elsewhere_are_properties_here() {
    for text in
        ["sys = 1", "user = 1", "p = 1", "newid = 1", "set = 1", "remove = 1", "[and] = 1", "user.[or] = 1"]
    {
        let Predicate::Compare { left: Expr::Property(Named::Known(Property::User(_))), .. } = read(text)
        else {
            panic!("{text}")
        };
    }
    assert!(
        matches!(read("sys.Nope = 1"), Predicate::Compare { left: Expr::Property(Named::Unknown(name)), .. } if &*name == "Nope")
    );
}

#[test]
fn the_whole_range_of_integers_can_be_written() {
    let cases =
        [("a = 9223372036854775807", i64::MAX), ("a = -9223372036854775808", i64::MIN), ("a = -0", 0)];
    for (text, expected) in cases {
        let Predicate::Compare { right, .. } = read(text) else { panic!("{text}") };
        assert_eq!(right, Expr::Constant(Value::Int(expected)), "{text}");
    }
}

#[test]
fn an_error_says_where_what_was_found_and_what_was_expected() {
    let first = "a value, `NOT`, `EXISTS` or `(`";
    let after_value = "a comparison, `IN`, `LIKE` or an arithmetic operator";
    let after_truth = "`AND`, `OR` or the end";
    let cases = [
        ("", 1, 1, format!("expected {first}, found the end")),
        ("  ", 1, 3, format!("expected {first}, found the end")),
        ("a", 1, 2, format!("expected {after_value}, found the end")),
        ("TRUE", 1, 5, format!("expected {after_value}, found the end")),
        ("a AND b = 1", 1, 3, format!("expected {after_value}, found `AND`")),
        ("a = 1 AND b", 1, 12, format!("expected {after_value}, found the end")),
        ("a = 1 b = 2", 1, 7, format!("expected {after_truth}, found `b`")),
        ("a = b = c", 1, 7, format!("expected {after_truth}, found `=`")),
        ("a = 1 + 2 > 3", 1, 11, format!("expected {after_truth}, found `>`")),
        ("a = 1 AND", 1, 10, format!("expected {first}, found the end")),
        ("a = 1\nAND\n  OR", 3, 3, format!("expected {first}, found `OR`")),
        ("größe = 'ü' ODER b = 1", 1, 13, format!("expected {after_truth}, found `ODER`")),
        ("a =", 1, 4, "expected a value, found the end".to_owned()),
        ("a = = 1", 1, 5, "expected a value, found `=`".to_owned()),
        ("a = NOT b", 1, 5, "expected a value, found `NOT`".to_owned()),
        ("a = EXISTS(b)", 1, 5, "expected a value, found `EXISTS`".to_owned()),
        ("a = (b = 1)", 1, 8, "expected an operator or `)`, found `=`".to_owned()),
        ("a == 1", 1, 4, "expected a value, found `=`".to_owned()),
        ("(a = 1", 1, 7, "expected an operator or `)`, found the end".to_owned()),
        ("(a = 1) + 2 = 3", 1, 9, format!("expected {after_truth}, found `+`")),
        ("a = 1)", 1, 6, format!("expected {after_truth}, found `)`")),
        ("a IN 1", 1, 6, "expected `(`, found `1`".to_owned()),
        ("a IN ()", 1, 7, "expected a value, found `)`".to_owned()),
        ("a IN (1 2)", 1, 9, "expected `,`, `)` or an arithmetic operator, found `2`".to_owned()),
        ("a NOT = 1", 1, 7, "expected `IN` or `LIKE`, found `=`".to_owned()),
        ("a IS 1", 1, 6, "expected `NULL` or `NOT NULL`, found `1`".to_owned()),
        ("a IS NOT 1", 1, 10, "expected `NULL`, found `1`".to_owned()),
        ("1 IS NULL", 1, 3, "expected an operator other than `IS`, which follows a property, found `IS`".to_owned()),
        ("EXISTS a", 1, 8, "expected `(`, found `a`".to_owned()),
        ("EXISTS('a')", 1, 8, "expected the name of a property, found `'a'`".to_owned()),
        ("EXISTS(a", 1, 9, "expected `)`, found the end".to_owned()),
        ("sys. = 1", 1, 6, "expected the name of a property, found `=`".to_owned()),
        ("sys.and = 1", 1, 5, "expected the name of a property, found `and`".to_owned()),
        ("a.b = 1", 1, 1, "expected `sys` or `user` in front of a dot; a name with a dot in it stands in brackets, found `a`".to_owned()),
        ("a = @q", 1, 5, "parameter `@q` has no value".to_owned()),
        ("a = f(1)", 1, 5, "there is no function `f`".to_owned()),
        ("newid(1) = 1", 1, 7, "expected `)`, found `1`".to_owned()),
        ("p() = 1", 1, 3, "expected a value, found `)`".to_owned()),
        ("p('a' = 1", 1, 7, "expected an arithmetic operator or `)`, found `=`".to_owned()),
        ("a = 9223372036854775808", 1, 5, "this number is too large".to_owned()),
        ("a = -9223372036854775809", 1, 6, "this number is too large".to_owned()),
        ("a LIKE 'x' ESCAPE ''", 1, 8, "the escape of a pattern is one character".to_owned()),
        ("a LIKE 'x!' ESCAPE '!'", 1, 8, "the pattern ends in its escape character".to_owned()),
        ("a = 1; b = 2", 1, 6, format!("expected {after_truth}, found `;`")),
        ("SET a = 1", 1, 5, format!("expected {after_value}, found `a`")),
        ("a LIKE 'x' ESCAPE", 1, 18, "expected a value, found the end".to_owned()),
        ("a = 'x", 1, 5, "this string has no end".to_owned()),
    ];
    for (text, line, column, expected) in cases {
        let error = tree(text).expect_err(text);
        assert_eq!(
            (error.at.line, error.at.column, error.problem.to_string()),
            (line, column, expected),
            "{text}"
        );
        assert!(text.is_char_boundary(error.at.offset), "{text}");
    }
}

#[test]
fn nesting_ends_at_its_limit() {
    let parentheses = |depth: usize| format!("{}a = 1{}", "(".repeat(depth), ")".repeat(depth));
    let negations = |depth: usize| format!("{}a = 1", "NOT ".repeat(depth));
    let signs = |depth: usize| format!("{}a = 1", "- ".repeat(depth));
    let lookups = |depth: usize| format!("{}'a'{} = 1", "p(".repeat(depth), ")".repeat(depth));
    let forms: [&dyn Fn(usize) -> String; 4] = [&parentheses, &negations, &signs, &lookups];
    for form in forms {
        assert!(tree(&form(MAX_NESTING)).is_ok());
        let error = tree(&form(MAX_NESTING + 1)).unwrap_err();
        assert_eq!(error.problem, Problem::TooDeep, "{error}");
    }
}

#[test]
fn the_deepest_tree_fits_half_the_stack_of_a_thread() {
    let deepest = [
        format!("{}a{} = 1", "(1 OR 1 AND 1 = 1 + 1 * -".repeat(0) + &"-(".repeat(32), ")".repeat(32)),
        format!("{}a = 1{}", "a = 1 OR a = 1 AND NOT(".repeat(32), ")".repeat(32)),
        format!("{}a{} = 1", "1 + 1 * -(".repeat(32), ")".repeat(32)),
    ];
    let walk = move || {
        for text in deepest {
            let filter =
                SqlFilter::parse(&text, Parameters::new()).unwrap_or_else(|error| panic!("{text}: {error}"));
            drop(filter.matches(&crate::PropertySet::new(), &mut || 0));
        }
    };
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(walk).unwrap().join().unwrap();
}

#[test]
fn long_chains_are_flat() {
    let sum = format!("a{} = 1", " + a".repeat(250));
    let Predicate::Compare { left: Expr::Chain { rest, .. }, .. } = read(&sum) else { panic!() };
    assert_eq!(rest.len(), 250);
    let or = format!("a = 1{}", " OR a = 1".repeat(110));
    let Predicate::Or(parts) = read(&or) else { panic!() };
    assert_eq!(parts.len(), 111);
}

#[test]
fn a_filter_ends_at_its_limit() {
    let text = |chars: usize| format!("a = '{}'", "ä".repeat(chars - 6));
    assert!(tree(&text(MAX_FILTER_CHARS)).is_ok());
    let error = tree(&text(MAX_FILTER_CHARS + 1)).unwrap_err();
    assert_eq!(error.problem, Problem::TooLong { limit: MAX_FILTER_CHARS });
    assert_eq!((error.at.line, error.at.column), (1, MAX_FILTER_CHARS + 1));
}

/// Texts of conditions, with more parentheses and white space than needed.
fn condition() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just("a".to_owned()),
        Just("[b.c]".to_owned()),
        Just("sys.To".to_owned()),
        Just("sys.Nope".to_owned()),
        Just("-5".to_owned()),
        Just("2.5".to_owned()),
        Just("'it''s'".to_owned()),
        Just("NULL".to_owned()),
        Just("TRUE".to_owned()),
        Just("newid()".to_owned()),
        Just("p('x' + a)".to_owned()),
    ]
    .prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(&["+", "-", "*", "/", "%"][..]), inner.clone())
                .prop_map(|(left, sign, right)| format!("{left} {sign} {right}")),
            inner.clone().prop_map(|inner| format!("( {inner})")),
            inner.prop_map(|inner| format!("- {inner}")),
        ]
    });
    let compare = prop::sample::select(&["=", "<>", "!=", "<", "<=", ">", ">="][..]);
    let leaf = prop_oneof![
        (value.clone(), compare, value.clone())
            .prop_map(|(left, sign, right)| format!("{left} {sign} {right}")),
        (
            value.clone(),
            prop::collection::vec(value.clone(), 1..4),
            prop::sample::select(&["IN", "NOT IN"][..])
        )
            .prop_map(|(value, list, op)| format!("{value} {op} ({})", list.join(", "))),
        (value.clone(), value.clone(), any::<bool>()).prop_map(|(value, pattern, escaped)| {
            format!("{value} LIKE {pattern}{}", if escaped { " ESCAPE '!'" } else { "" })
        }),
        Just("a IS NOT NULL".to_owned()),
        Just("EXISTS(sys.[Label])".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("{left} AND {right}")),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| format!("{left}\nOR {right}")),
            inner.clone().prop_map(|inner| format!("({inner} )")),
            inner.prop_map(|inner| format!("NOT {inner}")),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_as_the_same_tree(text in condition()) {
        prop_assume!(text.chars().count() <= MAX_FILTER_CHARS / 4);
        let tree = tree(&text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        let printed = print::predicate(&tree);
        prop_assert_eq!(read(&printed), tree, "{}", printed);
    }

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,60}") {
        drop(tree(&text));
    }

    #[test]
    fn no_order_of_words_makes_it_panic(
        words in prop::collection::vec(prop::sample::select(&[
            "a", "sys", ".", "(", ")", ",", "=", "<", "+", "-", "*", "AND", "OR", "NOT", "IS", "NULL", "IN",
            "LIKE", "ESCAPE", "EXISTS", "'x'", "[y]", "1", "2.5", "@p", "p", "newid", ";", "SET", "TRUE",
        ][..]), 0..16),
    ) {
        let text = words.join(" ");
        if let Err(error) = tree(&text) {
            prop_assert!(error.at.offset <= text.len());
        }
    }
}
