//! Rules of a subscription, over its management node.

use super::driver::Driver;
use crate::replayed::broker_with;

const DONE: &str = r#"{"statusCode": 200i32}"#;

/// A rule as a page shows it, by its filter.
fn shown(name: &str, filter: &str) -> String {
    format!(
        r#"{{"rule-description": described(1335734829060u64, [{filter}, described(1335734829061u64, []), "{name}", ?timestamp])}}"#
    )
}

#[test]
fn scripted_dotnet_lists_two_hundred_and_one_rules_in_pages_by_name() {
    let broker = broker_with(&["t", "t/Subscriptions/s"]);
    let mut driver = Driver::connect(&broker, 1);
    let node = driver.management("t/Subscriptions/s");
    let mut rules = vec![shown("$$Default", "described(83483426823u64, [])")];
    for number in 0..200 {
        rules.push(shown(&format!("rule{number:03}"), r#"described(83483426822u64, ["n = 7", 20i32])"#));
    }
    // Made in another order than that of their names.
    for number in (0..200).rev() {
        let body = format!(
            r#"{{"rule-name": "rule{number:03}", "rule-description": {{"sql-filter": {{"expression": "n = 7"}},
    "sql-rule-action": null, "rule-name": "rule{number:03}"}}}}"#
        );
        driver.request(&node, "add-rule", None, &body, DONE);
    }
    for (number, rules) in rules.chunks(100).enumerate() {
        let body = format!(r#"{{"top": 100i32, "skip": {}i32}}"#, number * 100);
        let answer = format!(r#"{DONE} value {{"rules": [{}]}}"#, rules.join(", "));
        driver.request(&node, "enumerate-rules", None, &body, &answer);
    }
    let behind = r#"{"top": 100i32, "skip": 201i32}"#;
    let nothing = format!(r#"{DONE} value {{"rules": []}}"#);
    driver.request(&node, "enumerate-rules", None, behind, &nothing);
    driver.close();
}
