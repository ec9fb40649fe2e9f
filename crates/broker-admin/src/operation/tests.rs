use std::collections::BTreeMap;

use broker_core::{Batch, ClientId, Core, CoreConfig, Output, Position, StorageError, StoredRecord};

use super::*;

mod bounds;
mod delete;
mod names;
mod pages;

/// A core whose records go nowhere: nothing is read back here.
struct Broker {
    core: Core,
    now: Timestamp,
}

#[derive(Default)]
struct Sink {
    end: u64,
    effects: Vec<Effect>,
}

impl Output for Sink {
    fn record(&mut self, index: &[u8], rest: &[&[u8]]) -> (Position, u32) {
        let length = index.len() + rest.iter().map(|part| part.len()).sum::<usize>();
        self.end += 1_000_000;
        (Position(self.end), u32::try_from(length).unwrap())
    }

    fn release(&mut self, _at: Position, _length: u32) {}

    fn effect(&mut self, _client: ClientId, effect: Effect) {
        self.effects.push(effect);
    }

    fn read(&mut self, at: Position, _length: u32) -> Result<StoredRecord, StorageError> {
        Err(StorageError { at, reason: "nothing is kept".into() })
    }

    fn readable(&self) -> Position {
        Position(self.end)
    }

    fn check_storage(&self) -> Result<(), broker_core::QuotaError> {
        Ok(())
    }
}

impl Broker {
    fn new() -> Self {
        let config = CoreConfig { max_entities: 300, ..CoreConfig::default() };
        Self { core: Core::new(config), now: Timestamp::from_millis(1_735_689_600_000) }
    }

    fn begin(&self, method: Method, path: &str, condition: Option<&str>, body: &str) -> Step {
        let (path, query) = path.split_once('?').unwrap_or((path, "api-version=2021-05"));
        begin(Request {
            method,
            route: Route::parse(path, Query::parse(query).unwrap().names).unwrap(),
            query: Query::parse(query).unwrap(),
            condition: condition.map(Match::parse),
            body: body.as_bytes(),
            host: Host::new(true, "ns.example:5300"),
            namespace: Namespace { tier: "Standard", created_at: self.now },
            now: self.now,
        })
    }

    fn request(&mut self, method: Method, path: &str, condition: Option<&str>, body: &str) -> Answer {
        self.request_beside(method, path, condition, body, |_, _| {})
    }

    /// Calls `beside` before the core is asked something, with how often it was.
    fn request_beside(
        &mut self,
        method: Method,
        path: &str,
        condition: Option<&str>,
        body: &str,
        mut beside: impl FnMut(&mut Self, u32),
    ) -> Answer {
        let mut step = self.begin(method, path, condition, body);
        // A page of the most entities takes fifty slices.
        for asked in 0..=50 {
            let (commands, pending) = match step {
                Step::Answer(answer) => return answer.whole(),
                Step::Ask(commands, pending) => (commands, pending),
            };
            beside(self, asked);
            let mut out = Sink::default();
            self.core.handle_batch(self.now, Batch { client: ClientId(1), commands }, &mut out);
            let is_refusal = |effect: &Effect| matches!(effect, Effect::RequestRefused { .. });
            let refusal = out.effects.iter().position(is_refusal);
            let last = out.effects.len().checked_sub(1).expect("each command is answered");
            step = pending.resume(out.effects.swap_remove(refusal.unwrap_or(last)));
        }
        panic!("an exchange that does not end")
    }

    fn commanded(&mut self, command: Command) -> Effect {
        let mut out = Sink::default();
        let batch = Batch { client: ClientId(1), commands: vec![command] };
        self.core.handle_batch(self.now, batch, &mut out);
        out.effects.pop().expect("each command is answered")
    }

    /// As a configuration file does it.
    fn configure(&mut self, name: &str, settings: EntitySettings) {
        let settings = Box::new(settings);
        let effect = self.commanded(Command::CreateEntity {
            name: name.into(),
            kind: EntityKind::Queue,
            settings,
            ticket: TICKET,
        });
        assert!(matches!(effect, Effect::EntityDone { .. }), "{effect:?}");
    }

