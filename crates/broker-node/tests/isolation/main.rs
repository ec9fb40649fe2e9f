//! Namespaces of one node do not change, show or count in each other, whatever is asked and wherever the process is
//! killed; and none delays another beyond its share of a round.
//!
//! One node with several namespaces is compared with nodes that have one namespace each and get only what concerns it.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod any_command;
#[cfg(test)]
mod broker;
#[cfg(test)]
mod budgets;
#[cfg(test)]
mod command_kind;
#[cfg(test)]
mod compaction;
#[cfg(test)]
mod crossing;
#[cfg(test)]
mod deletion;
#[cfg(test)]
mod passive;
#[cfg(test)]
mod pieces;
#[cfg(test)]
mod plan;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod shares;
#[cfg(test)]
mod state;
#[cfg(test)]
mod tenant;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod weights;
#[cfg(test)]
mod world;

use plan::{all_entities, round};
use proptest::prelude::*;
use world::World;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn each_namespace_is_as_it_would_be_alone_after_any_commands_and_crashes(
        rounds in prop::collection::vec(round(), 1..24),
        round_bytes in 1_u64..6_000,
        budgets in prop::collection::vec(prop_oneof![1_u64..40, 40_u64..2_000, Just(u64::MAX)], 0..6),
        has_entities in any::<bool>(),
    ) {
        let mut world = World::new(round_bytes, budgets);
        if has_entities {
            for round in &all_entities() {
                world.play(round);
            }
        }
        for round in &rounds {
            world.play(round);
        }
        world.end();
    }
}
