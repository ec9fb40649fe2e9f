use super::*;

/// One hundred times, of which the slowest is `p99` microseconds and the others a tenth of it.
fn times(p99: u64) -> Vec<Duration> {
    let mut all = vec![Duration::from_micros(p99 / 10); 99];
    all.push(Duration::from_micros(p99));
    all
}

#[test]
fn times_are_pooled_and_pairs_are_compared_one_by_one() {
    let mut spells = Spells::default();
    for (alone, beside) in [(100, 150), (1_000, 9_000), (200, 400)] {
        let looked = Looked { a_second: 100.0, median_ms: 2.0, slowest_ms: 7.5 };
        spells.take(times(alone), times(beside), looked);
    }
    let listed = ListingResult { what: "w".to_owned(), spells: Ok(spells) };
    assert!(!listed.is_broken());
    // Of three hundred times, sorted, the 50th and the 99th of each hundred: of the slow pair nearly all are among the last.
    assert_eq!(listed.row(), ["w", "20, 40", "100, 900", "9.00", "2.00", "≤ 2", "100", "2.00", "7.50"]);
}

#[test]
fn a_run_without_a_result_says_why() {
    let listed = ListingResult { what: "w".to_owned(), spells: Err("no answer".to_owned()) };
    assert!(listed.is_broken());
    assert_eq!(listed.row(), ["w", "no result: no answer"]);
}

#[test]
fn percentiles_are_taken_of_all_times() {
    let all: Vec<Duration> = (0..100).rev().map(Duration::from_micros).collect();
    assert_eq!(Times::of(&all), Times { p50: 50.0, p99: 99.0 });
    assert_eq!(Times::of(&[]), Times { p50: 0.0, p99: 0.0 });
}

#[test]
fn the_configuration_has_as_many_queues_as_are_counted() {
    let text = configuration();
    assert_eq!(text.matches("[[queue]]").count() as u64, QUEUES);
    assert!(text.contains(&format!("name = \"{SENT}\"")));
}
