use proptest::prelude::*;

use super::*;
use crate::{CorrelationFilter, Parameters, SystemProperty, samples};

type Found = Vec<(u32, Result<(), EvalError>)>;

fn found(index: &RuleIndex<u32>, set: &PropertySet) -> Found {
    let mut found = Vec::new();
    index.matching(set, &mut || 0, |key, outcome| found.push((*key, outcome)));
    found
}

/// What the index promises to give.
fn brute_force(index: &RuleIndex<u32>, set: &PropertySet) -> Found {
    let tried = index.iter().map(|(key, filter)| (*key, filter.matches(set, &mut || 0)));
    tried
        .filter(|(_, outcome)| *outcome != Ok(false))
        .map(|(key, outcome)| (key, outcome.map(drop)))
        .collect()
}

fn sql(text: &str) -> Filter {
    Filter::Sql(SqlFilter::parse(text, Parameters::new()).unwrap_or_else(|error| panic!("{text}: {error}")))
}

fn correlation(conditions: &[(&str, Value)]) -> Filter {
    let mut filter = CorrelationFilter::new();
    for (name, value) in conditions {
        filter.user(name, value.clone());
    }
    Filter::Correlation(filter)
}

fn set(user: &[(&str, Value)]) -> PropertySet {
    let mut set = PropertySet::new();
    set.extend_user(user.iter().map(|(name, value)| ((*name).into(), value.clone())));
    set
}

#[test]
fn rules_are_given_in_the_order_of_their_keys() {
    let mut index = RuleIndex::new();
    index.insert(5, Filter::True);
    index.insert(1, sql("a = 1"));
    index.insert(4, sql("a = 'x'"));
    index.insert(3, correlation(&[("a", Value::Double(1.0))]));
    index.insert(2, Filter::False);
    index.insert(0, sql("b = 1 OR a = 1"));
    let error = EvalError::incompatible("=", &Value::Int(1), &Value::from("x"));
    let expected = [(0, Ok(())), (1, Ok(())), (3, Ok(())), (4, Err(error)), (5, Ok(()))];
    assert_eq!(found(&index, &set(&[("A", Value::Int(1))])), expected);
    assert_eq!(found(&index, &set(&[("a", Value::Int(2))])).len(), 2);
    assert_eq!(found(&index, &set(&[])), [(5, Ok(()))]);
}

#[test]
fn only_candidates_are_tried() {
    let mut index = RuleIndex::new();
    for key in 0..1000 {
        let number = i64::from(key);
        index.insert(key, correlation(&[("customer", Value::Int(number)), ("region", "north".into())]));
        index.insert(key + 1000, sql(&format!("EXISTS(region) AND customer = {number} AND region <> 'x'")));
        index.insert(key + 2000, sql(&format!("customer IN ({number}, {})", number + 1)));
        index.insert(
            key + 3000,
            correlation(&[(&format!("flag-{key}"), Value::Bool(true)), ("region", "north".into())]),
        );
    }
    let message =
        set(&[("customer", Value::Int(7)), ("region", "north".into()), ("flag-9", Value::Bool(true))]);
    let tried: Vec<u32> = index.candidates(&message).into_iter().copied().collect();
    assert!(tried.len() <= 6, "{tried:?}");
    let expected = [7, 1007, 2006, 2007, 3009];
    assert_eq!(found(&index, &message).iter().map(|(key, _)| *key).collect::<Vec<_>>(), expected);
    // A value of another kind makes the SQL filters fail, as it does without an index.
    let wrong = set(&[("customer", "seven".into()), ("region", "north".into())]);
    assert_eq!(found(&index, &wrong).len(), 2000);
}

#[test]
fn what_cannot_be_foretold_is_tried() {
    let mut index = RuleIndex::new();
    let filters = [
        "a = 1 OR b = 1",
        "NOT a = 1",
        "b LIKE 'x' AND a = 1",
        "a = b AND a = 1",
        "a > 0",
        "a IN (1, 'x')",
        "a = NULL",
        "sys.Nope = 1 AND a = 1",
        "a NOT IN (1)",
    ];
    for (key, text) in (0..).zip(filters) {
        index.insert(key, sql(text));
    }
    assert_eq!(index.candidates(&set(&[])).len(), filters.len());
}

