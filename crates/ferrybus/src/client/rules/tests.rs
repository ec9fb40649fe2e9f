use clap::Parser as _;

use super::*;
use crate::arguments::{Arguments, Command, RuleCommand};

fn parsed(options: &[&str]) -> RuleArguments {
    let line = ["ferrybus", "rule", "create", "events", "audit", "big"];
    match Arguments::try_parse_from(line.iter().chain(options)).unwrap().command {
        Some(Command::Rule(RuleCommand::Create(arguments))) => arguments,
        other => panic!("{other:?}"),
    }
}

#[test]
fn filters_are_read_and_told_again() {
    let cases: [(&[&str], &str); 6] = [
        (&["--all"], "all"),
        (&["--none"], "none"),
        (&["--sql", "amount > 100"], "sql amount > 100"),
        (&["--correlation", "label=red"], "correlation label=red"),
        (&["--correlation", "Session_Id=a=b"], "correlation session-id=a=b"),
        (&["--correlation", "n:=5", "--correlation", "sure:=true"], "correlation n:=5, sure:=true"),
    ];
    for (options, expected) in cases {
        let filter = filter(&parsed(options)).unwrap().unwrap();
        assert_eq!(filter_text(&filter), expected, "{options:?}");
    }
    assert!(filter(&parsed(&[])).unwrap().is_none());
}

#[test]
fn values_of_every_type_are_told_as_people_write_them() {
    let table = [
        (Value::Text("2026".into()), "n=2026", json!("2026")),
        (Value::Bool(true), "n:=true", json!(true)),
        (Value::Int(-5), "n:=-5", json!(-5)),
        (Value::Double(1.5), "n:=1.5", json!(1.5)),
        (Value::Double(f64::NEG_INFINITY), "n:=-inf", json!("-inf")),
        (
            Value::Timestamp(1_767_323_045_000),
            "n:=2026-01-02T03:04:05.000Z",
            json!("2026-01-02T03:04:05.000Z"),
        ),
        (Value::Duration(864_050_000_000), "n:=P1DT5S", json!("P1DT5S")),
        (Value::Duration(-1), "n:=-PT0.0000001S", json!("-PT0.0000001S")),
        (
            Value::Uuid([0x1f; 16]),
            "n:=1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f",
            json!("1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f"),
        ),
        (Value::Binary([1, 2, 255].into()), "n:=AQL/", json!("AQL/")),
    ];
    for (value, text, object) in table {
        let filter = rules::correlation(Vec::new(), vec![("n".to_owned(), value.clone())]).unwrap();
        assert_eq!(filter_text(&filter), format!("correlation {text}"), "{value:?}");
        let rule = Rule { name: "r".into(), filter, action: None };
        assert_eq!(json(&rule)["filter"]["properties"]["n"], object, "{value:?}");
    }
}

#[test]
fn text_that_is_no_filter_is_refused_with_the_reason() {
    let cases: [(&[&str], &str); 5] = [
        (&["--sql", "amount >"], "the filter `amount >` cannot be read at"),
        (&["--correlation", "label"], "expected `name=text`"),
        (&["--correlation", "=x"], "expected `name=text`"),
        (&["--correlation", "n:=five"], "expected `name=text`"),
        (&["--correlation", "n:=[1]"], "expected `name=text`"),
    ];
    for (options, expected) in cases {
        let failure = filter(&parsed(options)).unwrap_err().to_string();
        assert!(failure.contains(expected), "{options:?}: {failure}");
    }
    let failure = NewAction::read(&parsed(&["--action", "SET"])).err().unwrap().to_string();
    assert!(failure.contains("the action `SET` cannot be read"), "{failure}");
}

#[test]
fn rules_are_objects_with_the_type_of_their_filter() {
    let rule = |options: &[&str]| {
        let arguments = parsed(options);
        let action = NewAction::read(&arguments).unwrap().after(None);
        let filter = filter(&arguments).unwrap().unwrap();
        json(&Rule { name: "r".into(), filter, action })
    };
    assert_eq!(
        rule(&["--sql", "n = 1", "--action", "SET m = 2"]),
        json!({ "name": "r", "filter": { "type": "sql", "sql": "n = 1", "parameters": {} }, "action": "SET m = 2" })
    );
    assert_eq!(
        rule(&["--correlation", "content-type=text", "--correlation", "n:=1.5"])["filter"],
        json!({ "type": "correlation", "correlation": { "content_type": "text" }, "properties": { "n": 1.5 } })
    );
    assert_eq!(rule(&["--none", "--action", ""])["action"], Json::Null);
}
