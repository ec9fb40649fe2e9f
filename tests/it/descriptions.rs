//! Descriptions of entities on their whole way: XML, the management API, the core, the bytes of the journal, a crash,
//! replay, and XML again.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use broker_admin::{Answer, Host, Match, Method, Namespace, Query, Request, Route, Step, begin};
use broker_core::{Batch, ClientId, Command, CoreConfig, Effect, EntityKind, NameScope, Timestamp};
use broker_log::{DiskCall, DiskWorker, Faults, FaultyDisk, JournalConfig};
use broker_node::Node;
use proptest::prelude::*;
use roxmltree::{Document, Node as Element};

mod arbitrary;

use arbitrary::{Case, Fields, TARGET};

/// A disk whose syncs fail on demand, and that keeps any of the sectors that were not synced.
#[derive(Clone, Default)]
struct Mischief {
    syncs_fail: Arc<AtomicBool>,
    chance: Arc<AtomicU64>,
}

impl Faults for Mischief {
    fn fails(&mut self, call: DiskCall) -> Option<io::ErrorKind> {
        let fails = matches!(call, DiskCall::SyncData(_)) && self.syncs_fail.load(Ordering::Relaxed);
        fails.then_some(io::ErrorKind::Other)
    }

    fn sector_survives(&mut self) -> bool {
        // The generator of L'Ecuyer's tables for 64 bits; the highest bit is the best one.
        let next = |state: u64| state.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        let next = next(self.chance.load(Ordering::Relaxed));
        self.chance.store(next, Ordering::Relaxed);
        next >> 63 == 1
    }
}

/// A broker without sockets, on a disk that outlives it.
struct Broker {
    mischief: Mischief,
    disk: FaultyDisk,
    node: Node,
    now: Timestamp,
}

/// When all reads are, so that nothing differs but what is read.
const LATER: Timestamp = Timestamp::from_millis(1_800_000_000_000);
/// Somebody who asks.
const CLIENT: ClientId = ClientId(1);

fn recovered(disk: &FaultyDisk) -> Node {
    let journal = JournalConfig {
        segment_bytes: 1 << 18,
        cache_bytes: 1 << 20,
        reserve_bytes: 0,
        ..JournalConfig::default()
    };
    let core = CoreConfig { max_message_bytes: 100 << 20, ..CoreConfig::default() };
    broker_node::recover(disk.clone(), journal, core).unwrap()
}

impl Broker {
    fn new(chance: u64) -> Self {
        let mischief = Mischief { chance: Arc::new(AtomicU64::new(chance)), ..Mischief::default() };
        let disk = FaultyDisk::new(mischief.clone());
        let (node, now) = (recovered(&disk), Timestamp::from_millis(1_700_000_000_000));
        Self { mischief, disk, node, now }
    }

    /// The process ends without a word, and the machine with it; then both are back.
    fn crash(&mut self) {
        self.disk.crash();
        self.mischief.syncs_fail.store(false, Ordering::Relaxed);
        self.node = recovered(&self.disk);
    }

    /// One request; `None`: it was never answered.
    fn request(&mut self, method: Method, path: &str, condition: Option<&str>, body: &str) -> Option<Answer> {
        let now = if method == Method::Get { LATER } else { self.now };
        self.now = Timestamp::from_millis(self.now.as_millis() + 1_500);
        let mut step = begin(Request {
            method,
            route: Route::parse(path, NameScope::ServiceBus).unwrap(),
            query: Query::parse("api-version=2021-05").unwrap(),
            condition: condition.map(Match::parse),
            body: body.as_bytes(),
            host: Host::new(false, "localhost:5300"),
            namespace: Namespace { tier: "Standard", created_at: LATER },
            now,
        });
        loop {
            let (commands, pending) = match step {
                Step::Answer(answer) => return Some(answer),
                Step::Ask(commands, pending) => (commands, pending),
            };
            step = pending.resume(self.ask(commands)?);
        }
    }

