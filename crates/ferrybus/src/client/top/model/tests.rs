use super::*;

fn sample(entries: &[(&str, u64, f64)]) -> MetricsByEntity {
    let reading = |(name, active, incoming): &(&str, u64, f64)| {
        let reading = EntityMetrics { active: *active, incoming: *incoming, ..EntityMetrics::default() };
        (((*name).to_owned(), "queue".to_owned()), reading)
    };
    entries.iter().map(reading).collect()
}

fn names(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn rates_are_differences_over_time_and_unknown_without_two_counts() {
    let before = sample(&[("a", 0, 100.0), ("restarted", 0, 50.0)]);
    let now = sample(&[("a", 0, 300.0), ("new", 0, 5.0), ("restarted", 0, 3.0)]);
    let with = rows(&now, Some((&before, Duration::from_secs(4))));
    let rates: Vec<_> = with.iter().map(|row| row.rate_in).collect();
    assert_eq!(rates, [Some(50.0), None, None]);
    assert!(rows(&now, None).iter().all(|row| row.rate_in.is_none()));
    assert!(rows(&now, Some((&before, Duration::ZERO))).iter().all(|row| row.rate_in.is_none()));
}

#[test]
fn the_namespace_of_an_entity_is_a_field_of_its_own() {
    let all = rows(&sample(&[("orders", 5, 0.0), ("team-a: orders", 9, 0.0)]), None);
    let fields: Vec<Value> = all.iter().map(Row::json).collect();
    let found: Vec<_> =
        fields.iter().map(|row| (row["namespace"].as_str(), row["entity"].as_str())).collect();
    assert_eq!(found, [(Some("default"), Some("orders")), (Some("team-a"), Some("orders"))]);
}

#[test]
fn lines_are_picked_by_name_and_sorted_by_any_column() {
    let all = rows(&sample(&[("orders", 5, 0.0), ("Audit", 9, 0.0), ("border", 5, 0.0)]), None);
    assert_eq!(names(&arrange(&all, "", Column::Active, false)), ["Audit", "border", "orders"]);
    assert_eq!(names(&arrange(&all, "", Column::Active, true)), ["border", "orders", "Audit"]);
    assert_eq!(names(&arrange(&all, "", Column::Name, false)), ["Audit", "border", "orders"]);
    assert_eq!(names(&arrange(&all, "", Column::Name, true)), ["orders", "border", "Audit"]);
    assert_eq!(names(&arrange(&all, "RDER", Column::Name, false)), ["border", "orders"]);
    for column in Column::ALL {
        assert_eq!(arrange(&all, "", column, false).len(), 3, "{column:?}");
        assert_eq!(column.beside(true).beside(false), column);
    }
}

#[test]
fn keys_and_titles_belong_to_one_column_each() {
    for column in Column::ALL {
        let same = Column::ALL.iter().filter(|it| it.key() == column.key() || it.title() == column.title());
        assert_eq!(same.count(), 1, "{column:?}");
        assert!(!['q', 'r', 'p', '/'].contains(&column.key()), "{column:?}");
        assert!(column.title().to_lowercase().contains(column.key()), "{column:?}");
    }
}

#[test]
fn numbers_are_short() {
    let rates = [
        (None, "-"),
        (Some(0.0), "0"),
        (Some(7.52), "7.5"),
        (Some(120.4), "120"),
        (Some(12_345.0), "12.3k"),
        (Some(2e6), "2.0M"),
    ];
    for (rate, expected) in rates {
        assert_eq!(rate_text(rate), expected);
    }
    for (age, expected) in
        [(0.4, "0s"), (45.0, "45s"), (3_725.0, "1h 2m"), (200_000.0, "2d 7h"), (-1.0, "0s")]
    {
        assert_eq!(age_text(age), expected);
    }
    assert!(!age_text(f64::MAX).is_empty());
}
