//! What those see who watch the broker: metrics and health, over HTTP.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use amqp_codec::{
    performative::{Attach, DeliveryState, Open, Performative, Source, Target},
    types::{ReceiverSettleMode, Role},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use broker_core::{EntitySettings, NamespaceLimit, NamespaceLimits, NamespaceSettings};
use broker_server::{
    EntityPlan, NamespacePlan, ObservabilityConfig, ProcessMemory, ServerConfig, TelemetryConfig,
};
use testkit::Wire;

use crate::{
    broker::{Broker, Folder, QUEUE, config, durable},
    client::Client,
    http::{ask, ask_over, connect, root},
    token_hosts::plan,
};

mod namespaces;

/// The value of one sample.
fn sample(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.parse().ok()
}

fn scrape(address: SocketAddr) -> String {
    let (status, text) = ask(address, "GET /metrics", "");
    assert_eq!(status, 200, "{text}");
    text
}

/// A value of a namespace.
fn of_namespace(text: &str, name: &str, namespace: &str) -> Option<f64> {
    sample(text, &format!("ferrybus_namespace_{name}{{namespace=\"{namespace}\"}}"))
}

#[test]
fn each_namespace_has_its_own_figures() {
    let limits = NamespaceLimits::default().with(NamespaceLimit::Entities, Some(7));
    let settings = NamespaceSettings { weight: 3, limits, ..NamespaceSettings::default() };
    let namespaces = [("team-a", settings), ("team-b", NamespaceSettings::default())]
        .map(|(name, settings)| NamespacePlan { settings, entities: Vec::new(), ..plan(name) });
    let broker = Broker::with(|config| config.namespaces = namespaces.to_vec());
    let log_in = format!("\0{DEVELOPMENT_KEY_NAME}\0{DEVELOPMENT_KEY}");
    let open = Open { hostname: Some("vhost:team-a".to_owned()), ..Open::new("client") };
    let mut client = Client::connect(broker.address, "PLAIN", Some(log_in.as_bytes()), open);
    client.begin(0);
    client.sender(1, QUEUE);
    client.accepted(1, &["a", "b", "c"]);
    let text = scrape(broker.address);
    let figures = |name| ["team-a", "team-b"].map(|namespace| of_namespace(&text, name, namespace));
    for (name, expected) in [
        ("entities", [1.0, 0.0]),
        ("connections", [1.0, 0.0]),
        ("connections_refused_total", [0.0, 0.0]),
        ("in_flight_bytes", [0.0, 0.0]),
        ("disk_reads_total", [0.0, 0.0]),
        ("send_waits_total", [0.0, 0.0]),
        ("dynamic_nodes", [0.0, 0.0]),
        ("weight", [3.0, 1.0]),
        ("held", [0.0, 0.0]),
    ] {
        assert_eq!(figures(name), expected.map(Some), "{name}");
    }
    for name in
        ["live_bytes", "appended_bytes_total", "work_units_total", "cached_bytes", "gateway_work_units_total"]
    {
        let [with_messages, without] = figures(name);
        assert!(without.is_some() && with_messages > without, "{name}: {with_messages:?} and {without:?}");
    }
    let limit = "ferrybus_namespace_limit{namespace=\"team-a\",limit=\"max_entities\"}";
    assert_eq!(sample(&text, limit), Some(7.0), "{text}");
    assert!(!text.contains("ferrybus_namespace_limit{namespace=\"team-b\""), "{text}");
}

/// A probe without a log-in.
fn probe(address: SocketAddr, path: &str) -> (u16, String) {
    ask_over(&mut connect(address), &format!("GET {path}"), None, "")
}

#[test]
fn messages_show_in_the_metrics_as_they_come_and_go() {
    let broker = Broker::start();
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["a", "b", "c"]);
    client.receiver(2, QUEUE, Some(ReceiverSettleMode::First));
    let got = client.receive(2, 2);
    client.complete(&got[0]);
    let text = scrape(broker.address);
    let of = |name: &str, more: &str| {
        sample(
            &text,
            &format!(
                "ferrybus_entity_{name}{{namespace=\"default\",entity=\"{QUEUE}\",kind=\"queue\"{more}}}"
            ),
        )
    };
    assert_eq!(of("messages", ",state=\"active\""), Some(2.0), "{text}");
    assert_eq!(of("messages", ",state=\"locked\""), Some(1.0));
    assert_eq!(of("incoming_messages_total", ""), Some(3.0));
    assert_eq!(of("outgoing_messages_total", ""), Some(2.0));
    assert_eq!(of("completed_messages_total", ""), Some(1.0));
    assert!(of("oldest_message_age_seconds", "").is_some_and(|age| (0.0..600.0).contains(&age)));
    assert!(of("oldest_held_message_age_seconds", "").is_some_and(|age| (0.0..600.0).contains(&age)));
    let connections = "ferrybus_connections{transport=\"plain\",authentication=\"anonymous\"}";
    let connections =
        sample(&text, connections).or(sample(&text, &connections.replace("anonymous", "plain")));
    assert_eq!(connections, Some(1.0), "{text}");
    assert!(
        sample(&text, "ferrybus_core_queue_time_seconds_count{shard=\"0\"}").is_some_and(|count| count > 0.0)
    );
}