    fn ask(&mut self, commands: Vec<Command>) -> Option<Effect> {
        let answers = commands.len();
        self.node.handle_batch(
            self.now,
            broker_node::NamespaceId::DEFAULT,
            Batch { client: CLIENT, commands },
        );
        let mut effects = Vec::new();
        while effects.len() < answers {
            while self.node.work(self.now) {}
            let request = self.node.poll_io();
            let is_idle = request.is_none();
            if let Some(request) = request {
                self.node.handle_io(DiskWorker::new(self.disk.clone()).perform(request));
            }
            while let Some(released) = self.node.poll_effects() {
                effects.extend(released.effects);
            }
            if self.node.fault().is_some() {
                return None;
            }
            assert!(!is_idle || effects.len() >= answers, "nothing goes on, and something is not answered");
        }
        let is_refusal = |effect: &Effect| matches!(effect, Effect::RequestRefused { .. });
        let refusal = effects.iter().position(is_refusal);
        Some(effects.swap_remove(refusal.unwrap_or(effects.len() - 1)))
    }

    /// Puts a description, which must be taken; gives what is shown of it.
    fn put(&mut self, (path, update): (&str, bool), element: &str, inside: &str) -> Fields {
        let (condition, status) = if update { (Some("*"), 200) } else { (None, 201) };
        let answer =
            self.request(Method::Put, path, condition, &body(element, inside)).expect("the disk is fine");
        assert_eq!(answer.status, status, "{path}: {inside}\n{}", answer.body.concat());
        fields(&answer.body.concat()).remove(0)
    }

    /// What is to be read of a case, as it is read.
    fn picture(&mut self, case: &Case) -> Vec<(String, Option<u64>, String)> {
        let mut paths = vec![case.path.clone(), "$Resources/queues".into(), "$Resources/topics".into()];
        if case.kind == EntityKind::Subscription {
            paths.extend([format!("{}/Subscriptions", case.topic), format!("{}/Rules", case.path)]);
            paths.extend(case.shown_rules().into_keys().map(|name| format!("{}/Rules/{name}", case.path)));
        }
        let picture = paths.into_iter().map(|path| {
            let answer = self.request(Method::Get, &path, None, "").expect("nothing is written");
            assert_eq!(answer.status, 200, "{path}: {}", answer.body.concat());
            (path, answer.etag, answer.body.concat())
        });
        picture.collect()
    }

    /// Demands that just this is shown of the entity, and all its rules.
    fn shows(&mut self, case: &Case, expected: &Fields) {
        let picture = self.picture(case);
        assert_eq!(fields(&picture[0].2), std::slice::from_ref(expected), "{}", case.path);
        if case.kind == EntityKind::Subscription {
            let rules = fields(&picture.iter().find(|(path, ..)| path.ends_with("/Rules")).unwrap().2);
            let rules: BTreeMap<_, _> = rules.into_iter().map(|rule| (rule["Name"].clone(), rule)).collect();
            assert_eq!(rules, case.shown_rules());
        }
    }
}

fn element_name(kind: EntityKind) -> &'static str {
    match kind {
        EntityKind::Queue => "QueueDescription",
        EntityKind::Topic => "TopicDescription",
        EntityKind::Subscription => "SubscriptionDescription",
    }
}

fn body(element: &str, inside: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><entry xmlns=\"http://www.w3.org/2005/Atom\">\
         <content type=\"application/xml\"><{element} \
         xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\" \
         xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\">{inside}</{element}></content></entry>"
    )
}

/// What no client sets.
const READ_ONLY: [&str; 8] = [
    "AccessedAt",
    "CountDetails",
    "CreatedAt",
    "EntityAvailabilityStatus",
    "MessageCount",
    "SizeInBytes",
    "SubscriptionCount",
    "UpdatedAt",
];

/// The fields of each description in an answer.
fn fields(text: &str) -> Vec<Fields> {
    let document = Document::parse(text).unwrap();
    let contents =
        document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2005/Atom", "content")));
    let descriptions = contents.filter_map(|content| content.first_element_child());
    let read = descriptions.map(|description| {
        let mut fields = Fields::new();
        read(description, "", &mut fields);
        fields.retain(|name, _| !READ_ONLY.iter().any(|known| name.starts_with(known)));
        fields
    });
    read.collect()
}

