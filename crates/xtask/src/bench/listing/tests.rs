use super::*;

fn round(alone: f64, beside: f64) -> Round {
    let times = |p99: f64| Times { p50: p99 / 10.0, p99 };
    let looked = Looked { a_second: 100.0, median_ms: 2.0, slowest_ms: beside };
    Round { alone: times(alone), beside: times(beside), looked }
}

#[test]
fn the_ratio_is_the_median_of_the_rounds_and_the_slowest_page_that_of_all() {
    let rounds = Ok(vec![round(100.0, 150.0), round(1_000.0, 9_000.0), round(200.0, 400.0)]);
    let listed = Listed { what: "w".to_owned(), rounds };
    assert!(!listed.is_broken());
    assert_eq!(listed.row(), ["w", "20, 40", "200, 400", "2.00", "≤ 2", "100", "2.00", "9000"]);
}

#[test]
fn a_run_without_a_result_says_why() {
    let listed = Listed { what: "w".to_owned(), rounds: Err("no answer".to_owned()) };
    assert!(listed.is_broken());
    assert_eq!(listed.row(), ["w", "no result: no answer"]);
}

#[test]
fn percentiles_are_taken_of_all_times() {
    let all = (0..100).rev().map(Duration::from_micros).collect();
    assert_eq!(Times::of(all), Times { p50: 50.0, p99: 99.0 });
    assert_eq!(Times::of(Vec::new()), Times { p50: 0.0, p99: 0.0 });
}

#[test]
fn the_configuration_has_as_many_queues_as_are_counted() {
    let text = configuration();
    assert_eq!(text.matches("[[queue]]").count() as u64, QUEUES);
    assert!(text.contains(&format!("name = \"{SENT}\"")));
}
