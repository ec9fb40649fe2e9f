use super::*;
use crate::plan::{Durable, PlantedFault};

fn seeds() -> std::ops::Range<u64> {
    match std::env::var("SIM_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 1..25,
    }
}

/// Whether one of many seeds breaks this promise when the fault is planted.
fn is_caught(fault: PlantedFault, promise: &str) -> bool {
    is_caught_within(1..600, fault, promise)
}

fn is_caught_within(mut seeds: std::ops::Range<u64>, fault: PlantedFault, promise: &str) -> bool {
    seeds.any(|seed| {
        let mut plan = Plan::from_seed(seed);
        plan.topology.fault = Some(fault);
        run(&plan).is_err_and(|failure| failure.what.contains(promise))
    })
}

#[test]
fn promises_hold_under_every_seed() {
    for seed in seeds() {
        if let Err(failure) = run(&Plan::from_seed(seed)) {
            panic!("{failure}; replay with SIM_SEED={seed}");
        }
    }
}

#[test]
fn one_seed_gives_one_trace() {
    for seed in seeds() {
        let plan = Plan::from_seed(seed);
        assert_eq!(run(&plan), run(&plan), "replay with SIM_SEED={seed}");
    }
}

#[test]
fn a_broker_without_durability_is_caught() {
    let caught = (1..200).any(|seed| {
        let plan = Plan { durable: Durable::No, ..Plan::from_seed(seed) };
        run(&plan).is_err_and(|failure| failure.what.contains("survives"))
    });
    assert!(caught, "crashes without a journal lose messages, and no oracle noticed");
}

#[test]
fn a_broker_that_keeps_messages_it_should_forward_is_caught() {
    assert!(
        is_caught(PlantedFault::NoForwarding, "keeps nothing for itself"),
        "queues that forward kept their messages, and no oracle noticed"
    );
}

#[test]
fn a_broker_that_keeps_messages_it_should_delete_is_caught() {
    let mut unseen = vec!["nothing of a deleted entity comes again", "a link goes with its entity"];
    for seed in 1..200 {
        let mut plan = Plan::from_seed(seed);
        plan.topology.fault = Some(PlantedFault::NoDeletion);
        if let Err(failure) = run(&plan) {
            unseen.retain(|promise| !failure.what.contains(promise));
        }
        if unseen.is_empty() {
            return;
        }
    }
    panic!("entities stayed, and no oracle noticed: {unseen:?}");
}

#[test]
fn a_broker_that_keeps_dead_letters_that_it_should_forward_is_caught() {
    assert!(
        is_caught(PlantedFault::NoDeadLetterForwarding, "keeps nothing for itself"),
        "dead letters stayed where they were, and no oracle noticed"
    );
}

#[test]
fn a_broker_without_partitions_is_caught() {
    assert!(
        is_caught(PlantedFault::NoPartitions, "a number says its partition"),
        "numbers had no partitions, and no oracle noticed"
    );
}

#[test]
fn a_broker_whose_rules_change_nothing_is_caught() {
    let caught = (1..200).any(|seed| {
        let mut plan = Plan::from_seed(seed);
        plan.topology.fault = Some(PlantedFault::NoRuleActions);
        run(&plan).is_err_and(|failure| failure.what.starts_with("the properties of message"))
    });
    assert!(caught, "copies came as they were sent, and no oracle noticed");
}

#[test]
fn a_broker_that_remembers_no_ids_is_caught() {
    assert!(
        is_caught(PlantedFault::NoDuplicateDetection, "settled stays settled"),
        "duplicates came, and no oracle noticed"
    );
}

#[test]
fn a_broker_that_loses_the_remains_of_a_failed_start_is_caught() {
    assert!(
        is_caught(PlantedFault::FailedStartsForget, "survives"),
        "starts began anew, and no oracle noticed"
    );
}