#[test]
fn dynamic_nodes_show_in_the_metrics_of_their_namespace() {
    let broker = Broker::with(|config| config.max_dynamic_nodes_per_connection = 1);
    let figures = || {
        let text = scrape(broker.address);
        ["", "_created_total", "_refused_total"].map(|ending| {
            sample(&text, &format!("ferrybus_namespace_dynamic_nodes{ending}{{namespace=\"default\"}}"))
        })
    };
    let dynamic = |handle: u32| {
        let mut attach = Attach::new(format!("dynamic-{handle}"), handle, Role::Receiver);
        attach.source = Some(Source { dynamic: true, ..Source::default() });
        attach.target = Some(Target::new("here"));
        attach
    };
    assert_eq!(figures(), [Some(0.0), Some(0.0), Some(0.0)]);
    let mut client = broker.plain();
    client.attach(0, dynamic(1));
    assert_eq!(figures(), [Some(1.0), Some(1.0), Some(0.0)]);
    assert_eq!(client.refused(0, dynamic(2)).condition, "amqp:resource-limit-exceeded");
    assert_eq!(figures(), [Some(1.0), Some(1.0), Some(1.0)]);
    client.close();
    until(|| figures() == [Some(0.0), Some(1.0), Some(1.0)]);
}

#[test]
fn a_write_of_the_journal_is_measured() {
    let folder = Folder::new();
    let broker = Broker::durable(&folder.0);
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.accepted(1, &["a"]);
    let text = scrape(broker.http_address());
    let names = [
        "write_time_seconds_count",
        "batch_bytes_count",
        "batch_records_sum",
        "writes_total",
        "syncs_total",
        "segments",
    ];
    for name in names {
        let name = format!("ferrybus_journal_{name}{{shard=\"0\"}}");
        assert!(sample(&text, &name).is_some_and(|count| count >= 1.0), "{name}: {text}");
    }
    assert!(
        sample(&text, "ferrybus_disk_free_bytes{shard=\"0\"}").is_some_and(|bytes| bytes > 0.0),
        "{text}"
    );
}

#[test]
fn metrics_are_shown_to_who_may_listen_everywhere_and_to_all_when_so_configured() {
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    let closed = Broker::start();
    let open = Broker::with(|config| {
        config.observe = ObservabilityConfig { anonymous_metrics: true, ..ObservabilityConfig::default() };
    });
    let cases = [
        ("no log-in", &closed, None, "GET", 401),
        ("a wrong key", &closed, Some(basic(&format!("{DEVELOPMENT_KEY_NAME}:wrong"))), "GET", 401),
        (
            "name and key",
            &closed,
            Some(basic(&format!("{DEVELOPMENT_KEY_NAME}:{DEVELOPMENT_KEY}"))),
            "GET",
            200,
        ),
        ("a token", &closed, Some(root()), "GET", 200),
        ("another method", &closed, Some(root()), "POST", 405),
        ("only the head", &closed, Some(root()), "HEAD", 200),
        ("no log-in where none is wanted", &open, None, "GET", 200),
    ];
    for (what, broker, login, method, expected) in cases {
        let request = format!("{method} /metrics");
        let (status, text) = ask_over(&mut connect(broker.address), &request, login.as_deref(), "");
        assert_eq!(status, expected, "{what}: {text}");
        assert!(status == 200 || !text.contains("ferrybus_entity"), "{what}");
    }
}

#[test]
fn a_scrape_shows_all_entities_and_no_more_than_its_limit() {
    let names: Vec<String> = (0..250).map(|number| format!("q{number:03}")).collect();
    let cases = [(250, 250, 0.0), (249, 249, 1.0), (100, 100, 1.0), (0, 0, 1.0), (10_000, 250, 0.0)];
    for (limit, expected, left_out) in cases {
        let broker = Broker::with(|config| {
            let plan = |name: &String| EntityPlan::queue(name.clone(), EntitySettings::default());
            config.entities = names.iter().map(plan).collect();
            config.observe.max_entities = limit;
        });
        let text = scrape(broker.address);
        let shown = text.lines().filter(|line| line.starts_with("ferrybus_entity_size_bytes{")).count();
        assert_eq!(shown, expected, "limit {limit}");
        assert_eq!(sample(&text, "ferrybus_entities_left_out"), Some(left_out), "limit {limit}");
    }
}