    fn report(&mut self, name: &str) -> EntityReport {
        let query = EntityQuery::One { name: name.into() };
        match self.commanded(Command::Describe { query, ticket: TICKET }) {
            Effect::Described { entities, .. } => entities.first().cloned().expect("it is there"),
            other => panic!("{other:?}"),
        }
    }

    fn get(&mut self, path: &str) -> Answer {
        self.request(Method::Get, path, None, "")
    }

    fn create(&mut self, path: &str, element: &str, inside: &str) -> Answer {
        self.request(Method::Put, path, None, &body(element, inside))
    }

    fn update(&mut self, path: &str, element: &str, inside: &str) -> Answer {
        self.request(Method::Put, path, Some("*"), &body(element, inside))
    }

    fn delete(&mut self, path: &str) -> Answer {
        self.request(Method::Delete, path, None, "")
    }
}

impl Answer {
    /// With its body in one piece.
    fn whole(self) -> Self {
        let body = vec![self.body.concat()].into_iter().filter(|body| !body.is_empty()).collect();
        Self { body, ..self }
    }

    fn text(&self) -> &str {
        self.body.first().map_or("", |body| body)
    }
}

fn body(element: &str, inside: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<entry xmlns=\"{}\">\n  <updated>2026-01-01T00:00:00Z</updated>\n  \
         <content type=\"application/xml\">\n<{element} xmlns=\"{}\" xmlns:i=\"{}\">{inside}</{element}></content></entry>",
        xml::ATOM,
        xml::SERVICE_BUS,
        xml::INSTANCE
    )
}

const Q: &str = "QueueDescription";
const T: &str = "TopicDescription";
const S: &str = "SubscriptionDescription";
const R: &str = "RuleDescription";

/// What stands between `<name>` and `</name>`.
fn text<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let (_, rest) = answer.text().split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

fn titles(answer: &Answer) -> Vec<&str> {
    let entries = answer.text().split("<entry>").skip(1);
    entries.filter_map(|entry| entry.split_once("<title type=\"text\">")?.1.split('<').next()).collect()
}

fn detail(answer: &Answer) -> (u16, &str) {
    (answer.status, text(answer, "Detail").unwrap_or_default())
}

#[test]
fn an_entity_is_created_shown_changed_and_deleted() {
    let mut broker = Broker::new();
    let made = broker.create(
        "/orders",
        Q,
        "<LockDuration>PT30S</LockDuration><RequiresSession>true</RequiresSession>",
    );
    assert_eq!((made.status, text(&made, "LockDuration")), (201, Some("PT30S")));
    assert_eq!(text(&made, "id"), Some("https://ns.example:5300/orders?api-version=2021-05"));
    assert_eq!(text(&made, "name"), Some("ns"));
    assert_eq!(made.etag, Some(638_712_864_000_000_000));
    let again = broker.create("/ORDERS", Q, "");
    assert_eq!(detail(&again).0, 409);
    assert!(detail(&again).1.starts_with("SubCode=40900. Conflict. "), "{again:?}");
    let changed = broker.update("/orders", Q, "<MaxDeliveryCount>3</MaxDeliveryCount>");
    assert_eq!((changed.status, text(&changed, "MaxDeliveryCount")), (200, Some("3")));
    // What is left out has its default again, but for what is fixed at creation.
    assert_eq!(text(&changed, "LockDuration"), Some("PT1M"));
    assert_eq!(text(&changed, "RequiresSession"), Some("true"));
    let fixed = broker.update("/orders", Q, "<RequiresSession>false</RequiresSession>");
    assert_eq!(detail(&fixed).0, 400);
    assert!(detail(&fixed).1.starts_with("SubCode=40000. Bad Request. The value for the RequiresSession property of an existing Queue cannot be changed"), "{fixed:?}");
    assert_eq!(broker.get("/orders").status, 200);
    assert_eq!(broker.delete("/orders"), Answer::empty());
    let gone = broker.get("/orders");
    assert_eq!(gone.status, 200);
    assert!(gone.text().contains("Publicly Listed Services") && titles(&gone).is_empty(), "{gone:?}");
    assert_eq!(detail(&broker.delete("/orders")).0, 404);
    let missing = broker.update("/orders", Q, "");
    assert!(detail(&missing).1.starts_with("SubCode=40400. Not Found."), "{missing:?}");
}

