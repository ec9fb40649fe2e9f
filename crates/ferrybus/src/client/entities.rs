//! `ferrybus queue`, `topic` and `subscription`.
//!
//! Invariant: an update writes back what it read but for the properties that were given, and only over what it read.

use broker_admin::client::Described;
use broker_core::EntityKind;
use serde_json::{Map, Value, json};

use super::{
    BrokerEndpoint,
    management::{EntityRef, Management, State, word},
};
use crate::{
    failure::Failure,
    output,
    property::{self, Property, PropertyText as _, Wanted, human_bytes},
    table::Table,
};

/// Properties to set.
pub(crate) type Given = [(&'static Property, Wanted)];

/// Creates an entity.
pub(crate) async fn create(
    target: BrokerEndpoint,
    entity_ref: EntityRef,
    given: &Given,
    as_json: bool,
) -> Result<(), Failure> {
    let mut wanted = Described::new(entity_ref.kind, entity_ref.own_name());
    for (property, value) in given {
        wanted.set(property.element, value.as_deref());
    }
    let stored = target.management().put(&entity_ref, &wanted, &State::New).await?;
    if as_json {
        return output::line(json(&entity_ref, &stored));
    }
    output::line(format_args!("created {}", entity_ref.label()))
}

/// Changes what was given; with `force` whatever another has changed meanwhile.
pub(crate) async fn update(
    target: BrokerEndpoint,
    entity_ref: EntityRef,
    (given, force): (&Given, bool),
    as_json: bool,
) -> Result<(), Failure> {
    if given.is_empty() {
        return Err(Failure::misuse("no property was given to change")
            .hint(format_args!("`ferrybus {} update --help` lists them", word(entity_ref.kind))));
    }
    let mut management = target.management();
    let (mut entity, state) = management.get_state(&entity_ref).await?;
    let changes = changes(&entity, given);
    if let Some((property, _)) = changes.iter().find(|(property, _)| property.is_fixed) {
        return Err(Failure::new(format_args!(
            "`{}` of {} is fixed at creation",
            property.key,
            entity_ref.label()
        ))
        .hint("delete it with its messages and create it again, or create another beside it"));
    }
    let before = entity.clone();
    for (property, value) in &changes {
        entity.set(property.element, value.as_deref());
    }
    let after = if changes.is_empty() {
        before.clone()
    } else {
        management.put(&entity_ref, &entity, &state.unless_forced(force)).await?
    };
    if as_json {
        return output::line(json(&entity_ref, &after));
    }
    if changes.is_empty() {
        return output::line(format_args!("{} is like that already", entity_ref.label()));
    }
    output::line(format_args!("updated {}", entity_ref.label()))?;
    changes
        .iter()
        .try_for_each(|(property, _)| output::line(format_args!("  {}", change(property, &before, &after))))
}

/// Given properties that differ from the entity's.
fn changes<'g>(entity: &Described, given: &'g Given) -> Vec<&'g (&'static Property, Wanted)> {
    let differs = |(property, value): &&(&'static Property, Wanted)| {
        !property.form().same(property.text(entity), value.as_deref())
    };
    given.iter().filter(differs).collect()
}

/// `lock_duration  1m -> 30s`.
fn change(property: &Property, before: &Described, after: &Described) -> String {
    let told =
        |entity: &Described| property.text(entity).map_or("-".into(), |text| property.form().told(text));
    format!("{}  {} -> {}", property.key, told(before), told(after))
}

/// Shows an entity.
pub(crate) async fn show(
    target: BrokerEndpoint,
    entity_ref: EntityRef,
    as_json: bool,
) -> Result<(), Failure> {
    let entity = target.management().get(&entity_ref).await?;
    if as_json {
        return output::line(json(&entity_ref, &entity));
    }
    let mut table = Table::new(&["PROPERTY", "VALUE"], 2);
    table.row([word(entity_ref.kind).to_owned(), entity_ref.short()]);
    for property in property::of(entity_ref.kind) {
        if let Some(text) = property.text(&entity) {
            table.row([property.key.to_owned(), property.form().told(text)]);
        }
    }
    for (name, count) in counts(&entity) {
        table.row([name.to_owned(), count.to_string()]);
    }
    if let Some(bytes) = number(&entity, "SizeInBytes") {
        table.row(["size".to_owned(), human_bytes(bytes)]);
    }
    for (name, element) in TIMES {
        table.row([name.to_owned(), time(&entity, element).unwrap_or("-").to_owned()]);
    }
    table.print()
}

/// Lists the entities of a kind; those of a topic, where it is about subscriptions.
pub(crate) async fn list(target: BrokerEndpoint, like: EntityRef, as_json: bool) -> Result<(), Failure> {
    let mut management = target.management();
    if like.kind == EntityKind::Subscription {
        let topic = like.path.split("/Subscriptions/").next().unwrap_or_default();
        // Of a topic that is not there the list is empty, too.
        management.get(&EntityRef::new(EntityKind::Topic, topic)).await?;
    }
    let all = management.list(&like).await?;
    if as_json {
        return all.iter().try_for_each(|entity| output::line(json(&sibling(&like, entity), entity)));
    }
    if all.is_empty() {
        output::note(format_args!("there is no {}", word(like.kind)));
    }
    let mut table = Table::new(titles(like.kind), 2);
    for entity in &all {
        table.row(columns(entity));
    }
    table.print()
}