#[test]
fn an_entity_called_metrics_can_be_managed() {
    let broker = Broker::with(|config| {
        config.entities = vec![EntityPlan::queue("metrics", EntitySettings::default())];
    });
    let (status, text) = ask(broker.address, "GET /metrics?api-version=2021-05", "");
    assert!(status == 200 && text.contains("QueueDescription"), "{status} {text}");
    assert!(scrape(broker.address).contains("entity=\"metrics\""));
}

#[test]
fn a_broker_that_works_is_healthy() {
    let broker = Broker::start();
    let cases = [
        ("/healthz", r#"{"status":"alive"}"#),
        ("/readyz", r#"{"status":"ready"}"#),
        ("/readyz/sends", r#"{"status":"ready"}"#),
        ("/health", r#"{"message":"Service is healthy.","status":"healthy"}"#),
    ];
    for (path, body) in cases {
        for address in [broker.address, broker.http_address()] {
            assert_eq!(probe(address, path), (200, body.to_owned()), "{path}");
        }
    }
    assert_eq!(ask(broker.address, "POST /healthz", "").0, 405);
}

#[test]
fn a_broker_with_a_full_disk_is_ready_for_receivers_and_not_for_senders() {
    let folder = Folder::new();
    let mut config = durable(&folder.0);
    config.entities.clear();
    config.journal.reserve_bytes = 1 << 60;
    let broker = Broker::of(&config);
    let said =
        |status: &str| format!(r#"{{"reason":"the disk is full, sends are refused","status":"{status}"}}"#);
    assert_eq!(probe(broker.address, "/readyz"), (200, said("degraded")));
    assert_eq!(probe(broker.address, "/readyz/sends"), (503, said("unavailable")));
    assert_eq!(probe(broker.address, "/healthz").0, 200);
    assert_eq!(probe(broker.address, "/health").0, 503);
    assert_eq!(sample(&scrape(broker.address), "ferrybus_disk_full{shard=\"0\"}"), Some(1.0));
}

/// Asks until it is so.
fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "it does not come to that");
    }
}

/// Memory of the broker of the test below, as the system would tell it.
static MEMORY: AtomicU64 = AtomicU64::new(0);

#[test]
fn a_broker_at_its_memory_limit_takes_messages_and_one_beyond_it_refuses_them() {
    const LIMIT: u64 = 1 << 30;
    let config = ServerConfig {
        memory: ProcessMemory { limit: Some(LIMIT), measure: || Ok(MEMORY.load(Ordering::Relaxed)) },
        ..config()
    };
    MEMORY.store(LIMIT, Ordering::Relaxed);
    let broker = Broker::of(&config);
    let said =
        |status: &str| format!(r#"{{"reason":"the memory is full, sends are refused","status":"{status}"}}"#);
    let mut wire = Wire::session(broker.address, DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).unwrap();
    wire.sender(1, "in", QUEUE).unwrap();
    let mut send = |id: u32| {
        wire.script.transfer(0, 1, id, false, &testkit::data(b"x"));
        wire.disposed().unwrap().state
    };
    assert_eq!(send(0), Some(DeliveryState::Accepted), "at the limit");
    assert_eq!(probe(broker.address, "/readyz/sends").0, 200);
    let text = scrape(broker.address);
    assert_eq!(sample(&text, "ferrybus_memory_full"), Some(0.0));
    assert_eq!(sample(&text, "ferrybus_memory_limit_bytes"), Some(1_073_741_824.0));

    MEMORY.store(LIMIT + 1, Ordering::Relaxed);
    until(|| probe(broker.address, "/readyz/sends") == (503, said("unavailable")));
    let Some(DeliveryState::Rejected(Some(error))) = send(1) else { panic!("one byte beyond the limit") };
    assert_eq!(error.condition.as_str(), "amqp:resource-limit-exceeded");
    assert!(error.description.as_deref().is_some_and(|text| text.contains("memory is full")), "{error:?}");
    assert_eq!(probe(broker.address, "/readyz"), (200, said("degraded")));
    assert_eq!(probe(broker.address, "/healthz").0, 200);
    let text = scrape(broker.address);
    assert_eq!(sample(&text, "ferrybus_memory_full"), Some(1.0));
    assert_eq!(sample(&text, "ferrybus_memory_used_bytes"), Some(1_073_741_825.0));
    // New entities and namespaces, each in the words of its interface.
    let queue = "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><QueueDescription \
                 xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\"/></content></entry>";
    let (status, body) = ask(broker.address, "PUT /new?api-version=2021-05", queue);
    assert!(status == 403 && body.contains("SubCode=40300"), "{status} {body}");
    let (status, body) = ask(broker.address, "PUT /$ferrybus/namespaces/team-a", "");
    assert!(status == 507 && body.contains("memory is full"), "{status} {body}");
    // A receiver that comes now gets what there is.
    let mut receiver = Wire::session(broker.address, DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY).unwrap();
    receiver.receiver(1, "out", QUEUE, Some(ReceiverSettleMode::First)).unwrap();
    receiver.script.credit(0, 1, 0, 1, false);
    let Performative::Transfer(transfer) = receiver.transferred().unwrap().performative else { panic!() };
    let id = transfer.delivery_id.unwrap();
    receiver.script.disposition(0, id, id, true, Some(DeliveryState::Accepted));
    receiver.flush().unwrap();

    // A little below is not enough: it would be full again with the next message.
    MEMORY.store(LIMIT - LIMIT / 16, Ordering::Relaxed);
    until(|| probe(broker.address, "/readyz/sends").0 == 200);
    assert_eq!(send(2), Some(DeliveryState::Accepted));
}

/// Takes one request of OTLP and gives its headers and its body.
fn collect(listener: &TcpListener) -> (String, serde_json::Value) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "the exporter hung up: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&piece[..read]);
        let whole = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if length.is_some_and(|length: usize| body.len() >= length) {
            stream
                .write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}",
                )
                .unwrap();
            return (head.to_owned(), serde_json::from_str(body).unwrap());
        }
    }
}