#[test]
fn subscriptions_and_rules_stand_below_their_topic() {
    let mut broker = Broker::new();
    assert_eq!(broker.create("/t", T, "").status, 201);
    let made = broker.create("/t/subscriptions/s1/", S, "");
    assert_eq!(text(&made, "id"), Some("https://ns.example:5300/t/Subscriptions/s1?api-version=2021-05"));
    assert!(made.text().contains("<title type=\"text\">s1</title>"), "{made:?}");
    let rules = broker.get("/t/Subscriptions/s1/Rules");
    assert_eq!(titles(&rules), ["$Default"]);
    let filter = "<Filter i:type=\"SqlFilter\"><SqlExpression>a &gt; 1</SqlExpression></Filter>";
    let rule = broker.create("/t/Subscriptions/s1/Rules/big", R, filter);
    assert_eq!((rule.status, text(&rule, "SqlExpression")), (201, Some("a &gt; 1")));
    assert_eq!(
        text(&rule, "id"),
        Some("https://ns.example:5300/t/Subscriptions/s1/Rules/big?api-version=2021-05")
    );
    assert_eq!(detail(&broker.create("/t/Subscriptions/s1/Rules/BIG", R, filter)).0, 409);
    let changed = broker.update("/t/Subscriptions/s1/Rules/big", R, "<Filter i:type=\"FalseFilter\"/>");
    assert_eq!((changed.status, changed.text().contains("FalseFilter")), (200, true));
    assert_eq!(detail(&broker.update("/t/Subscriptions/s1/Rules/no", R, filter)).0, 404);
    assert_eq!(broker.delete("/t/Subscriptions/s1/Rules/$Default").status, 200);
    assert_eq!(titles(&broker.get("/t/Subscriptions/s1/Rules")), ["big"]);
    // The Java SDK reads an empty feed in the place of an entry as a fault of its own; 404 is what the service answers.
    for missing in ["/t/Subscriptions/s1/Rules/no", "/t/Subscriptions/no", "/no/Subscriptions/s1"] {
        let answer = broker.get(missing);
        let refused = detail(&answer);
        assert_eq!(refused.0, 404, "{missing}: {refused:?}");
        assert!(refused.1.starts_with("SubCode=40400. Not Found."), "{missing}: {refused:?}");
    }
    for missing in ["/no", "/t/Subscriptions/no/Rules"] {
        let answer = broker.get(missing);
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("Publicly Listed Services"), "{missing}: {answer:?}");
    }
    let own =
        "<DefaultRuleDescription><Filter i:type=\"FalseFilter\"/><Name>none</Name></DefaultRuleDescription>";
    assert_eq!(broker.create("/t/Subscriptions/s2", S, own).status, 201);
    assert_eq!(titles(&broker.get("/t/Subscriptions/s2/Rules")), ["none"]);
    assert_eq!(titles(&broker.get("/t/Subscriptions")), ["s1", "s2"]);
    assert_eq!(text(&broker.get("/t"), "SubscriptionCount"), Some("2"));
    assert_eq!(broker.delete("/t").status, 200);
    assert!(titles(&broker.get("/t/Subscriptions")).is_empty());
}

#[test]
fn a_rule_without_a_name_in_the_path_is_called_as_its_description_says() {
    let mut broker = Broker::new();
    assert_eq!(broker.create("/t", T, "").status, 201);
    assert_eq!(broker.create("/t/Subscriptions/s", S, "").status, 201);
    let path = "/t/Subscriptions/s/Rules/";
    let none = "<Filter i:type=\"FalseFilter\"/>";
    let named = |name: &str| format!("{none}<Name>{name}</Name>");
    assert_eq!(detail(&broker.create(path, R, &named("$Default"))).0, 409);
    assert_eq!(broker.delete("/t/Subscriptions/s/Rules/$Default").status, 200);
    for (inside, name) in [(named("$Default"), "$Default"), (named("own"), "own")] {
        let made = broker.create(path, R, &inside);
        assert_eq!((made.status, text(&made, "Name")), (201, Some(name)), "{made:?}");
        let id = format!("https://ns.example:5300/t/Subscriptions/s/Rules/{name}?api-version=2021-05");
        assert_eq!(text(&made, "id"), Some(&*id));
    }
    assert_eq!(titles(&broker.get(path)), ["$Default", "own"]);
    for nameless in [none.to_owned(), named("")] {
        let refused = broker.create(path, R, &nameless);
        assert_eq!(refused.status, 400);
        assert!(detail(&refused).1.contains("rule has no name"), "{refused:?}");
    }
    assert_eq!(detail(&broker.update(path, R, &named("own"))).0, 405);
    assert_eq!(detail(&broker.delete(path)).0, 405);
}

