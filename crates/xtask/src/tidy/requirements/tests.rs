use super::{Row, placed, quoted, rows, tests_in};

#[test]
fn the_last_column_names_the_tests_of_a_statement() {
    let text = "\
| id | statement | tests |
|---|---|---|
| SET-1 | A send with `accepted`. | `a_send_is_settled`, `interop: send one` |
| SET-2 | A refusal. | open |
";
    let rows: Vec<Row<'_>> = rows(text).collect();
    let expected = [
        Row { id: "SET-1", tests: vec!["a_send_is_settled", "interop: send one"] },
        Row { id: "SET-2", tests: vec![] },
    ];
    assert_eq!(rows, expected);
}

#[test]
fn tests_are_known_by_the_place_before_them() {
    let text = "| a rule | `amqp:decode-error` | `links::one_thing`, `src/ids: another`, `interop: round-trip` |\n\
                `Connection::LIMIT` and `performative/oracle` and `max_links` are no names of tests.";
    let expected = [
        ("links::one_thing", "one_thing"),
        ("src/ids: another", "another"),
        ("interop: round-trip", "round-trip"),
    ];
    assert_eq!(placed(text).collect::<Vec<_>>(), expected);
}

#[test]
fn tests_and_cases_are_found_in_their_sources() {
    let source = "#[test]\nfn one_thing() {}\nfn helper() {}\n#[tokio::test]\nasync fn another(x: u8) {}\n";
    assert_eq!(tests_in(source).collect::<Vec<_>>(), ["one_thing", "another"]);
    let cases: Vec<_> = quoted("@suite.case(\"send one\", ttl=1)\nx = \"peek\"\n").collect();
    assert_eq!(cases, ["send one", "peek"]);
}