#[test]
fn a_rule_that_goes_leaves_nothing_behind() {
    let mut index = RuleIndex::new();
    let filters = [
        Filter::True,
        Filter::False,
        sql("a = 1"),
        sql("A IN (1, 2)"),
        sql("a > 1"),
        correlation(&[("a", Value::Int(1)), ("b", Value::Int(1))]),
        correlation(&[]),
    ];
    for (key, filter) in (0..).zip(&filters) {
        assert_eq!(index.insert(key, filter.clone()), None);
    }
    assert_eq!((index.len(), index.sql_filters(), index.correlation_filters()), (7, 5, 2));
    assert_eq!(index.insert(2, Filter::False), Some(sql("a = 1")));
    assert_eq!((index.len(), index.sql_filters()), (7, 5));
    assert_eq!(index.get(&2), Some(&Filter::False));
    for key in 0..7 {
        assert!(index.remove(&key).is_some());
        assert_eq!(index.remove(&key), None);
    }
    assert!(index.is_empty());
    assert_eq!(format!("{index:?}"), format!("{:?}", RuleIndex::<u32>::new()));
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u32, Filter),
    Remove(u32),
}

fn filter() -> impl Strategy<Value = Filter> {
    let user = prop::collection::vec((samples::name(), samples::value()), 0..3);
    let system = prop::collection::vec((samples::system(), samples::value()), 0..2);
    let constant = prop::sample::select(
        &["1", "1.0", "0.5", "-0.0", "'a'", "''", "TRUE", "NULL", "9223372036854775807"][..],
    );
    let property = prop::sample::select(&["a", "A", "b", "[Ä]", "sys.Label", "sys.Nope"][..]);
    let lead = prop::sample::select(
        &["", "b IS NOT NULL AND ", "EXISTS(c) AND ", "c = 'a' AND ", "(b < 1 OR c = 1) AND "][..],
    );
    let tail =
        prop::sample::select(&["", " AND b > 0", " AND sys.Nope = 1", " OR b = 1", " AND c LIKE a"][..]);
    let equality = prop_oneof![
        (property.clone(), constant.clone())
            .prop_map(|(property, constant)| format!("{property} = {constant}")),
        (property.clone(), constant.clone())
            .prop_map(|(property, constant)| format!("{constant} = {property}")),
        (property, constant.clone(), constant)
            .prop_map(|(property, one, two)| format!("{property} IN ({one}, {two})")),
    ];
    prop_oneof![
        1 => Just(Filter::True),
        1 => Just(Filter::False),
        4 => (user, system).prop_map(|(user, system)| {
            let mut filter = CorrelationFilter::new();
            for (name, value) in user {
                filter.user(name, value);
            }
            for (property, value) in system {
                filter.system(property, value);
            }
            Filter::Correlation(filter)
        }),
        6 => (lead, equality, tail).prop_map(|(lead, equality, tail)| sql(&format!("{lead}{equality}{tail}"))),
    ]
}

proptest! {
    #[test]
    fn the_index_gives_what_trying_each_rule_gives(
        steps in prop::collection::vec(
            prop_oneof![
                3 => (0u32..12, filter()).prop_map(|(key, filter)| Step::Insert(key, filter)),
                1 => (0u32..12).prop_map(Step::Remove),
            ],
            0..24,
        ),
        messages in prop::collection::vec(samples::properties(), 1..6),
    ) {
        let mut index = RuleIndex::new();
        for step in steps {
            match step {
                Step::Insert(key, filter) => drop(index.insert(key, filter)),
                Step::Remove(key) => drop(index.remove(&key)),
            }
            for message in &messages {
                prop_assert_eq!(found(&index, message), brute_force(&index, message));
            }
        }
        let kinds = |wanted: fn(&Filter) -> bool| index.iter().filter(|(_, filter)| wanted(filter)).count();
        prop_assert_eq!(index.sql_filters(), kinds(|filter| !matches!(filter, Filter::Correlation(_))));
        prop_assert_eq!(index.correlation_filters(), kinds(|filter| matches!(filter, Filter::Correlation(_))));
    }
}

#[test]
fn system_properties_are_found_too() {
    let mut index = RuleIndex::new();
    let mut filter = CorrelationFilter::new();
    filter.system(SystemProperty::Label, "l".into());
    index.insert(1, Filter::Correlation(filter));
    index.insert(2, sql("sys.Subject = 'l'"));
    index.insert(3, sql("'m' = sys.Label"));
    let mut message = PropertySet::new();
    message.set_system(SystemProperty::Label, "l".into());
    assert_eq!(found(&index, &message), [(1, Ok(())), (2, Ok(()))]);
}