#[test]
fn lists_come_in_pages_that_name_the_next() {
    let mut broker = Broker::new();
    for number in 0..250 {
        assert_eq!(broker.create(&format!("/q{number:03}"), Q, "").status, 201);
    }
    broker.create("/topic", T, "");
    let mut seen = Vec::new();
    let mut path = "/$Resources/queues?api-version=2021-05".to_owned();
    for expected in [100, 100, 50] {
        let page = broker.get(&path);
        assert_eq!(titles(&page).len(), expected);
        seen.extend(titles(&page).into_iter().map(str::to_owned));
        let links: BTreeMap<&str, &str> = page
            .text()
            .split("<link rel=\"")
            .skip(1)
            .filter_map(|link| {
                let (relation, rest) = link.split_once("\" href=\"")?;
                Some((relation, rest.split_once('"')?.0))
            })
            .collect();
        let Some(next) = links.get("next") else { break };
        path = next.replace("&amp;", "&").replace("https://ns.example:5300", "");
    }
    assert_eq!(seen.len(), 250);
    assert!(seen.is_sorted());
    assert_eq!(titles(&broker.get("/$Resources/Topics")), ["topic"]);
    assert!(titles(&broker.get("/$Resources/queues?$skip=250")).is_empty());
}

#[test]
fn requests_that_make_no_sense_change_nothing() {
    let mut broker = Broker::new();
    broker.create("/t", T, "");
    let cases = [
        (Method::Put, "/q", "", 400),
        (Method::Put, "/q", "<entry/>", 400),
        (Method::Put, "/q", "not xml", 400),
        (Method::Put, "/t/Subscriptions/s", &body(Q, ""), 400),
        (Method::Put, "/q", &body(S, ""), 400),
        (Method::Put, "/q", &body(R, ""), 400),
        (Method::Put, "/q", &body(Q, "<LockDuration>PT6M</LockDuration>"), 400),
        (Method::Put, "/none/Subscriptions/s", &body(S, ""), 404),
        (Method::Put, "/bad name", &body(Q, ""), 400),
        (Method::Put, "/$namespaceinfo", &body(Q, ""), 405),
        (Method::Delete, "/$Resources/queues", "", 405),
        (Method::Put, "/t/Subscriptions", &body(S, ""), 405),
        (Method::Get, "/t/Subscriptions/none/Rules", "", 200),
    ];
    for (method, path, body, status) in cases {
        let answer = broker.request(method, path, None, body);
        assert_eq!(answer.status, status, "{method:?} {path}: {answer:?}");
    }
    let names: Vec<&str> = broker.core.entities().map(|view| view.name).collect();
    assert_eq!(names, ["t"]);
    let wrong_kind = broker.update("/t", Q, "");
    assert_eq!(detail(&wrong_kind).0, 400, "{wrong_kind:?}");
}

#[test]
fn the_namespace_says_its_name() {
    let answer = Broker::new().get("/$NamespaceInfo");
    assert_eq!((text(&answer, "Name"), text(&answer, "MessagingSKU")), (Some("ns"), Some("Standard")));
    assert_eq!(text(&answer, "CreatedTime"), Some("2025-01-01T00:00:00Z"));
}

