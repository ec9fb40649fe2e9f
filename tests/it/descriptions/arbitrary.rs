//! Descriptions of any kind: what is sent of them, and what has to be shown.
//!
//! What is to be shown is worked out here, apart from the broker: defaults, the canonical form of durations, types of
//! values.

use std::collections::{BTreeMap, BTreeSet};

use broker_core::EntityKind;
use proptest::{prelude::*, sample::select};

mod rules;

use rules::{Rule, constant, rule};

/// Names of elements, with those that they are in, and what is in them.
pub(super) type Fields = BTreeMap<String, String>;

/// An entity that exists before any other.
pub(super) const TARGET: &str = "Target/Queue";
/// The service's word for "never", and how an SDK writes it.
const INFINITE: &str = "P10675199DT2H48M5.4775807S";
const INFINITE_OF_PYTHON: &str = "P10675199DT2H48M5.477539S";
/// The longest duration that is none of these, in milliseconds.
const LONGEST: u64 = 10_675_199 * DAY - 1;
const DAY: u64 = 86_400_000;

/// An element as it is sent, and what is to be shown of it.
#[derive(Clone, Debug)]
pub(super) struct Property {
    name: &'static str,
    sent: String,
    shown: Fields,
}

impl Property {
    fn of(name: &'static str, sent: impl Into<String>, shown: impl Into<String>) -> Self {
        Self { name, sent: sent.into(), shown: Fields::from([(name.to_owned(), shown.into())]) }
    }
}

/// Something to create, and to change.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) kind: EntityKind,
    /// Of the topic of a subscription, or empty.
    pub(super) topic: String,
    /// As paths have it.
    pub(super) path: String,
    pub(super) first: Vec<Property>,
    pub(super) update: Vec<Property>,
    /// Of a subscription: the one that it begins with, where it is given, and those that are added.
    pub(super) first_rule: Option<Rule>,
    pub(super) rules: Vec<Rule>,
}

impl Case {
    /// The elements of the first description, in the order in which they came.
    pub(super) fn sent(&self) -> String {
        let rule = self.first_rule.as_ref().map(|rule| element("DefaultRuleDescription", &rule.sent));
        sent(&self.first) + &rule.unwrap_or_default()
    }

    pub(super) fn sent_update(&self) -> String {
        sent(&self.update)
    }

    /// What is to be shown of it at first.
    pub(super) fn shown(&self) -> Fields {
        with_size_of_all_partitions(shown(self.kind, &self.first))
    }

    /// And after the update: what is fixed stays, all else that is left out has its default again.
    pub(super) fn shown_after_update(&self) -> Fields {
        let mut fields = shown(self.kind, &self.update);
        let fixed = self.shown().into_iter().filter(|(name, _)| FIXED.contains(&&**name));
        fields.extend(fixed);
        with_size_of_all_partitions(fields)
    }

    /// What is to be shown of its rules, by name.
    pub(super) fn shown_rules(&self) -> BTreeMap<String, Fields> {
        if self.kind != EntityKind::Subscription {
            return BTreeMap::new();
        }
        let first = self.first_rule.clone().unwrap_or_else(|| {
            let (_, mut shown) = constant("TrueFilter", "1=1");
            shown.insert("Action".into(), "EmptyRuleAction".into());
            shown.insert("Name".into(), "$Default".into());
            Rule { name: "$Default".into(), sent: String::new(), shown }
        });
        let all = [first].into_iter().chain(self.rules.iter().cloned());
        all.map(|rule| (rule.name, rule.shown)).collect()
    }
}

fn sent(properties: &[Property]) -> String {
    properties.iter().map(|property| element(property.name, &property.sent)).collect()
}

fn shown(kind: EntityKind, properties: &[Property]) -> Fields {
    let mut fields = defaults(kind);
    fields.extend(properties.iter().flat_map(|property| property.shown.clone()));
    if kind == EntityKind::Subscription && fields.contains_key("ForwardTo") {
        // What forwards is never idle.
        fields.insert("AutoDeleteOnIdle".into(), INFINITE.into());
    }
    fields
}

/// A size that one of the sixteen partitions can have, at most 5,120, is that of each.
fn with_size_of_all_partitions(mut fields: Fields) -> Fields {
    if fields.get("EnablePartitioning").is_some_and(|on| on == "true")
        && let Some(size) = fields.get_mut("MaxSizeInMegabytes")
        && let Some(of_partition) = size.parse::<u32>().ok().filter(|size| *size <= 5_120)
    {
        *size = (of_partition * 16).to_string();
    }
    fields
}