/// The spans of one request, by name.
fn spans(request: &serde_json::Value) -> Vec<serde_json::Value> {
    request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

fn traced(trace: &str, parent: &str) -> bytes::Bytes {
    let header = format!("00-{trace}-{parent}-01");
    amqp_codec::message::MessageBuilder::new()
        .message_id("m")
        .application_property("traceparent", amqp_codec::raw::AnnotationValue::Str(&header))
        .application_property("tracestate", amqp_codec::raw::AnnotationValue::Str("vendor=1"))
        .data(b"tea")
        .build()
}

fn telemetry(endpoint: String) -> ObservabilityConfig {
    let headers = vec![("api-key".to_owned(), "secret".to_owned())];
    let telemetry =
        TelemetryConfig { endpoint, headers, authorities: None, service_name: "tea-broker".to_owned() };
    ObservabilityConfig { telemetry: Some(telemetry), ..ObservabilityConfig::default() }
}

#[test]
fn spans_of_a_message_reach_the_collector_in_the_senders_trace() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/v1/traces", collector.local_addr().unwrap());
    let broker = Broker::with(|config| config.observe = telemetry(endpoint));
    let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    client.send(1, true, &traced(trace, parent));
    client.receiver(2, QUEUE, Some(ReceiverSettleMode::Second));
    let got = client.receive(2, 1).remove(0);
    client.complete(&got);
    let mut found = Vec::new();
    while found.len() < 3 {
        let (head, request) = collect(&collector);
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
        assert!(
            head.contains("content-type: application/json") && head.contains("api-key: secret"),
            "{head}"
        );
        let service = &request["resourceSpans"][0]["resource"]["attributes"][0];
        assert_eq!(service["value"]["stringValue"], "tea-broker", "{request}");
        found.extend(spans(&request));
    }
    let names: Vec<&str> = found.iter().filter_map(|span| span["name"].as_str()).collect();
    assert_eq!(names, ["publish orders", "deliver orders", "settle orders"]);
    for span in &found {
        assert_eq!(
            (span["traceId"].as_str(), span["parentSpanId"].as_str()),
            (Some(trace), Some(parent)),
            "{span}"
        );
        assert_eq!(span["traceState"], "vendor=1", "{span}");
        assert_eq!(span["spanId"].as_str().map(str::len), Some(16), "{span}");
        let time = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
        let attributes = span["attributes"].as_array().unwrap();
        let has = |key: &str, value: &str| {
            attributes.iter().any(|one| one["key"] == key && one["value"]["stringValue"] == value)
        };
        assert!(has("messaging.system", "ferrybus") && has("messaging.destination.name", QUEUE), "{span}");
    }
}

#[test]
fn a_collector_that_is_away_holds_nobody_up() {
    // Nobody listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let broker = Broker::with(|config| config.observe = telemetry(format!("http://{gone}/v1/traces")));
    let mut client = broker.plain();
    client.sender(1, QUEUE);
    let message = traced("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    for _ in 0..20 {
        client.send(1, true, &message);
    }
    client.accepted(1, &["all before it are there too"]);
    broker.innocent().works();
    let dropped = || sample(&scrape(broker.address), "ferrybus_spans_dropped_total");
    let patience = Instant::now() + Duration::from_secs(60);
    while dropped().is_none_or(|count| count < 20.0) {
        assert!(Instant::now() < patience, "what no collector took is counted");
    }
}