#[test]
fn a_broker_that_takes_messages_from_the_links_that_hold_them_is_caught() {
    assert!(
        is_caught(PlantedFault::HoldsExpire, "no message has two live locks"),
        "held messages went to others, and no oracle noticed"
    );
    assert!(
        is_caught_within(1..2_000, PlantedFault::HoldsExpire, "with the count that it had"),
        "crashes counted held messages, and no oracle noticed"
    );
}

#[test]
fn a_broker_whose_rollbacks_take_messages_from_their_receivers_is_caught() {
    assert!(
        is_caught(PlantedFault::RollbackReleases, "no message has two live locks"),
        "messages went to others after a rollback, and no oracle noticed"
    );
}

#[test]
fn a_broker_that_confirms_completions_too_early_is_caught() {
    assert!(
        is_caught(PlantedFault::EarlyConfirmation, "settled stays settled"),
        "confirmed completions were undone by crashes, and no oracle noticed"
    );
}

#[test]
fn a_broker_that_hands_out_messages_before_their_completion_is_durable_is_caught() {
    assert!(
        is_caught(PlantedFault::EarlyDelivery, "settled stays settled"),
        "what was received and deleted came again, and no oracle noticed"
    );
}

#[test]
fn a_broker_that_records_messages_under_the_slot_of_another_namespace_is_caught() {
    for promise in ["an accepted message survives", "a message arrives only where it belongs"] {
        assert!(
            is_caught_within(1..2_000, PlantedFault::OtherSlot, promise),
            "messages went to another namespace, and no oracle noticed: {promise}"
        );
    }
}

#[test]
fn a_broker_that_shows_deliveries_to_the_clients_of_another_namespace_is_caught() {
    assert!(
        is_caught_within(1..2_000, PlantedFault::OtherClient, "a message arrives only where it belongs"),
        "clients saw the messages of another namespace, and no oracle noticed"
    );
}

#[test]
fn a_broker_that_frees_the_slot_of_a_namespace_before_its_records_are_given_back_is_caught() {
    assert!(
        is_caught_within(1..2_000, PlantedFault::EarlyFreeSlot, "a message arrives only where it belongs"),
        "a new namespace had the messages of a deleted one, and no oracle noticed"
    );
}

#[test]
fn a_start_that_creates_namespaces_in_other_shards_is_caught() {
    assert!(
        is_caught_within(1..2_000, PlantedFault::OtherShard, "a namespace lives in one shard"),
        "a namespace was in two shards, and no oracle noticed"
    );
}

#[test]
fn settings_that_are_told_before_they_are_durable_are_caught() {
    assert!(
        is_caught_within(
            1..2_000,
            PlantedFault::SettingsToldEarly,
            "settings that were told survive a crash"
        ),
        "holds and limits were undone by crashes, and no oracle noticed"
    );
}

#[test]
fn a_hold_that_loses_messages_is_caught() {
    assert!(
        is_caught_within(1..2_000, PlantedFault::HoldForgets, "an accepted message survives"),
        "a held namespace lost messages, and no oracle noticed"
    );
}

#[test]
fn a_hold_that_lets_clients_in_is_caught() {
    assert!(
        is_caught_within(1..2_000, PlantedFault::HoldLetsIn, "a namespace that is held takes no client"),
        "clients used a namespace that was held, and no oracle noticed"
    );
}

#[test]
fn a_broker_that_takes_sends_beyond_the_limit_of_a_namespace_is_caught() {
    for promise in ["a namespace at its limit takes no sends", "a namespace takes as many entities as it may"]
    {
        assert!(
            is_caught_within(1..2_000, PlantedFault::LimitsIgnored, promise),
            "limits did not hold, and no oracle noticed: {promise}"
        );
    }
}

#[test]
fn a_namespace_that_delivers_nothing_at_its_limit_is_caught() {
    assert!(
        is_caught_within(1..2_000, PlantedFault::LimitStopsReceives, "an accepted message survives"),
        "a full namespace delivered nothing, and no oracle noticed"
    );
}