#[test]
fn sizes_that_come_back_as_they_were_shown_stay_as_they_are() {
    let mut broker = Broker::new();
    let odd = EntitySettings { max_size_bytes: Some(5_000_000), ..EntitySettings::default() };
    for (name, settings) in [("odd", odd), ("unlimited", EntitySettings::default())] {
        let before = settings.max_size_bytes;
        broker.configure(name, settings);
        let shown = broker.get(&format!("/{name}"));
        let size = text(&shown, "MaxSizeInMegabytes").unwrap();
        let message = text(&shown, "MaxMessageSizeInKilobytes").unwrap();
        let sizes = |size: &str, message: &str| {
            format!(
                "<MaxSizeInMegabytes>{size}</MaxSizeInMegabytes><MaxDeliveryCount>3</MaxDeliveryCount>\
                 <MaxMessageSizeInKilobytes>{message}</MaxMessageSizeInKilobytes>"
            )
        };
        let updated = broker.update(&format!("/{name}"), Q, &sizes(size, message));
        assert_eq!((updated.status, text(&updated, "MaxDeliveryCount")), (200, Some("3")), "{updated:?}");
        let report = broker.report(name);
        assert_eq!(
            (report.settings.max_size_bytes, report.settings.max_message_bytes),
            (before, None),
            "{name}"
        );
        let refused = broker.update(&format!("/{name}"), Q, &sizes("7", message));
        assert!(detail(&refused).1.contains("a multiple of 1024"), "{refused:?}");
        let set = broker.update(&format!("/{name}"), Q, &sizes("2048", "64"));
        assert_eq!(text(&set, "MaxSizeInMegabytes"), Some("2048"));
        assert_eq!(broker.report(name).settings.max_message_bytes, Some(65_536));
    }
}

#[test]
fn an_update_is_for_the_state_that_its_tag_names() {
    let mut broker = Broker::new();
    broker.create("/t", T, "");
    broker.create("/t/Subscriptions/s", S, "");
    let deliveries = "<MaxDeliveryCount>3</MaxDeliveryCount>";
    let rule = "<Filter i:type=\"FalseFilter\"/>";
    let cases = [
        ("/q", Q, deliveries, "MaxDeliveryCount", "3"),
        ("/t/Subscriptions/s2", S, deliveries, "MaxDeliveryCount", "3"),
        ("/t/Subscriptions/s/Rules/r", R, rule, "SqlExpression", "1=0"),
    ];
    for (path, element, inside, property, value) in cases {
        let made = broker.create(path, element, "");
        let tag = made.etag.unwrap().to_string();
        assert_eq!(broker.get(path).etag, made.etag, "a look changes nothing");
        let mut put = |tag: &str| broker.request(Method::Put, path, Some(tag), &body(element, inside));
        for other in ["1", "\"x\"", "", "W/\"1\""] {
            let refused = put(other);
            assert_eq!(detail(&refused).0, 412, "{path} {other}: {refused:?}");
            assert!(detail(&refused).1.starts_with("Precondition Failed. "), "{refused:?}");
        }
        let updated = put(&format!("\"{tag}\""));
        assert_eq!((updated.status, text(&updated, property)), (200, Some(value)), "{updated:?}");
        assert_ne!(updated.etag, made.etag, "{path}");
        // All at one and the same time: the tag of the first state has passed nevertheless.
        assert_eq!(put(&tag).status, 412, "{path}");
        assert_eq!(put(&format!("1, {}", updated.etag.unwrap())).status, 200, "{path}");
        assert_eq!(put("*").status, 200, "{path}");
    }
    for path in ["/none", "/t/Subscriptions/s/Rules/none"] {
        let element = if path == "/none" { Q } else { R };
        let missing = broker.request(Method::Put, path, Some("1"), &body(element, ""));
        assert_eq!(missing.status, 404, "{missing:?}");
    }
}

