use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use amqp_gateway::{SpanId, SpanKind, TraceContext};

use super::*;

fn span(number: u64) -> Span {
    let parent = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
    Span {
        kind: SpanKind::Publish,
        id: SpanId::new(u128::from(number) + 1),
        parent,
        links: Vec::new(),
        entity: "q".into(),
        messages: 1,
        began: number,
        ended: number,
        failed: false,
    }
}

fn spans(count: usize) -> Vec<Span> {
    (0..count as u64).map(span).collect()
}

fn exporter(endpoint: &str) -> (Spans, Exporter, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::default());
    let config = TelemetryConfig {
        endpoint: endpoint.to_owned(),
        headers: Vec::new(),
        authorities: None,
        service_name: "s".to_owned(),
    };
    let (spans, exporter) = Exporter::new(&config, &metrics).unwrap();
    (spans, exporter, metrics)
}

#[test]
fn spans_beyond_the_limit_of_the_export_queue_are_dropped_and_counted() {
    for (brought, lost, expected) in [(WAITING_MAX, 0, 0), (WAITING_MAX + 1, 0, 1), (WAITING_MAX + 20, 7, 27)]
    {
        let (way, exporter, metrics) = exporter("http://localhost:1/v1/traces");
        way.take((spans(brought), lost));
        assert_eq!(exporter.waiting.len(), WAITING_MAX);
        assert_eq!(metrics.spans_dropped.get(), expected, "{brought} brought, {lost} lost before");
    }
}

/// Takes requests until it has so many spans; says how many each had.
fn collect(listener: &TcpListener, wanted: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < wanted {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (mut text, mut piece) = (Vec::new(), vec![0; 65_536]);
        let body = loop {
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0, "the exporter hung up");
            text.extend_from_slice(&piece[..read]);
            let whole = String::from_utf8_lossy(&text);
            let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if length.is_some_and(|length: usize| body.len() >= length) {
                break body.to_owned();
            }
        };
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        let request: serde_json::Value = serde_json::from_str(&body).unwrap();
        sizes.push(request["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len());
    }
    sizes
}

#[test]
fn a_request_has_at_most_so_many_spans_also_the_last_ones_when_the_broker_stops() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let count = 2 * BATCH_MAX + 1;
    for stops_at_once in [false, true] {
        let (way, exporter, metrics) = exporter(&endpoint);
        way.take((spans(count), 0));
        let (stop, stopped) = watch::channel(Shutdown::No);
        if stops_at_once {
            stop.send(Shutdown::Asked).unwrap();
        }
        let listener = listener.try_clone().unwrap();
        let collecting = thread::spawn(move || collect(&listener, count));
        // Nothing more comes: the exporter ends when it has brought everything.
        drop(way);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(exporter.run(stopped));
        assert_eq!(collecting.join().unwrap(), [BATCH_MAX, BATCH_MAX, 1], "stops at once: {stops_at_once}");
        assert_eq!(metrics.spans_exported.get(), count as u64);
        assert_eq!(metrics.spans_dropped.get(), 0);
    }
}

#[test]
fn a_collector_that_is_away_when_the_broker_stops_is_asked_once() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (way, exporter, metrics) = exporter(&format!("http://{gone}/v1/traces"));
    let count = 2 * BATCH_MAX + 1;
    way.take((spans(count), 0));
    let (_stop, stopped) = watch::channel(Shutdown::Asked);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(exporter.run(stopped));
    assert_eq!((metrics.spans_exported.get(), metrics.spans_dropped.get()), (0, count as u64));
}
