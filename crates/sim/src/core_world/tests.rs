use super::*;
use crate::plan::{Durable, PlantedFault};
use requester::{CRASHED, GONE, LEFT, RECEIVED};

/// Whether one of many seeds breaks this promise when the fault is planted.
fn is_caught(fault: PlantedFault, promise: &str) -> bool {
    (1..200).any(|seed| {
        let mut plan = Plan::from_seed(seed);
        plan.topology.fault = Some(fault);
        run_core_world(&plan).is_err_and(|failure| failure.what.contains(promise))
    })
}

#[test]
fn promises_hold_under_every_seed() {
    let seeds = match std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 1..40,
    };
    for seed in seeds {
        if let Err(failure) = run_core_world(&Plan::from_seed(seed)) {
            panic!("{failure}; replay with SIM_SEED={seed}");
        }
    }
}

#[test]
fn one_seed_gives_one_run() {
    for seed in 1..10 {
        let plan = Plan::from_seed(seed);
        assert_eq!(run_core_world(&plan), run_core_world(&plan));
    }
}

#[test]
fn a_broker_without_durability_is_caught() {
    let caught = (1..200).any(|seed| {
        let plan = Plan { durable: Durable::No, ..Plan::from_seed(seed) };
        run_core_world(&plan).is_err_and(|failure| failure.what.contains("what was accepted arrives"))
    });
    assert!(caught, "crashes without a journal lose messages, and no oracle noticed");
}

#[test]
fn a_broker_that_loses_the_journal_of_a_failed_start_is_caught() {
    assert!(
        is_caught(PlantedFault::FailedStartsForget, "what was accepted arrives"),
        "starts began anew, and no oracle noticed"
    );
}

#[test]
fn a_broker_that_confirms_completions_too_early_is_caught() {
    assert!(
        is_caught(PlantedFault::EarlyConfirmation, "what was completed never comes back"),
        "confirmed completions were undone by crashes, and no oracle noticed"
    );
}

#[test]
fn a_broker_that_keeps_dynamic_nodes_over_a_start_is_caught() {
    assert!(
        is_caught(PlantedFault::DynamicNodesStay, "a dynamic node was there after a start"),
        "dynamic nodes outlived their connections, and no oracle noticed"
    );
}

#[test]
fn the_seeds_bring_every_kind_of_request() {
    let mut events = BTreeMap::new();
    for seed in 1..60 {
        let report = run_core_world(&Plan::from_seed(seed)).expect("promises hold");
        for (event, count) in report.events {
            *events.entry(event).or_insert(0) += count;
        }
    }
    for event in [
        "transactions committed in the core",
        "completions without an answer",
        "messages sent through an entity to one that is closed",
        BASIC_HAS_NO_TOPICS,
        EMULATOR_DELIVERS_TEN_TIMES,
        ROLLED_BACK_IS_NEVER_SCHEDULED,
        RECEIVED,
        LEFT,
        CRASHED,
        GONE,
    ] {
        assert!(events.get(event).is_some_and(|count| *count > 0), "none: {event}");
    }
}
