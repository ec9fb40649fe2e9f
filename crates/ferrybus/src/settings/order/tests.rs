use broker_core::EntitySettings;

use super::*;

fn plan((name, main, dead): &(&str, Option<&str>, Option<&str>)) -> EntityPlan {
    let settings = EntitySettings {
        forward_to: main.map(Box::from),
        forward_dead_lettered_to: dead.map(Box::from),
        ..EntitySettings::default()
    };
    let kind = if name.contains("/Subscriptions/") { EntityKind::Subscription } else { EntityKind::Queue };
    EntityPlan { name: (*name).to_owned(), kind, settings, rules: None }
}

fn ordered(entities: &[(&str, Option<&str>, Option<&str>)]) -> String {
    let names: Vec<String> =
        targets_first(entities.iter().map(plan).collect()).into_iter().map(|plan| plan.name).collect();
    names.join(" ")
}

#[test]
fn targets_come_before_those_that_forward_to_them() {
    assert_eq!(ordered(&[("a", None, None), ("b", None, None)]), "a b", "nobody forwards");
    assert_eq!(ordered(&[("a", Some("B"), None), ("b", None, None)]), "b a", "names compare without case");
    assert_eq!(ordered(&[("a", None, Some("b")), ("b", Some("c"), None), ("c", None, None)]), "c b a");
    assert_eq!(ordered(&[("a", Some("elsewhere"), None), ("b", None, None)]), "a b");
    assert_eq!(
        ordered(&[
            ("a", Some("T"), None),
            ("t/Subscriptions/s", Some("b"), None),
            ("t", None, None),
            ("b", None, None)
        ]),
        "t b a t/Subscriptions/s"
    );
}

#[test]
fn a_circle_ends_the_sorting() {
    let circle = [("a", Some("b"), None), ("b", Some("a"), None), ("c", None, None), ("d", Some("d"), None)];
    assert_eq!(ordered(&circle), "c d a b");
    assert_eq!(
        ordered(&[("a", Some("d"), None), ("d", Some("D"), Some("d"))]),
        "d a",
        "one that is its own target"
    );
}