const fn titles(kind: EntityKind) -> &'static [&'static str] {
    match kind {
        EntityKind::Topic => &["NAME", "STATUS", "SUBSCRIPTIONS", "SCHEDULED", "SIZE"],
        EntityKind::Queue => &["NAME", "STATUS", "ACTIVE", "SCHEDULED", "DEAD-LETTER", "SIZE"],
        EntityKind::Subscription => &["NAME", "STATUS", "ACTIVE", "DEAD-LETTER"],
    }
}

fn columns(entity: &Described) -> Vec<String> {
    let count = |name: &str| entity.count(name).unwrap_or_default().to_string();
    let size = human_bytes(number(entity, "SizeInBytes").unwrap_or_default());
    let mut cells = vec![entity.name.clone(), entity.text("Status").unwrap_or("-").to_owned()];
    match entity.kind {
        EntityKind::Topic => {
            let subscriptions = number(entity, "SubscriptionCount").unwrap_or_default();
            cells.extend([subscriptions.to_string(), count("ScheduledMessageCount"), size]);
        }
        EntityKind::Queue => cells.extend([
            count("ActiveMessageCount"),
            count("ScheduledMessageCount"),
            count("DeadLetterMessageCount"),
            size,
        ]),
        EntityKind::Subscription => {
            cells.extend([count("ActiveMessageCount"), count("DeadLetterMessageCount")]);
        }
    }
    cells
}

fn sibling(like: &EntityRef, entity: &Described) -> EntityRef {
    match like.kind {
        EntityKind::Subscription => {
            let topic = like.path.split("/Subscriptions/").next().unwrap_or_default();
            EntityRef::subscription(topic, &entity.name)
        }
        kind => EntityRef::new(kind, &entity.name),
    }
}

/// Deletes an entity.
pub(crate) async fn delete(
    target: BrokerEndpoint,
    entity_ref: EntityRef,
    as_json: bool,
) -> Result<(), Failure> {
    let mut management = target.management();
    management.get(&entity_ref).await?;
    management.delete(&entity_ref, &State::Any).await?;
    if as_json {
        return output::line(json!({ "deleted": entity_ref.short() }));
    }
    output::line(format_args!("deleted {}", entity_ref.label()))
}

/// All that is known of an entity, as one object.
pub(crate) fn json(entity_ref: &EntityRef, entity: &Described) -> Value {
    let mut object = Map::new();
    object.insert("kind".into(), word(entity_ref.kind).into());
    if entity_ref.kind == EntityKind::Subscription {
        let topic = entity_ref.path.split("/Subscriptions/").next().unwrap_or_default();
        object.insert("topic".into(), topic.into());
    }
    object.insert("name".into(), entity_ref.own_name().into());
    for property in property::of(entity_ref.kind) {
        let value = property.text(entity).map_or(Value::Null, |text| property.form().json(text));
        object.insert(property.key.into(), value);
    }
    let counts: Map<_, _> = counts(entity).map(|(name, count)| (name.to_owned(), count.into())).collect();
    if !counts.is_empty() {
        object.insert("messages".into(), counts.into());
    }
    for (key, element) in [("size_bytes", "SizeInBytes"), ("subscriptions", "SubscriptionCount")] {
        if let Some(number) = number(entity, element) {
            object.insert(key.into(), number.into());
        }
    }
    for (key, element) in TIMES {
        object.insert(key.into(), time(entity, element).into());
    }
    Value::Object(object)
}

fn number(entity: &Described, element: &str) -> Option<u64> {
    entity.text(element)?.parse().ok()
}

fn counts(entity: &Described) -> impl Iterator<Item = (&'static str, u64)> {
    COUNTS.iter().filter_map(|(name, element)| Some((*name, entity.count(element)?)))
}

const COUNTS: [(&str, &str); 4] = [
    ("active", "ActiveMessageCount"),
    ("scheduled", "ScheduledMessageCount"),
    ("dead_letter", "DeadLetterMessageCount"),
    ("transfer_dead_letter", "TransferDeadLetterMessageCount"),
];
/// Time of the event; `None` for never.
fn time<'e>(entity: &'e Described, element: &str) -> Option<&'e str> {
    entity.text(element).filter(|time| !time.starts_with(NEVER))
}

const TIMES: [(&str, &str); 3] =
    [("created_at", "CreatedAt"), ("updated_at", "UpdatedAt"), ("accessed_at", "AccessedAt")];
/// Prefix of the broker's time for "never".
const NEVER: &str = "0001-01-01";

impl Management<'_> {
    /// Refuses what is about a subscription that does not exist.
    pub(crate) async fn need(&mut self, entity_ref: &EntityRef) -> Result<(), Failure> {
        self.get(entity_ref).await.map(drop)
    }
}
