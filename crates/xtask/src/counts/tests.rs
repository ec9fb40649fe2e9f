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
    let rows: Vec<(&str, Counts)> = rows.iter().map(|(name, counts)| (name.as_str(), *counts)).collect();
    assert_eq!(rows, expected);
}

#[test]
fn a_build_that_fails_has_no_rows() {
    assert!(cargo_test("error[E0425]: cannot find value `x` in this scope\n").is_empty());
}
