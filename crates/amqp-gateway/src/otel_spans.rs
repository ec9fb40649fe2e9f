//! OpenTelemetry spans of messages, in the traces of their senders.
//!
//! A message says by its application properties which span of its sender it belongs to. Where that is sampled, the broker
//! adds its own: `publish`, from the arrival to the answer; `deliver`, from the time it was stored to the moment it was
//! handed out; `settle`, from the receiver's word to the answer.
//!
//! Invariant: nothing is read, kept or made unless traces are wanted; what is kept is bounded by [`OPEN_MAX`], and a span
//! beyond that is counted and not made.

use std::{collections::BTreeMap, mem, time::Instant};

use amqp_codec::{
    message::{BATCH_FORMAT, batch_messages},
    raw::RawValue,
    sections::Sections,
};
use amqp_engine::IncomingDelivery;
use broker_core::{Stored, Timestamp};
use bytes::Bytes;

use crate::{config::Now, correlation::SessionNumber, tracking::Tracking};

mod context;

pub use context::{SpanId, TraceContext};

/// Spans of one connection that are not over, and messages handed out that may have one.
const OPEN_MAX: usize = 8_192;
/// Messages of a batch beside the first whose spans are named by that of the batch.
const LINKS_MAX: usize = 32;
/// The property of W3C's recommendation, and the older one of the Service Bus SDKs.
const PARENTS: [&str; 2] = ["traceparent", "Diagnostic-Id"];

/// Kind of a span.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SpanKind {
    Publish,
    /// A message was handed out.
    Deliver,
    /// A receiver said what becomes of a message.
    Settle,
}

/// One span that is over.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Span {
    pub kind: SpanKind,
    pub id: SpanId,
    /// The trace and the span that it belongs to.
    pub parent: TraceContext,
    /// The other messages of a batch.
    pub links: Vec<TraceContext>,
    /// The entity, as the client named it.
    pub entity: Box<str>,
    /// Messages of a batch.
    pub messages: usize,
    /// Nanoseconds since 1970.
    pub began: u64,
    /// Nanoseconds since 1970.
    pub ended: u64,
    /// Whether the operation was refused.
    pub failed: bool,
}

/// A span that is not over.
#[derive(Debug)]
struct Open {
    span: Span,
    since: Instant,
}

/// A delivery of a session, ours or the peer's.
type DeliveryKey = (SessionNumber, u32);

/// Spans of the messages of one connection; none where none are wanted.
#[derive(Debug)]
pub(crate) struct MessageSpans(Option<Box<OpenSpans>>);

#[derive(Debug, Default)]
struct OpenSpans {
    received: BTreeMap<DeliveryKey, Open>,
    /// Handed out, and not settled.
    sent: BTreeMap<DeliveryKey, (TraceContext, Box<str>)>,
    settling: BTreeMap<DeliveryKey, Open>,
    done: Vec<Span>,
    lost: u64,
}

impl OpenSpans {
    fn len(&self) -> usize {
        self.received.len() + self.sent.len() + self.settling.len()
    }

    fn has_room(&mut self) -> bool {
        let has_room = self.len() < OPEN_MAX;
        self.lost += u64::from(!has_room);
        has_room
    }
}

impl Open {
    fn end(mut self, now: Instant, failed: bool) -> Span {
        let took = now.saturating_duration_since(self.since).as_nanos();
        self.span.ended = self.span.began.saturating_add(u64::try_from(took).unwrap_or(u64::MAX));
        self.span.failed = failed;
        self.span
    }
}

impl MessageSpans {
    /// Makes spans if they are wanted.
    pub(crate) fn new(wanted: bool) -> Self {
        Self(wanted.then(Box::default))
    }

    /// The spans that are over since the last call, and how many could not be made.
    pub(crate) fn take(&mut self) -> (Vec<Span>, u64) {
        match &mut self.0 {
            Some(spans) => (mem::take(&mut spans.done), mem::take(&mut spans.lost)),
            None => (Vec::new(), 0),
        }
    }

    /// A message for `entity` has come.
    pub(crate) fn on_transfer(
        &mut self,
        session: SessionNumber,
        delivery: &IncomingDelivery,
        entity: &str,
        now: Now,
        ids: &mut Tracking,
    ) {
        let Some(spans) = &mut self.0 else { return };
        let is_batch = delivery.message_format == BATCH_FORMAT;
        let messages =
            if is_batch { batch_messages(&delivery.payload).unwrap_or_default() } else { Vec::new() };
        let mut found = match messages.as_slice() {
            [] => contexts(std::slice::from_ref(&delivery.payload)),
            several => contexts(several),
        };
        let Some(parent) = found.next() else { return };
        let links = found.take(LINKS_MAX).collect();
        let span = Span {
            links,
            messages: messages.len().max(1),
            ..span(SpanKind::Publish, parent, entity.into(), now.wall, ids)
        };
        let open = Open { span, since: now.instant };
        if delivery.settled {
            spans.done.push(open.end(now.instant, false));
        } else if spans.has_room() {
            spans.received.insert((session, delivery.delivery_id.0), open);
        }
    }

