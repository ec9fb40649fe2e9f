//! Spans as the JSON of OTLP (OpenTelemetry protocol 1, `ExportTraceServiceRequest`).
//!
//! Invariant: ids are digits, times are texts, and the names are those of the messaging conventions.

use amqp_gateway::{Span, SpanKind, TraceContext};
use serde_json::{Value, json};

/// `SpanKind`: the broker serves.
const SERVER: u32 = 2;
/// `StatusCode` of what was refused.
const ERROR: u32 = 2;

/// One request with these spans.
pub(super) fn request(service_name: &str, spans: &[Span]) -> Value {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({
        "resourceSpans": [{
            "resource": { "attributes": [
                text("service.name", service_name),
                text("service.version", env!("CARGO_PKG_VERSION")),
            ] },
            "scopeSpans": [{ "scope": { "name": "ferrybus" }, "spans": spans }],
        }],
    })
}

fn span(span: &Span) -> Value {
    let (operation, kind) = match span.kind {
        SpanKind::Publish => ("publish", "send"),
        SpanKind::Deliver => ("deliver", "receive"),
        SpanKind::Settle => ("settle", "settle"),
    };
    let mut attributes = vec![
        text("messaging.system", "ferrybus"),
        text("messaging.operation.name", operation),
        text("messaging.operation.type", kind),
        text("messaging.destination.name", &span.entity),
    ];
    if span.messages > 1 {
        attributes.push(json!({
            "key": "messaging.batch.message_count",
            "value": { "intValue": span.messages.to_string() },
        }));
    }
    let mut written = json!({
        "traceId": span.parent.trace_id(),
        "spanId": span.id.to_string(),
        "parentSpanId": span.parent.span_id(),
        "traceState": span.parent.state().unwrap_or_default(),
        "flags": 1,
        "name": format!("{operation} {}", span.entity),
        "kind": SERVER,
        "startTimeUnixNano": span.began.to_string(),
        "endTimeUnixNano": span.ended.to_string(),
        "attributes": attributes,
        "links": span.links.iter().map(link).collect::<Vec<_>>(),
    });
    if span.failed
        && let Some(written) = written.as_object_mut()
    {
        written.insert("status".to_owned(), json!({ "code": ERROR, "message": "refused" }));
    }
    written
}

fn link(context: &TraceContext) -> Value {
    json!({ "traceId": context.trace_id(), "spanId": context.span_id() })
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}
