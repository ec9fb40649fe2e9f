use super::*;

fn at(size: u64, median: f64, least: f64) -> AtSize {
    AtSize { size, median, least }
}

#[test]
fn growth_is_that_of_the_last_size_over_the_first() {
    let costs = vec![at(1, 2.0, 1.0), at(10, 9.0, 8.0), at(100, 3.0, 1.25)];
    let grown = Grown { title: "t", goal: Some(1.2), costs, error: None };
    let at_each = "1: 2.00 (1.00), 10: 9.00 (8.00), 100: 3.00 (1.25)";
    assert_eq!(row(&grown), ["t", "1.50", "1.25", "≤ 1.2", "1.22", at_each]);
}

#[test]
fn a_size_without_a_result_is_named() {
    let error = Some("10: no answer".to_owned());
    let grown = Grown { title: "t", goal: None, costs: vec![at(1, 2.0, 1.5)], error };
    assert!(grown.is_broken());
    assert_eq!(row(&grown)[5], "1: 2.00 (1.50), no result at 10: no answer");
}

#[test]
fn every_family_begins_with_few_and_has_a_name_of_its_own() {
    for family in &FAMILIES {
        assert!(family.sizes.is_sorted() && family.sizes.len() > 1, "{}", family.name);
        assert_eq!(FAMILIES.iter().filter(|other| other.name == family.name).count(), 1);
    }
}
