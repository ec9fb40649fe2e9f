use proptest::prelude::*;

use super::*;

fn run(at: u64, first: u64) -> Run {
    Run { at: Timestamp::from_millis(at), first, count: 1 }
}

/// Checks the invariants that hold between calls.
fn check(ahead: &Ahead) {
    let bounds: Vec<u64> = ahead.buckets.keys().map(|start| start.as_millis()).collect();
    let first = bounds.first().copied().unwrap_or(u64::MAX);
    assert!(ahead.near.iter().all(|Reverse(run)| run.at.as_millis() < first || first == u64::MAX));
    for (number, bucket) in ahead.buckets.values().enumerate() {
        let end = bounds.get(number + 1).copied().unwrap_or(u64::MAX);
        assert!(bucket.iter().all(|run| bounds[number] <= run.at.as_millis() && run.at.as_millis() <= end));
    }
    assert_eq!(ahead.far, ahead.buckets.values().map(Vec::len).sum::<usize>());
    assert!(!ahead.near.is_empty() || ahead.len() == 0);
}

/// A shape of the times that are pushed.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Same,
    Falling,
    Rising,
    Any {
        span: u64,
    },
    /// Most together, some far away.
    Skewed,
}

fn time(shape: Shape, number: u64, random: u64) -> u64 {
    match shape {
        Shape::Same => 500,
        Shape::Falling => 1_000_000 - number,
        Shape::Rising => number,
        Shape::Any { span } => random % span,
        Shape::Skewed => random % 3 + if random.is_multiple_of(97) { 1 << (random % 60) } else { 0 },
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![
        Just(Shape::Same),
        Just(Shape::Falling),
        Just(Shape::Rising),
        (1u64..1_000_000).prop_map(|span| Shape::Any { span }),
        Just(Shape::Skewed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn behaves_as_a_sorted_multiset(parts in proptest::collection::vec((shape(), 1u64..6_000, 0u64..6_000), 1..4), seed: u64) {
        let (mut ahead, mut model) = (Ahead::default(), std::collections::BTreeSet::new());
        let (mut number, mut random) = (0, seed);
        for (shape, pushes, pops) in parts {
            for _ in 0..pushes {
                number += 1;
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let run = run(time(shape, number, random >> 4), number);
                ahead.push(run.at, run.first, run.count);
                model.insert(run);
            }
            check(&ahead);
            for _ in 0..pops {
                prop_assert_eq!(ahead.first(), model.first().copied());
                prop_assert_eq!(ahead.pop(), model.pop_first());
            }
            check(&ahead);
        }
        prop_assert_eq!(ahead.len(), model.len());
        ahead.retain(|run| run.first % 3 == 0);
        model.retain(|run| run.first % 3 == 0);
        check(&ahead);
        let mut all: Vec<Run> = ahead.iter().collect();
        all.sort_unstable();
        prop_assert!(all.iter().eq(&model));
        prop_assert!(std::iter::from_fn(|| ahead.pop()).eq(model));
    }
}

#[test]
fn no_bucket_of_many_instants_grows_without_being_divided() {
    let mut ahead = Ahead::default();
    // The first ones are spread over a year, the others come within an hour of it.
    for number in 0..200_000u64 {
        let at = if number < 3_000 { number * 10_000_000 } else { 20_000_000_000 + number * 18 };
        ahead.push(Timestamp::from_millis(at), number, 1);
    }
    check(&ahead);
    let longest = ahead.buckets.values().map(Vec::len).max();
    assert!(longest < Some(2 * BUCKET), "{longest:?}");
    assert!(ahead.near.len() <= 2 * NEAR);
    let popped: Vec<Run> = std::iter::from_fn(|| ahead.pop()).collect();
    assert!(popped.is_sorted() && popped.len() == 200_000);
}
