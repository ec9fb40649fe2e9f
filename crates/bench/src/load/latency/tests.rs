use super::Latencies;

#[test]
fn percentiles_are_those_of_all_times() {
    let mut latencies = Latencies::default();
    for microseconds in (1..=1_000).rev() {
        latencies.note(microseconds * 1_000);
    }
    assert_eq!(latencies.percentiles(), Some([501.0, 991.0, 1_000.0]));
}

#[test]
fn without_times_there_are_no_percentiles() {
    assert_eq!(Latencies::default().percentiles(), None);
}
