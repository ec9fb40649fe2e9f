use super::read;
use crate::counts::Counts;

const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" failures="1" errors="0" time="1.2">
    <testsuite name="amqp-codec" tests="2" disabled="0" errors="0" failures="1">
        <testcase name="types::tests::a_short_one" classname="amqp-codec" time="0.010">
        </testcase>
        <testcase name="types::tests::a_wrong_one" classname="amqp-codec" time="0.010">
            <failure message="thread &apos;types::tests&apos; panicked at src/types/tests.rs:7" type="test failure with exit code 101">left: 1</failure>
            <system-out>
running 1 test</system-out>
            <system-err>assertion failed</system-err>
        </testcase>
    </testsuite>
    <testsuite name="sim" tests="1" disabled="0" errors="0" failures="0">
        <testcase name="world::tests::one" classname="sim" time="9.5"></testcase>
    </testsuite>
</testsuites>"#;

#[test]
fn each_binary_of_the_report_is_a_row_with_its_failures() {
    let rows = read(REPORT).unwrap();
    let counts: Vec<_> = rows.iter().map(|row| (row.suite.as_str(), row.counts)).collect();
    let codec = Counts { passed: 1, failed: 1, skipped: 0 };
    assert_eq!(counts, [("amqp-codec", codec), ("sim", Counts::success())]);
    let failure = &rows[0].failures[0];
    assert_eq!(failure.title, "types::tests::a_wrong_one");
    assert!(failure.detail.contains("left: 1") && failure.detail.contains("assertion failed"));
}

#[test]
fn a_report_that_is_cut_off_is_an_error() {
    assert!(read(&REPORT[..REPORT.len() / 2]).is_err());
}
