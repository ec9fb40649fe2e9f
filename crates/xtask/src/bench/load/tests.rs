use serde_json::json;

use super::Outcome;

#[test]
fn a_run_with_wrong_bodies_is_no_figure() {
    assert!(Outcome(json!({"bad": 1, "send_rate": 5.0})).checked().is_err());
    assert!(Outcome(json!({"bad": 0, "send_rate": 5.0})).checked().is_ok());
}

#[test]
fn an_empty_histogram_has_no_latency() {
    let outcome = Outcome(json!({
        "ack_us": {"n": 3, "p50": 1.0, "p99": 2.0, "p999": 3.0},
        "e2e_us": {"n": 0, "p50": 0.0, "p99": 0.0, "p999": 0.0},
    }));
    assert_eq!(outcome.latency("ack_us"), Some([1.0, 2.0, 3.0]));
    assert_eq!(outcome.latency("e2e_us"), None);
}
