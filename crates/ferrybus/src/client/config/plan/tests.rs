use broker_core::EntitySettings;
use proptest::prelude::*;

use super::{super::limits::UNKNOWN, *};

fn file(text: &str) -> Vec<EntityPlan> {
    let entities = crate::settings::Settings::parse(text, "test").unwrap().entities().unwrap();
    entities.namespaces.into_iter().flat_map(|namespace| namespace.plans).collect()
}

fn planned(file: &[EntityPlan], found: &BrokerState, prune: bool) -> Plan {
    Plan::new(file, found, prune, |_| Named::All)
}

/// A broker that is as these plans say.
fn broker(plans: &[EntityPlan]) -> BrokerState {
    let mut found = BrokerState::of(UNKNOWN);
    for plan in plans {
        let entity_ref = EntityRef::new(plan.kind, &plan.name);
        let mut entity = Described::new(plan.kind, entity_ref.own_name());
        for (property, value) in wanted(plan.kind, &plan.settings, &Named::All) {
            entity.set(property.element, value.as_deref());
        }
        entity.set("UserMetadata", Some("mine"));
        found.add(entity_ref.clone(), entity);
        found.add_rules(&entity_ref, rules_of(plan));
    }
    found
}

fn rendered(plan: &Plan) -> String {
    plan.to_string()
}

const BEFORE: &str = "[[queue]]\nname = \"orders\"\n[[queue]]\nname = \"old\"\n[[topic]]\nname = \"events\"\n\
    [[topic.subscription]]\nname = \"audit\"\n";

#[test]
fn a_broker_that_is_as_the_file_says_needs_nothing() {
    let plans = file(BEFORE);
    let plan = planned(&plans, &broker(&plans), true);
    assert!(plan.is_done());
    assert_eq!(rendered(&plan), "plan: 0 create, 0 update, 0 delete, 0 refused, 5 unchanged");
}

#[test]
fn each_difference_is_a_step_with_its_changes() {
    let after = "[[queue]]\nname = \"Orders\"\nlock_duration = \"30s\"\nforward_to = \"new\"\n\
        [[queue]]\nname = \"new\"\n[[topic]]\nname = \"events\"\n[[topic.subscription]]\nname = \"audit\"\n\
        [[topic.subscription.rule]]\nname = \"big\"\nsql = \"n > 5\"\n";
    let found = broker(&file(BEFORE));
    let plan = planned(&file(after), &found, true);
    // The target of the forwarding comes first.
    assert!(rendered(&plan).starts_with("+ queue `new`\n    lock_duration  - -> 1m"), "{plan}");
    let expected = "\n~ queue `orders`\n    lock_duration  1m -> 30s\n    forward_to  - -> new\n";
    assert!(rendered(&plan).contains(expected), "{plan}");
    let expected = "+ rule `big` of subscription `events/audit`
    sql n > 5
- rule `$Default` of subscription `events/audit`
- queue `old`
plan: 2 create, 1 update, 2 delete, 0 refused, 2 unchanged";
    assert!(rendered(&plan).ends_with(expected), "{plan}");
    let mut updated = plan.steps().iter().filter(|step| step.planned == PlannedAction::Update);
    let kept = updated.find_map(|step| step.entity.as_ref()).unwrap();
    assert_eq!(kept.text("UserMetadata"), Some("mine"));
    let plan = planned(&file(after), &found, false);
    assert!(
        rendered(&plan).ends_with("; 1 not in the file (`--prune` deletes)")
            && !rendered(&plan).contains("- queue"),
        "{plan}"
    );
}

#[test]
fn a_status_and_a_note_stay_unless_the_file_has_them() {
    let mut found = broker(&file(BEFORE));
    let entity_ref = EntityRef::new(EntityKind::Queue, "orders");
    let mut entity = found.get(&entity_ref).unwrap().1.clone();
    entity.set("Status", Some("Disabled"));
    found.add(entity_ref, entity);
    assert!(planned(&file(BEFORE), &found, false).is_done());
    let after = "[[queue]]\nname = \"orders\"\nstatus = \"send-disabled\"\nuser_metadata = \"till\"\n";
    let plan = rendered(&planned(&file(after), &found, false));
    let expected =
        "~ queue `orders`\n    status  Disabled -> SendDisabled\n    user_metadata  mine -> till\n";
    assert!(plan.starts_with(expected), "{plan}");
}

#[test]
fn a_property_fixed_at_creation_is_refused_with_old_and_new_value() {
    let found = broker(&file(BEFORE));
    let plan = planned(&file("[[queue]]\nname = \"orders\"\nrequires_session = true\n"), &found, false);
    assert!(plan.has(PlannedAction::Refused));
    assert!(
        rendered(&plan)
            .starts_with("! queue `orders`\n    requires_session  no -> yes  (fixed at creation)\n"),
        "{plan}"
    );
    assert_eq!(
        plan.steps()[0].json(),
        json!({"action": "refused", "kind": "queue", "name": "orders",
            "changes": [{"property": "requires_session", "old": false, "new": true, "fixed": true}]})
    );
    let plan = planned(&file("[[topic]]\nname = \"orders\"\n"), &found, false);
    assert!(rendered(&plan).starts_with("! topic `orders`\n"), "a queue has the name: {plan}");
}

#[test]
fn a_subscription_begins_with_its_first_rule() {
    let text = "[[topic]]\nname = \"t\"\n[[topic.subscription]]\nname = \"s\"\n\
        [[topic.subscription.rule]]\nname = \"one\"\nsql = \"n = 1\"\n[[topic.subscription.rule]]\nname = \"two\"\n";
    let plan = planned(&file(text), &BrokerState::of(UNKNOWN), false);
    let verdicts: Vec<_> = plan.steps().iter().map(|step| (step.planned, step.rule.is_some())).collect();
    let (create, same) = (PlannedAction::Create, PlannedAction::Unchanged);
    assert_eq!(verdicts, [(create, false), (create, false), (same, true), (create, true)]);
    let body = plan.steps()[1].entity.as_ref().unwrap().body();
    assert!(body.contains("<DefaultRuleDescription") && body.contains("n = 1"), "{body}");
}

proptest! {
    #[test]
    fn any_entity_that_a_file_describes_is_created_and_then_unchanged(
        lock in 1_u64..300, deliveries in 1_u32..1_000, ttl in proptest::option::of(1_u64..10_000_000),
        session: bool, duplicates: bool, gigabytes in proptest::option::of(1_u64..80),
    ) {
        let settings = EntitySettings {
            lock_duration: std::time::Duration::from_secs(lock),
            max_delivery_count: deliveries,
            default_time_to_live: ttl.map(std::time::Duration::from_secs),
            requires_session: session,
            requires_duplicate_detection: duplicates,
            max_size_bytes: gigabytes.map(|size| size << 30),
            ..EntitySettings::default()
        };
        let plans = [EntityPlan::queue("q", settings)];
        let plan = planned(&plans, &BrokerState::of(UNKNOWN), true);
        prop_assert!(plan.has(PlannedAction::Create));
        let mut found = BrokerState::of(UNKNOWN);
        found.add(EntityRef::new(EntityKind::Queue, "q"), plan.steps()[0].entity.clone().unwrap());
        prop_assert!(planned(&plans, &found, true).is_done());
    }
}