fn read(parent: Element<'_, '_>, prefix: &str, fields: &mut Fields) {
    let kind = |node: Element<'_, '_>| {
        let attribute = node.attribute(("http://www.w3.org/2001/XMLSchema-instance", "type"));
        attribute.map(|kind| kind.rsplit(':').next().unwrap().to_owned())
    };
    let text = |node: Element<'_, '_>, name: &str| {
        let found = node.descendants().find(|it| it.tag_name().name() == name);
        found.and_then(|it| it.text()).unwrap_or_default().to_owned()
    };
    for (at, node) in parent.children().filter(Element::is_element).enumerate() {
        let path = format!("{prefix}{}", node.tag_name().name());
        match node.tag_name().name() {
            "KeyValueOfstringanyType" => {
                let value = node.children().find(|it| it.tag_name().name() == "Value").unwrap();
                let told = format!("{} {}", kind(value).unwrap(), value.text().unwrap_or_default());
                fields.insert(format!("{prefix}{}", text(node, "Key")), told);
            }
            "AuthorizationRule" => {
                let rights = node.descendants().filter(|it| it.tag_name().name() == "AccessRights");
                let rights: Vec<&str> = rights.filter_map(|it| it.text()).collect();
                let [name, primary, secondary] =
                    ["KeyName", "PrimaryKey", "SecondaryKey"].map(|name| text(node, name));
                fields.insert(
                    format!("{prefix}{at}"),
                    format!("{name} {} {primary} {secondary}", rights.join(",")),
                );
            }
            "AuthorizationRules" | "Parameters" | "Properties" => read(node, &format!("{path}/"), fields),
            _ => {
                let own = kind(node).unwrap_or_else(|| node.text().unwrap_or_default().to_owned());
                fields.insert(path.clone(), own);
                read(node, &format!("{path}/"), fields);
            }
        }
    }
}

/// Makes what the case is about, and demands that each answer shows just what was asked for.
fn made(case: &Case, chance: u64) -> Broker {
    let mut broker = Broker::new(chance);
    broker.put((TARGET, false), "QueueDescription", "");
    if !case.topic.is_empty() {
        broker.put((&case.topic, false), "TopicDescription", "");
    }
    let stored = broker.put((&case.path, false), element_name(case.kind), &case.sent());
    assert_eq!(stored, case.shown());
    for rule in &case.rules {
        let path = format!("{}/Rules/{}", case.path, rule.name);
        assert_eq!(broker.put((&path, false), "RuleDescription", &rule.sent), rule.shown);
    }
    broker.shows(case, &case.shown());
    broker
}

proptest! {
    #[test]
    fn any_description_survives_a_write_a_crash_a_replay_and_a_read(case in arbitrary::case(), chance: u64) {
        let mut broker = made(&case, chance);
        let before = broker.picture(&case);
        broker.crash();
        prop_assert_eq!(broker.picture(&case), before, "every byte of it, times and tags too");
        broker.shows(&case, &case.shown());
        // An update that nobody was told of may be there or not, as a whole.
        broker.mischief.syncs_fail.store(true, Ordering::Relaxed);
        let update = body(element_name(case.kind), &case.sent_update());
        prop_assert_eq!(broker.request(Method::Put, &case.path, Some("*"), &update), None);
        broker.crash();
        let is_there = fields(&broker.picture(&case)[0].2) == [case.shown_after_update()];
        let expected = if is_there { case.shown_after_update() } else { case.shown() };
        broker.shows(&case, &expected);
        // One that was answered is there.
        let stored = broker.put((&case.path, true), element_name(case.kind), &case.sent_update());
        prop_assert_eq!(stored, case.shown_after_update());
        let before = broker.picture(&case);
        broker.crash();
        prop_assert_eq!(broker.picture(&case), before);
        broker.shows(&case, &case.shown_after_update());
        let gone = broker.request(Method::Delete, &case.path, None, "").unwrap();
        prop_assert_eq!(gone.status, 200);
        broker.crash();
        let answer = broker.request(Method::Get, &case.path, None, "").unwrap().body.concat();
        prop_assert!(fields(&answer).is_empty(), "{}", answer);
    }
}
