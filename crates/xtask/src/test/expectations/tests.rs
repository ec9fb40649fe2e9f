use super::{Case, Counts, Expectations, Status};

fn case(name: &str, status: Status) -> Case {
    Case { name: name.to_owned(), status, detail: "Traceback\nValueError: no".to_owned() }
}

#[test]
fn listed_cases_may_fail_and_no_others() {
    let cases = [
        // status, listed, expected counts as passed, failed, skipped
        (Status::Passed, false, (1, 0, 0)),
        (Status::Failed, false, (0, 1, 0)),
        (Status::Skipped, false, (0, 1, 0)),
        (Status::Passed, true, (0, 1, 0)),
        (Status::Failed, true, (0, 0, 1)),
        (Status::Skipped, true, (0, 0, 1)),
    ];
    for row @ (status, listed, (passed, failed, skipped)) in cases {
        let text = if listed { "[rhea]\n\"plain/peek\" = \"rhea has no such call\"\n" } else { "" };
        let judged = Expectations::read(text).unwrap().judge("rhea", &[case("plain/peek", status)]);
        assert_eq!(judged.counts, Counts { passed, failed, skipped }, "{row:?}");
    }
}

#[test]
fn a_listed_case_that_is_gone_is_a_failure() {
    let expectations = Expectations::read("[rhea]\npeek = \"no call\"\n").unwrap();
    let judged = expectations.judge("rhea", &[case("send", Status::Passed)]);
    assert_eq!(judged.counts, Counts { passed: 1, failed: 1, skipped: 0 });
}

#[test]
fn a_suite_without_cases_is_a_failure() {
    assert_eq!(Expectations::default().judge("rhea", &[]).counts, Counts::failure());
}

#[test]
fn a_case_without_a_reason_is_refused() {
    for text in ["[rhea]\npeek = \"\"\n", "[rhea]\npeek = 1\n", "rhea = \"x\"\n"] {
        assert!(Expectations::read(text).is_err(), "{text}");
    }
}

#[test]
fn a_failure_is_told_with_the_last_line_of_its_detail_and_in_full() {
    let judged = Expectations::default().judge("rhea", &[case("send", Status::Failed)]);
    let [problem] = judged.problems.as_slice() else { panic!("{judged:?}") };
    assert_eq!(problem.title, "`send` failed: ValueError: no");
    assert_eq!(problem.detail, "Traceback\nValueError: no");
}
