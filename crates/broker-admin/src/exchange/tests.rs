use std::collections::BTreeMap;

use broker_core::{
    Batch, ClientId, Core, CoreConfig, EntitySettings, Output, Position, StorageError, StoredRecord,
};

use super::*;

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

    fn storage_full(&self) -> bool {
        false
    }
}

impl Broker {
    fn new() -> Self {
        let config = CoreConfig { max_entities: 300, ..CoreConfig::default() };
        Self { core: Core::new(config), now: Timestamp::from_millis(1_735_689_600_000) }
    }

    fn request(&mut self, method: Method, path: &str, is_update: bool, body: &str) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, "api-version=2021-05"));
        let request = Request {
            method,
            route: Route::parse(path).unwrap(),
            query: Query::parse(query).unwrap(),
            is_update,
            body: body.as_bytes(),
            host: Host::new(true, "ns.example:5300"),
            now: self.now,
        };
        let mut step = begin(request);
        // A page of the most entities takes twenty slices.
        for _ in 0..21 {
            let (commands, pending) = match step {
                Step::Answer(answer) => return answer.whole(),
                Step::Ask(commands, pending) => (commands, pending),
            };
            let mut out = Sink::default();
            self.core.handle_batch(self.now, Batch { client: ClientId(1), commands }, &mut out);
            step = pending.resume(out.effects.pop().expect("each command is answered"));
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
        let look = Look::One { name: name.into() };
        match self.commanded(Command::Describe { look, ticket: TICKET }) {
            Effect::Described { entities, .. } => entities.first().cloned().expect("it is there"),
            other => panic!("{other:?}"),
        }
    }

    fn get(&mut self, path: &str) -> Answer {
        self.request(Method::Get, path, false, "")
    }

    fn create(&mut self, path: &str, element: &str, inside: &str) -> Answer {
        self.request(Method::Put, path, false, &body(element, inside))
    }

    fn update(&mut self, path: &str, element: &str, inside: &str) -> Answer {
        self.request(Method::Put, path, true, &body(element, inside))
    }

    fn delete(&mut self, path: &str) -> Answer {
        self.request(Method::Delete, path, false, "")
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
    assert_eq!(made.etag, Some(1_735_689_600_000));
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
    assert!(detail(&fixed).1.starts_with("SubCode=40000. Bad Request. `RequiresSession`"), "{fixed:?}");
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
    assert!(broker.get("/t/Subscriptions/s1/Rules/no").text().contains("Publicly Listed Services"));
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
        let answer = broker.request(method, path, false, body);
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
    let hosts = [("", "localhost"), ("a b", "localhost"), ("10.0.0.1:5300", "10"), ("x.servicebus.net", "x")];
    for (authority, name) in hosts {
        assert_eq!(Host::new(false, authority).namespace(), name);
    }
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
