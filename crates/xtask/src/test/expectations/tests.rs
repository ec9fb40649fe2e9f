use super::{Case, Counts, Expectations, Status};

fn case(name: &str, status: Status) -> Case {
    Case { name: name.to_owned(), status, detail: "Traceback\nValueError: no".to_owned() }
}

/// Lines of the file about one case; the failure of [`case`] is `ValueError: no`.
const NONE: &str = "";
const SKIPPED: &str = "[rhea]\n\"plain/peek\" = \"rhea has no such call\"\n";
const FAILED: &str =
    "[rhea]\n\"plain/peek\" = { reason = \"rhea is wrong\", failure = \"ValueError: no\" }\n";
const FAILED_OTHERWISE: &str =
    "[rhea]\n\"plain/peek\" = { reason = \"rhea is wrong\", failure = \"ValueError\" }\n";

#[test]
fn listed_cases_end_as_their_lines_say_and_no_others() {
    let cases = [
        // status, line, expected counts as passed, failed, skipped
        (Status::Passed, NONE, (1, 0, 0)),
        (Status::Failed, NONE, (0, 1, 0)),
        (Status::Skipped, NONE, (0, 1, 0)),
        (Status::Passed, SKIPPED, (0, 1, 0)),
        (Status::Failed, SKIPPED, (0, 1, 0)),
        (Status::Skipped, SKIPPED, (0, 0, 1)),
        (Status::Passed, FAILED, (0, 1, 0)),
        (Status::Failed, FAILED, (0, 0, 1)),
        (Status::Skipped, FAILED, (0, 1, 0)),
        (Status::Failed, FAILED_OTHERWISE, (0, 1, 0)),
    ];
    for row @ (status, text, (passed, failed, skipped)) in cases {
        let judged = Expectations::read(text).unwrap().judge("rhea", &[case("plain/peek", status)]);
        assert_eq!(judged.counts, Counts { passed, failed, skipped }, "{row:?}");
    }
}

#[test]
fn a_failure_for_another_reason_is_told_with_both() {
    let judged =
        Expectations::read(FAILED_OTHERWISE).unwrap().judge("rhea", &[case("plain/peek", Status::Failed)]);
    let [problem] = judged.problems.as_slice() else { panic!("{judged:?}") };
    assert_eq!(problem.title, "`plain/peek` failed: ValueError: no; expectations.toml says: ValueError");
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
    for text in [
        "[rhea]\npeek = \"\"\n",
        "[rhea]\npeek = 1\n",
        "rhea = \"x\"\n",
        "[rhea]\npeek = { reason = \"x\" }\n",
        "[rhea]\npeek = { reason = \"x\", failure = \" \" }\n",
        "[rhea]\npeek = { reason = \"x\", failure = \"y\", more = 1 }\n",
    ] {
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