    /// Messages that came are answered.
    pub(crate) fn answered(&mut self, session: SessionNumber, range: (u32, u32), failed: bool, now: Now) {
        if let Some(OpenSpans { received, done, .. }) = self.0.as_deref_mut() {
            end_all(received, session, range, failed, now, done);
        }
    }

    /// A message of `entity` was handed out.
    pub(crate) fn on_delivery(
        &mut self,
        delivery_key: DeliveryKey,
        stored: &Stored,
        settled: bool,
        entity: &str,
        now: Now,
        ids: &mut Tracking,
    ) {
        let Some(spans) = &mut self.0 else { return };
        let Some(parent) = context(&stored.payload) else { return };
        let mut span = span(SpanKind::Deliver, parent.clone(), entity.into(), stored.enqueued_at, ids);
        span.ended = span.began.max(nanos(now.utc));
        spans.done.push(span);
        if !settled && spans.has_room() {
            spans.sent.insert(delivery_key, (parent, entity.into()));
        }
    }

    /// A receiver has said what becomes of a message. Without `waits` that is all there is to it.
    pub(crate) fn on_disposition(
        &mut self,
        delivery_key: DeliveryKey,
        waits: bool,
        now: Now,
        ids: &mut Tracking,
    ) {
        let Some(spans) = &mut self.0 else { return };
        let Some((parent, entity)) = spans.sent.remove(&delivery_key) else { return };
        let span = span(SpanKind::Settle, parent, entity, now.wall, ids);
        let open = Open { span, since: now.instant };
        if waits {
            spans.settling.insert(delivery_key, open);
        } else {
            spans.done.push(open.end(now.instant, false));
        }
    }

    /// Settlements are done, or refused.
    pub(crate) fn settled(&mut self, session: SessionNumber, range: (u32, u32), failed: bool, now: Now) {
        if let Some(OpenSpans { settling, done, .. }) = self.0.as_deref_mut() {
            end_all(settling, session, range, failed, now, done);
        }
    }

    /// A session is over: nothing more is said of its deliveries, and its number may be used again.
    pub(crate) fn on_session_ended(&mut self, session: SessionNumber) {
        if let Some(spans) = &mut self.0 {
            spans.received.retain(|(of, _), _| *of != session);
            spans.sent.retain(|(of, _), _| *of != session);
            spans.settling.retain(|(of, _), _| *of != session);
        }
    }
}

/// Ends the spans of a run of deliveries.
fn end_all(
    open: &mut BTreeMap<DeliveryKey, Open>,
    session: SessionNumber,
    (first, last): (u32, u32),
    failed: bool,
    now: Now,
    done: &mut Vec<Span>,
) {
    // Numbers wrap, and a run is never longer than what is open.
    let mut delivery = first;
    while !open.is_empty() {
        if let Some(open) = open.remove(&(session, delivery)) {
            done.push(open.end(now.instant, failed));
        }
        if delivery == last {
            break;
        }
        delivery = delivery.wrapping_add(1);
    }
}

fn span(
    kind: SpanKind,
    parent: TraceContext,
    entity: Box<str>,
    began: Timestamp,
    ids: &mut Tracking,
) -> Span {
    let id = SpanId::new(ids.next_id());
    let began = nanos(began);
    Span { kind, id, parent, links: Vec::new(), entity, messages: 1, began, ended: began, failed: false }
}

fn nanos(at: Timestamp) -> u64 {
    at.as_millis().saturating_mul(1_000_000)
}

/// The traces that these messages belong to, of those that are sampled.
fn contexts(messages: &[Bytes]) -> impl Iterator<Item = TraceContext> {
    messages.iter().filter_map(context)
}

/// The trace that a message belongs to, if it is sampled.
fn context(payload: &Bytes) -> Option<TraceContext> {
    let sections = Sections::scan_tolerant(payload).ok()?;
    if sections.application_properties.is_empty() {
        return None;
    }
    let properties = sections.application_properties_view(payload);
    let mut parents = PARENTS.iter().filter_map(|name| properties.get(name).and_then(RawValue::as_str));
    let parent = parents.find_map(TraceContext::parse)?;
    let state = properties.get("tracestate").and_then(RawValue::as_str);
    parent.sampled.then(|| parent.with_state(state))
}
