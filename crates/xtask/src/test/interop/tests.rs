use std::time::Duration;

use super::super::expectations::Status;
use super::{cases, read};

#[test]
fn results_are_read_case_by_case() {
    let read =
        cases(r#"[{"case":"send","status":"passed"},{"case":"peek","status":"skipped","detail":"none"}]"#)
            .unwrap();
    let read: Vec<_> =
        read.iter().map(|case| (case.name.as_str(), case.status, case.detail.as_str())).collect();
    assert_eq!(read, [("send", Status::Passed, ""), ("peek", Status::Skipped, "none")]);
}

#[test]
fn results_with_an_unknown_status_are_refused() {
    assert!(cases(r#"[{"case":"send","status":"ok"}]"#).is_err());
    assert!(cases("{}").is_err());
}

#[test]
fn a_suite_is_a_name_and_a_command_and_the_rest_has_defaults() {
    let folder = std::env::temp_dir().join(format!("xtask-suite-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("suite.toml");
    std::fs::write(&file, "name = \"x\"\nsetup = \"make\"\nrun = \"./x\"\n").unwrap();
    let suite = read(&file).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!((suite.name.as_str(), suite.run.as_str()), ("x", "./x"));
    assert_eq!(suite.setup, ["make"]);
    assert_eq!(suite.limit, Duration::from_secs(900));
}