fn element(name: &str, inside: &str) -> String {
    format!("<{name}>{inside}</{name}>")
}

/// Text as XML has it.
fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\t' | '\n' | '\r' => out.extend([format!("&#{};", u32::from(c))]),
            c => out.push(c),
        }
    }
    out
}

/// Properties that no update changes.
const FIXED: [&str; 3] = ["RequiresSession", "RequiresDuplicateDetection", "EnablePartitioning"];

/// What is shown of an entity of which nothing was said.
fn defaults(kind: EntityKind) -> Fields {
    let common: &[(&str, &str)] = &[
        ("AutoDeleteOnIdle", INFINITE),
        ("DefaultMessageTimeToLive", INFINITE),
        ("EnableBatchedOperations", "true"),
        ("Status", "Active"),
    ];
    let receiving: &[(&str, &str)] = &[
        ("DeadLetteringOnMessageExpiration", "false"),
        ("LockDuration", "PT1M"),
        ("MaxDeliveryCount", "10"),
        ("RequiresSession", "false"),
    ];
    let sending: &[(&str, &str)] = &[
        ("DuplicateDetectionHistoryTimeWindow", "PT10M"),
        ("EnableExpress", "false"),
        ("EnablePartitioning", "false"),
        ("IsAnonymousAccessible", "false"),
        // The largest of the tier, where an entity has no limit of its own.
        ("MaxMessageSizeInKilobytes", "1024"),
        ("MaxSizeInMegabytes", "1024"),
        ("RequiresDuplicateDetection", "false"),
        ("SupportOrdering", "true"),
    ];
    let topic: &[(&str, &str)] =
        &[("EnableSubscriptionPartitioning", "false"), ("FilteringMessagesBeforePublishing", "false")];
    let subscription: &[(&str, &str)] =
        &[("DeadLetteringOnFilterEvaluationExceptions", "true"), ("IsClientAffine", "false")];
    let parts: &[&[(&str, &str)]] = match kind {
        EntityKind::Queue => &[common, receiving, sending],
        EntityKind::Topic => &[common, sending, topic],
        EntityKind::Subscription => &[common, receiving, subscription],
    };
    parts.iter().copied().flatten().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

/// Anything that can be made.
pub(super) fn case() -> impl Strategy<Value = Case> {
    let kinds = select(vec![EntityKind::Queue, EntityKind::Topic, EntityKind::Subscription]);
    kinds.prop_flat_map(|kind| {
        let rules = (proptest::option::of(rule(true)), proptest::collection::vec(rule(false), 0..4));
        (entity_name(), own_name(), properties(kind), properties(kind), rules).prop_map(
            move |(name, own, first, update, (first_rule, rules))| {
                let is_subscription = kind == EntityKind::Subscription;
                let path = if is_subscription { format!("{name}/Subscriptions/{own}") } else { name.clone() };
                let (first_rule, rules) =
                    if is_subscription { apart(first_rule, rules) } else { (None, Vec::new()) };
                let fixed: BTreeSet<&str> =
                    first.iter().filter(|it| it.sent == "true").map(|it| it.name).collect();
                let agreed = |properties: &[Property]| {
                    let all = properties.iter().filter(|property| agrees(property, &fixed));
                    all.cloned().collect::<Vec<_>>()
                };
                let update = agreed(&update).into_iter().filter(|it| !FIXED.contains(&it.name)).collect();
                let first = agreed(&first);
                let topic = if is_subscription { name } else { String::new() };
                Case { kind, topic, path, first, update, first_rule, rules }
            },
        )
    })
}

/// Some properties exclude others.
fn agrees(property: &Property, fixed: &BTreeSet<&str>) -> bool {
    match property.name {
        "EnableExpress" => !fixed.contains("RequiresDuplicateDetection"),
        "ForwardTo" => !fixed.contains("RequiresSession"),
        _ => true,
    }
}

/// Leaves out rules whose names others have.
fn apart(first: Option<Rule>, rules: Vec<Rule>) -> (Option<Rule>, Vec<Rule>) {
    let mut names =
        BTreeSet::from([first.as_ref().map_or("$default".into(), |rule| rule.name.to_lowercase())]);
    let rules = rules.into_iter().filter(|rule| names.insert(rule.name.to_lowercase()));
    let rules = rules.collect();
    (first, rules)
}

/// Names up to the longest there are.
fn entity_name() -> impl Strategy<Value = String> {
    let any = prop_oneof![
        "[A-Za-z0-9]([A-Za-z0-9._/-]{0,40}[A-Za-z0-9])?",
        "[A-Za-z0-9][A-Za-z0-9._-]{258}[A-Za-z0-9]",
    ];
    any.prop_filter("one segment after the other, none of them fixed", |name| {
        let lower = name.to_lowercase();
        !name.contains("//") && !lower.contains("subscriptions") && lower != TARGET.to_lowercase()
    })
}

/// Names of subscriptions and rules.
fn own_name() -> impl Strategy<Value = String> {
    prop_oneof!["[A-Za-z0-9]([A-Za-z0-9._-]{0,48}[A-Za-z0-9])?", "[A-Za-z0-9][A-Za-z0-9._-]{48}[A-Za-z0-9]"]
}

/// Some of the properties of such an entity, in any order.
fn properties(kind: EntityKind) -> impl Strategy<Value = Vec<Property>> {
    let all = of_kind(kind).into_iter().map(proptest::option::of).collect::<Vec<_>>();
    all.prop_map(|all| all.into_iter().flatten().collect::<Vec<_>>()).prop_shuffle()
}

fn of_kind(kind: EntityKind) -> Vec<BoxedStrategy<Property>> {
    let status = match kind {
        EntityKind::Queue => vec!["Active", "Disabled", "SendDisabled", "ReceiveDisabled"],
        EntityKind::Topic => vec!["Active", "Disabled", "SendDisabled"],
        EntityKind::Subscription => vec!["Active", "Disabled", "ReceiveDisabled"],
    };
    let mut all = vec![
        span("DefaultMessageTimeToLive", (1_000, LONGEST), true),
        span("AutoDeleteOnIdle", (300_000, LONGEST), true),
        select(status).prop_map(|status| Property::of("Status", status, status)).boxed(),
        metadata(),
        flag("EnableBatchedOperations"),
    ];
    if kind != EntityKind::Topic {
        all.extend([
            span("LockDuration", (1, 300_000), false),
            flag("RequiresSession"),
            flag("DeadLetteringOnMessageExpiration"),
            number("MaxDeliveryCount", (1, i32::MAX.unsigned_abs()), 1),
            target("ForwardTo"),
            target("ForwardDeadLetteredMessagesTo"),
        ]);
    }
    if kind != EntityKind::Subscription {
        all.extend([
            number("MaxSizeInMegabytes", (1, 80), 1_024),
            number("MaxMessageSizeInKilobytes", (1, 102_400), 1),
            span("DuplicateDetectionHistoryTimeWindow", (20_000, 7 * DAY), false),
            authorization(),
        ]);
        all.extend(
            [
                "RequiresDuplicateDetection",
                "EnablePartitioning",
                "IsAnonymousAccessible",
                "SupportOrdering",
                "EnableExpress",
            ]
            .map(flag),
        );
    }
    match kind {
        EntityKind::Queue => {}
        EntityKind::Topic => {
            all.extend(["FilteringMessagesBeforePublishing", "EnableSubscriptionPartitioning"].map(flag));
        }
        EntityKind::Subscription => {
            all.extend(["DeadLetteringOnFilterEvaluationExceptions", "IsClientAffine"].map(flag));
        }
    }
    all
}

fn flag(name: &'static str) -> BoxedStrategy<Property> {
    any::<bool>().prop_map(move |on| Property::of(name, on.to_string(), on.to_string())).boxed()
}

/// The least, the most, or something between, in steps of so much.
fn number(name: &'static str, (least, most): (u32, u32), step: u32) -> BoxedStrategy<Property> {
    let number = prop_oneof![Just(least), Just(most), least..=most];
    number
        .prop_map(move |number| {
            let text = (u64::from(number) * u64::from(step)).to_string();
            Property::of(name, text.clone(), text)
        })
        .boxed()
}

/// A duration within bounds in milliseconds, in one of the ways that clients write it.
fn span(name: &'static str, (least, most): (u64, u64), may_be_infinite: bool) -> BoxedStrategy<Property> {
    let finite = (prop_oneof![Just(least), Just(most), least..=most, least..=most.min(10 * DAY)], 0..3_u8);
    let finite = finite.prop_map(move |(millis, style)| {
        let (seconds, rest) = (millis / 1_000, millis % 1_000);
        let sent = match style {
            0 => canonical(seconds, rest * 10_000),
            1 => format!("PT{seconds}.{rest:03}S"),
            _ => format!(
                "P{}DT{}H{}M{}.{rest:03}0000S",
                seconds / 86_400,
                seconds / 3_600 % 24,
                seconds / 60 % 60,
                seconds % 60
            ),
        };
        Property::of(name, sent, canonical(seconds, rest * 10_000))
    });
    if !may_be_infinite {
        return finite.boxed();
    }
    let infinite = select(vec![INFINITE, INFINITE_OF_PYTHON]);
    prop_oneof![3 => finite, 1 => infinite.prop_map(move |sent| Property::of(name, sent, INFINITE))].boxed()
}

/// A duration as the service writes it: without zeros, ticks of 100 ns as a fraction.
fn canonical(seconds: u64, ticks: u64) -> String {
    let fraction = if ticks > 0 { format!(".{ticks:07}") } else { String::new() };
    let last = format!("{}{}", seconds % 60, fraction.trim_end_matches('0'));
    let date = [(seconds / 86_400, 'D')];
    let time = [(seconds / 3_600 % 24, 'H'), (seconds / 60 % 60, 'M')];
    let written = |parts: &[(u64, char)]| {
        let parts = parts.iter().filter(|(number, _)| *number > 0);
        parts.map(|(number, unit)| format!("{number}{unit}")).collect::<Vec<_>>().concat()
    };
    let mut clock = written(&time);
    if last != "0" || clock.is_empty() && seconds < 86_400 {
        clock.extend([last, "S".to_owned()]);
    }
    let separator = if clock.is_empty() { "" } else { "T" };
    format!("P{}{separator}{clock}", written(&date))
}

/// Everything that XML can say.
fn character() -> impl Strategy<Value = char> {
    prop_oneof![
        8 => proptest::char::range(' ', '~'),
        2 => proptest::char::range('\u{a0}', '\u{d7ff}'),
        1 => proptest::char::range('\u{e000}', '\u{fffd}'),
        1 => proptest::char::range('\u{10000}', '\u{10ffff}'),
        1 => select(vec!['\t', '\n', '\r', '&', '<', '>', '"', '\'', 'ß', '😀']),
    ]
}

fn text(chars: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = String> {
    proptest::collection::vec(character(), chars).prop_map(String::from_iter)
}

fn metadata() -> BoxedStrategy<Property> {
    let text = prop_oneof![4 => text(0..40), 1 => text(1_024)];
    text.prop_map(|text| {
        let mut property = Property::of("UserMetadata", xml(&text), text.clone());
        if text.trim().is_empty() {
            // As if nothing had been said.
            property.shown.clear();
        }
        property
    })
    .boxed()
}

/// The same entity in the ways that clients name it; it is shown as it was written.
fn target(name: &'static str) -> BoxedStrategy<Property> {
    let written = [
        TARGET.to_owned(),
        format!("sb://any.host.example/{TARGET}"),
        format!("http://localhost:5300/{}/", TARGET.to_lowercase()),
        format!("https://[::1]/{}", TARGET.replace('/', "%2F")),
    ];
    select(written.to_vec()).prop_map(move |written| Property::of(name, written.clone(), written)).boxed()
}

fn authorization() -> BoxedStrategy<Property> {
    let rights = proptest::sample::subsequence(vec!["Manage", "Send", "Listen"], 1..=3).prop_shuffle();
    let key = || "[A-Za-z0-9+/]{43}=";
    let rule = (rights, key(), proptest::option::of(key()));
    let names = proptest::collection::btree_set("[A-Za-z0-9_.~!*()'-]{1,20}|[a-z]{256}", 0..=12);
    (names, proptest::collection::vec(rule, 12))
        .prop_map(|(names, rules)| {
            let mut property = Property { name: "AuthorizationRules", sent: String::new(), shown: Fields::new() };
            for (at, (name, (rights, primary, secondary))) in names.into_iter().zip(rules).enumerate() {
                let inside: String = rights.iter().map(|right| element("AccessRights", right)).collect();
                let more = secondary.as_ref().map(|key| element("SecondaryKey", key)).unwrap_or_default();
                property.sent.extend([format!(
                    "<AuthorizationRule i:type=\"SharedAccessAuthorizationRule\"><ClaimType>SharedAccessKey</ClaimType>\
                     <ClaimValue>None</ClaimValue><Rights>{inside}</Rights><KeyName>{name}</KeyName>\
                     <PrimaryKey>{primary}</PrimaryKey>{more}</AuthorizationRule>"
                )]);
                let text = format!("{name} {} {primary} {}", rights.join(","), secondary.unwrap_or_default());
                property.shown.insert(format!("AuthorizationRules/{at}"), text);
            }
            property
        })
        .boxed()
}
