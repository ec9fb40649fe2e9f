//! Reading a filter, asking it, and finding the rules of a message among many.

use std::hint::black_box;

use broker_filter::{
    CorrelationFilter, Filter, Parameters, PropertySet, RuleIndex, SqlAction, SqlFilter, SystemProperty,
    Value,
};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

const TEXT: &str =
    "sys.Label LIKE 'order.%' AND region = 'north' AND (quantity > 10 OR priority IN ('high', 'urgent'))";

fn message() -> PropertySet {
    let mut set = PropertySet::new();
    set.set_system(SystemProperty::MessageId, "0123456789abcdef0123456789abcdef".into());
    set.set_system(SystemProperty::Label, "order.created".into());
    set.set_system(SystemProperty::ContentType, "application/json".into());
    let users = [
        ("region", Value::from("north")),
        ("customer", Value::Int(17)),
        ("quantity", Value::Int(3)),
        ("priority", Value::from("high")),
        ("price", Value::Double(9.5)),
    ];
    set.extend_user(users.map(|(name, value)| (name.into(), value)));
    set
}

fn sql(text: &str) -> SqlFilter {
    SqlFilter::parse(text, Parameters::new()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn one_filter(c: &mut Criterion) {
    c.bench_function("parse/filter", |b| b.iter(|| SqlFilter::parse(black_box(TEXT), Parameters::new())));
    let (filter, set) = (sql(TEXT), message());
    c.bench_function("match/filter", |b| b.iter(|| filter.matches(black_box(&set), &mut || 0)));
    c.bench_function("build/properties", |b| b.iter(message));
    let action = SqlAction::parse("SET priority = 'low'; SET quantity = quantity + 1", Parameters::new());
    if let Ok(action) = action {
        c.bench_function("apply/action", |b| b.iter(|| action.apply(&mut set.clone(), &mut || 0)));
    }
}

/// The filter of the rule with that number.
type Rule = fn(i64) -> Filter;

fn many_rules(c: &mut Criterion) {
    let correlation: Rule = |number| {
        let mut filter = CorrelationFilter::new();
        filter.user("customer", Value::Int(number));
        filter.user("region", "north".into());
        Filter::Correlation(filter)
    };
    let equality: Rule = |number| Filter::Sql(sql(&format!("customer = {number} AND quantity < 10")));
    let tried: Rule = |number| Filter::Sql(sql(&format!("customer > {number} AND quantity > 10")));
    for (name, rule) in [("correlation", correlation), ("sql_equality", equality), ("sql_tried", tried)] {
        let mut group = c.benchmark_group(format!("index/{name}"));
        for rules in [10, 1_000, 10_000] {
            let mut index = RuleIndex::new();
            for number in 0..rules {
                index.insert(number, rule(number));
            }
            let set = message();
            group.bench_function(BenchmarkId::from_parameter(rules), |b| {
                b.iter(|| {
                    let mut found = 0;
                    index.matching(black_box(&set), &mut || 0, |_, _| found += 1);
                    found
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, one_filter, many_rules);
criterion_main!(benches);