#[test]
fn a_broker_in_which_the_limits_of_a_namespace_hold_for_another_one_is_caught() {
    assert!(
        is_caught_within(1..2_000, PlantedFault::LimitsOfAnother, "nothing is refused below the limits"),
        "sends were refused for the limit of another namespace, and no oracle noticed"
    );
}

#[test]
fn a_round_in_which_a_namespace_waits_for_another_one_is_caught() {
    assert!(
        is_caught_within(
            1..2_000,
            PlantedFault::GreedyRound,
            "a namespace with one command is served within one round"
        ),
        "a namespace waited for another one, and no oracle noticed"
    );
}

#[test]
fn a_broker_whose_reader_threads_do_not_tell_what_they_have_read_is_caught() {
    assert!(
        is_caught_within(2..600, PlantedFault::ReadsUntold, "an accepted message survives"),
        "messages that were read from the disk were never delivered, and no oracle noticed"
    );
}

#[test]
fn a_namespace_that_was_created_and_is_missing_after_a_start_is_noticed() {
    let caught = (1..200).any(|seed| {
        let plan = Plan { durable: Durable::No, ..Plan::from_seed(seed) };
        run(&plan).is_err_and(|failure| failure.what.contains("a created namespace survives"))
    });
    assert!(caught, "crashes without a journal lose namespaces, and no oracle noticed");
}

/// Events of which each has to happen in some of the seeds.
const EVENTS: &[&str] = &[
    "sessions held",
    "session states set",
    "session states read",
    "transactions committed",
    "transactions rolled back",
    "deliveries settled after a rollback",
    "transactions left behind",
    "schedules made",
    "schedules cancelled",
    "duplicates sent",
    "messages deferred",
    "messages received by number",
    "messages that expired",
    "messages forwarded",
    "locks renewed",
    "held messages that came again after a crash",
    "sessions renewed",
    "copies that an action has changed",
    "session messages completed in transactions",
    "transactions that lost a session",
    "entities deleted",
    "namespaces deleted",
    "namespaces created",
    "connections closed by a deletion",
    "namespaces created behind the first shard",
    "shards that panicked",
    "turns of connections that go on with what was read before",
    "connections closed by the panic of a shard",
    "namespaces held",
    "namespaces let go",
    "connections closed by a hold",
    "clients that a held namespace has refused",
    "entities created under a limit",
    "links detached by deletions",
    "transactions that lost an entity",
    "commits that a deletion has spoilt",
    "numbers of partitions",
    "messages kept back",
    "dead letters forwarded",
    "dead letters kept back",
    "completions without an answer",
    "reads that deliveries have waited for",
    "reads done before earlier ones",
    "reads that failed",
    "reads that a crash ended",
    "starts in vain",
    "starts in vain after another",
    "starts that were killed",
    "starts that a disk error ended",
    "starts that a full disk ended",
];

#[test]
fn the_seeds_bring_every_kind_of_fault() {
    let mut all = Report::default();
    for seed in 1..400 {
        let report = run(&Plan::from_seed(seed)).expect("promises hold");
        all.accepted += report.accepted;
        all.refused += report.refused;
        all.delivered += report.delivered;
        all.crashes += report.crashes;
        all.disk_failures += report.disk_failures;
        for (event, count) in report.events {
            *all.events.entry(event).or_default() += count;
        }
    }
    let Report { accepted, refused, delivered, crashes, disk_failures, events, .. } = all;
    for (what, count) in [
        ("accepted", accepted),
        ("refused by a full disk", refused),
        ("delivered", delivered),
        ("crashes", crashes),
        ("disk failures", disk_failures),
    ] {
        assert!(count > 0, "none: {what}");
    }
    for event in EVENTS {
        assert!(events.get(event).copied().unwrap_or_default() > 0, "none: {event}");
    }
}
