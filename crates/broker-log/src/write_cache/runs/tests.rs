use super::*;

fn run(owner: u16, start: u64, bytes: u64) -> Run {
    Run { owner: Owner(owner), start, bytes, dead: 0 }
}

#[test]
fn a_record_is_in_the_run_that_begins_before_it() {
    let mut runs = Runs::default();
    assert!(runs.holding(0).is_none());
    runs.push(run(1, 100, 50));
    assert_eq!(runs.holding(149).unwrap().owner, Owner(1));
    runs.push(run(2, 150, 50));
    runs.push(run(3, 200, 50));
    for (at, owner) in [(100, 1), (149, 1), (150, 2), (199, 2), (200, 3), (1_000, 3)] {
        assert_eq!(runs.holding(at).unwrap().owner, Owner(owner), "{at}");
    }
    assert!(runs.holding(99).is_none());
    runs.holding(160).unwrap().release(160, 30);
    assert_eq!(runs.as_slice().iter().map(Run::live).collect::<Vec<_>>(), [50, 20, 50]);
}

#[test]
fn a_chunk_of_one_owner_takes_no_further_memory() {
    let mut runs = Runs::default();
    runs.push(run(1, 0, 10));
    assert_eq!(runs.memory(), 0);
    runs.push(run(2, 10, 10));
    assert_eq!(runs.memory(), 2 * RUN_BYTES);
}
