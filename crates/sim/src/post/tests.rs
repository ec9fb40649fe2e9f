use super::*;
use crate::plan::Durable;

#[test]
fn promises_hold_under_every_seed() {
    let seeds = match std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 1..40,
    };
    for seed in seeds {
        if let Err(failure) = run_post(&Plan::from_seed(seed)) {
            panic!("{failure}; replay with SIM_SEED={seed}");
        }
    }
}

#[test]
fn one_seed_gives_one_run() {
    for seed in 1..10 {
        let plan = Plan::from_seed(seed);
        assert_eq!(run_post(&plan), run_post(&plan));
    }
}

#[test]
fn a_broker_without_durability_is_caught() {
    let caught = (1..200).any(|seed| {
        let plan = Plan { durable: Durable::No, ..Plan::from_seed(seed) };
        run_post(&plan).is_err_and(|failure| failure.what.contains("what was accepted arrives"))
    });
    assert!(caught, "crashes without a journal lose messages, and no oracle noticed");
}
