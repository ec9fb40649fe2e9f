use super::*;

/// Demand, what is said, and what the misfit says, if it does not fit.
const ROWS: [(&str, &str, Option<&str>); 24] = [
    ("5", "5", None),
    ("5", "5u64", Some("demanded 5, found 5u64")),
    ("?", "5", None),
    ("?", "null", Some("demanded ?")),
    ("?uint", "5u64", Some("demanded ?uint, found 5u64")),
    ("?positive", "0", Some("demanded ?positive, found 0")),
    ("?positive", "7u64", None),
    ("?timestamp", "1700000000000ms", None),
    ("\"${id7}\"", "\"00000000-0000-4000-8000-000000000007\"", None),
    ("'a'", "\"a\"", Some("demanded 'a', found \"a\"")),
    ("source(address: \"q\")", "source(address: \"q\", durable: 0)", None),
    ("source(address: \"q\")", "source(address: \"p\")", Some("address: demanded \"q\", found \"p\"")),
    ("source()", "target()", Some("demanded source, found target()")),
    ("exactly source(address: \"q\")", "source(address: \"q\", durable: 0)", Some("durable: demanded null")),
    ("{\"a\": 1}", "{\"a\": 1, \"b\": 2}", None),
    ("{\"a\": 1}", "{\"b\": 2}", Some("demanded a map with")),
    ("{\"a\": 1}", "{\"a\": 2}", Some("\"a\": demanded 1, found 2")),
    ("exactly data b\"x\"", "data b\"y\"", Some("data: demanded b\"x\"")),
    (
        "exactly application-properties {\"a\": 1}",
        "application-properties {\"a\": 1, \"b\": 2}",
        Some("a map of 1"),
    ),
    ("[1, 2]", "[1]", Some("demanded a list of 2")),
    ("array['b']", "array['a', 'b']", None),
    ("array['b']", "array['a', 'c']", Some("demanded an array with")),
    ("encoded(data b\"x\")", "encoded(properties() data b\"x\")", None),
    ("described(5u64, \"x\")", "described(6u64, \"x\")", Some("demanded 5u64, found 6u64")),
];

#[test]
fn a_demand_looks_at_what_it_names() {
    for (demand, said, expected) in ROWS {
        let term = Term::read_all(demand).unwrap().remove(0);
        let fit = term.fits(&value(said), &mut Variables::new(0)).map_err(|misfit| misfit.to_string());
        match expected {
            None => assert_eq!(fit, Ok(()), "{demand} and {said}"),
            Some(text) => {
                let misfit = fit.expect_err(demand);
                assert!(misfit.contains(text), "{demand} and {said}: {misfit}");
            }
        }
    }
}

#[test]
fn a_variable_has_the_first_value_that_it_meets() {
    let mut variables = Variables::new(0);
    let term = Term::read_all("[$a, $a]").unwrap().remove(0);
    assert!(term.fits(&value("[1, 1]"), &mut variables).is_ok());
    assert_eq!(variables.get("a"), Some(value("1")));
    let misfit = term.fits(&value("[1, 2]"), &mut variables).expect_err("another").to_string();
    assert!(misfit.contains("demanded 1, found 2"), "{misfit}");
}