#[test]
fn the_size_of_an_entity_with_partitions_is_given_for_each_and_shown_for_all() {
    let partitioned = "<EnablePartitioning>true</EnablePartitioning>";
    let size = |megabytes: u32| format!("<MaxSizeInMegabytes>{megabytes}</MaxSizeInMegabytes>");
    // Given at creation, shown, given in an update, shown.
    let cases = [
        (Some(4_096), "65536", Some(65_536), "65536"),
        (Some(4_096), "65536", Some(2_048), "32768"),
        (Some(5_120), "81920", Some(6_144), "6144"),
        (Some(6_144), "6144", Some(1_024), "16384"),
        (Some(81_920), "81920", None, "16384"),
        (None, "16384", None, "16384"),
    ];
    for (kind, path) in [(Q, "/q"), (T, "/t")] {
        for (given, expected, changed, then) in cases {
            let mut broker = Broker::new();
            let inside = format!("{}{partitioned}", given.map(size).unwrap_or_default());
            let created = broker.create(path, kind, &inside);
            assert_eq!(
                (created.status, text(&created, "MaxSizeInMegabytes")),
                (201, Some(expected)),
                "{given:?}"
            );
            assert_eq!(text(&broker.get(path), "MaxSizeInMegabytes"), Some(expected));
            // An update may leave out a property that is fixed.
            let updated = broker.update(path, kind, &changed.map(size).unwrap_or_default());
            assert_eq!(
                (updated.status, text(&updated, "MaxSizeInMegabytes")),
                (200, Some(then)),
                "{changed:?}"
            );
        }
        let mut broker = Broker::new();
        let odd = broker.create(path, kind, &format!("{}{partitioned}", size(1_000)));
        assert_eq!(odd.status, 400, "{odd:?}");
        // `ferrybus` means the whole entity, as its configuration does.
        let total = format!("{path}?api-version=2021-05&total-size=true");
        let created = broker.create(&total, kind, &format!("{}{partitioned}", size(4_096)));
        assert_eq!(text(&created, "MaxSizeInMegabytes"), Some("4096"));
        let updated = broker.update(&total, kind, &size(2_048));
        assert_eq!(text(&updated, "MaxSizeInMegabytes"), Some("2048"));
    }
}

#[test]
fn a_subscription_that_nobody_used_is_shown_as_used_when_it_was_made() {
    let mut broker = Broker::new();
    broker.create("/q", Q, "");
    broker.create("/t", T, "");
    let put = broker.create("/t/Subscriptions/s", S, "");
    assert_eq!(text(&put, "AccessedAt"), Some("0001-01-01T00:00:00"), "not in the answer to its creation");
    for (path, accessed) in [
        ("/q", "0001-01-01T00:00:00Z"),
        ("/t", "0001-01-01T00:00:00Z"),
        ("/t/Subscriptions/s", "2025-01-01T00:00:00Z"),
    ] {
        assert_eq!(text(&broker.get(path), "AccessedAt"), Some(accessed), "{path}");
    }
}

#[test]
fn an_update_never_hits_what_came_after_it_had_looked() {
    let mut broker = Broker::new();
    broker.create("/q", Q, "<RequiresSession>true</RequiresSession>");
    let inside = "<MaxDeliveryCount>3</MaxDeliveryCount>";
    // Behind its look, the queue is replaced by one without sessions: left out, they would come back.
    let updated = broker.request_beside(Method::Put, "/q", Some("*"), &body(Q, inside), |broker, asked| {
        if asked == 1 {
            broker.delete("/q");
            broker.create("/q", Q, "");
        }
    });
    assert_eq!((updated.status, text(&updated, "RequiresSession")), (200, Some("false")), "{updated:?}");
    assert_eq!(text(&updated, "MaxDeliveryCount"), Some("3"));
    // With a tag it is not the state that was meant.
    let tag = updated.etag.unwrap().to_string();
    let refused = broker.request_beside(Method::Put, "/q", Some(&tag), &body(Q, ""), |broker, asked| {
        if asked == 1 {
            broker.update("/q", Q, "<MaxDeliveryCount>4</MaxDeliveryCount>");
        }
    });
    assert_eq!(refused.status, 412, "{refused:?}");
    assert_eq!(text(&broker.get("/q"), "MaxDeliveryCount"), Some("4"));
    // It may also have become something else, or be gone.
    let other = broker.request_beside(Method::Put, "/q", Some("*"), &body(Q, ""), |broker, asked| {
        if asked == 1 {
            broker.delete("/q");
            broker.create("/q", T, "");
        }
    });
    assert_eq!(other.status, 400, "{other:?}");
    let gone = broker.request_beside(Method::Put, "/q", Some("*"), &body(T, ""), |broker, asked| {
        if asked == 1 {
            broker.delete("/q");
        }
    });
    assert_eq!(gone.status, 404, "{gone:?}");
}

