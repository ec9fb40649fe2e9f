use super::{Counts, cargo_test};

#[test]
fn each_test_binary_gets_its_row() {
    let text = "\
   Compiling amqp-codec v0.1.0
     Running unittests src/lib.rs (/t/debug/deps/amqp_codec-00ff)

running 2 tests
test frame::tests::a_frame_is_cut ... ok
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/it.rs (/t/debug/deps/it-11aa)
test result: FAILED. 7 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s

   Doc-tests amqp_codec
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
    let rows = cargo_test(text);
    let expected = [
        ("amqp_codec", Counts { passed: 2, failed: 0, skipped: 1 }),
        ("it", Counts { passed: 7, failed: 3, skipped: 0 }),
        ("amqp_codec (doc)", Counts::default()),
    ];
    let rows: Vec<(&str, Counts)> = rows.iter().map(|row| (row.name.as_str(), row.counts)).collect();
    assert_eq!(rows, expected);
}

#[test]
fn a_build_that_fails_has_no_rows() {
    assert!(cargo_test("error[E0425]: cannot find value `x` in this scope\n").is_empty());
}

#[test]
fn each_failed_test_is_told_with_what_it_printed() {
    let text = "\
     Running tests/it.rs (/t/debug/deps/it-11aa)
test http::one ... FAILED

failures:

---- http::one stdout ----

thread 'http::one' panicked at tests/it/http.rs:63:9:
  left: 200

---- http::two stdout ----
second


failures:
    http::one
    http::two

test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s

     Running tests/other.rs (/t/debug/deps/other-11aa)
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s
";
    let rows = cargo_test(text);
    let told: Vec<_> =
        rows[0].failures.iter().map(|(name, printed)| (name.as_str(), printed.trim())).collect();
    let first = "thread 'http::one' panicked at tests/it/http.rs:63:9:\n  left: 200";
    assert_eq!(told, [("http::one", first), ("http::two", "second")]);
    assert_eq!((rows.len(), rows[1].failures.len()), (2, 0));
}