#[test]
fn an_update_among_endless_others_is_a_conflict_in_the_end() {
    let mut broker = Broker::new();
    broker.create("/q", Q, "");
    let refused = broker.request_beside(Method::Put, "/q", Some("*"), &body(Q, ""), |broker, asked| {
        if asked % 2 == 1 {
            broker.update("/q", Q, "<MaxDeliveryCount>4</MaxDeliveryCount>");
        }
    });
    assert_eq!(detail(&refused).0, 409);
    assert!(detail(&refused).1.starts_with("SubCode=40504. "), "{refused:?}");
}

#[test]
fn a_rule_is_not_changed_to_what_was_meant_for_another() {
    let mut broker = Broker::new();
    broker.create("/t", T, "");
    let made = broker.create("/t/Subscriptions/s", S, "");
    assert_eq!(made.status, 201);
    let path = "/t/Subscriptions/s/Rules/$Default";
    let tag = broker.get(path).etag.unwrap().to_string();
    let filter =
        |text: &str| format!("<Filter i:type=\"SqlFilter\"><SqlExpression>{text}</SqlExpression></Filter>");
    let ours = body(R, &filter("a = 1"));
    let refused = broker.request_beside(Method::Put, path, Some(&tag), &ours, |broker, asked| {
        if asked == 1 {
            broker.update(path, R, &filter("a = 2"));
        }
    });
    assert_eq!(refused.status, 412, "{refused:?}");
    assert_eq!(text(&broker.get(path), "SqlExpression"), Some("a = 2"));
}

#[test]
fn codes_say_which_quota_and_which_target() {
    let mut broker = Broker::new();
    broker.create("/t", T, "");
    let forward = broker.create("/q", Q, "<ForwardTo>none</ForwardTo>");
    assert_eq!(detail(&forward).0, 400);
    assert!(
        detail(&forward).1.starts_with("SubCode=40400. Bad Request. `ForwardTo` names `none`"),
        "{forward:?}"
    );
    let below = broker.create("/t/Subscriptions/s", S, "<ForwardTo>t/Subscriptions/s</ForwardTo>");
    assert!(detail(&below).1.starts_with("SubCode=40400. "), "{below:?}");
    let limit = |what| EntityError::LimitReached { what, limit: 1 };
    let waiting = |is_correlation| Pending {
        context: Context {
            host: Host::new(false, ""),
            query: Query::parse("").unwrap(),
            now: Timestamp::from_millis(0),
        },
        awaiting: Awaiting::RuleStored {
            path: main_path("t/Subscriptions/s"),
            name: "r".into(),
            status: 201,
            is_correlation,
        },
    };
    for (error, is_correlation, code) in [
        (limit("entities"), false, 40300),
        (broker_core::QuotaError::Memory.into(), false, 40300),
        (limit(broker_core::SUBSCRIPTIONS_PER_TOPIC), false, 40503),
        (limit(RULES_PER_TOPIC), false, 40501),
        (limit(RULES_PER_TOPIC), true, 40502),
    ] {
        let refused = waiting(is_correlation).resume(Effect::RequestRefused { ticket: TICKET, error });
        let Step::Answer(answer) = refused else { panic!("{refused:?}") };
        assert_eq!(detail(&answer).0, 403);
        assert!(detail(&answer).1.starts_with(&format!("SubCode={code}. ")), "{answer:?}");
    }
    let method = broker.request(Method::Put, "/$namespaceinfo", None, "");
    assert_eq!(detail(&method), (405, "Method Not Allowed. The path does not take this method."));
}

#[test]
fn a_time_to_live_below_a_second_is_kept_but_not_set() {
    let mut broker = Broker::new();
    let live = |time: &str| format!("<DefaultMessageTimeToLive>{time}</DefaultMessageTimeToLive>");
    for time in ["PT0S", "PT0.999S"] {
        let refused = broker.create("/q", Q, &live(time));
        assert_eq!(refused.status, 400, "{refused:?}");
    }
    assert_eq!(broker.create("/q", Q, &live("PT1S")).status, 201);
    assert_eq!(broker.update("/q", Q, &live("PT0S")).status, 400);
    let short = Some(std::time::Duration::from_millis(500));
    broker.configure("short", EntitySettings { default_time_to_live: short, ..EntitySettings::default() });
    assert_eq!(broker.update("/short", Q, &live("PT0.5S")).status, 200);
    assert_eq!(broker.update("/short", Q, &live("PT0.4S")).status, 400);
}
