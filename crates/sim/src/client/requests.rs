//! Request and reply links to the management node of an entity, with one pending request.
//!
//! Invariant: at most one request is pending; the model learns of a request before it is sent, and of its reply.

mod bodies;
mod fetched;

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, Source, Target},
    raw::{AnnotationValue, RawMap, RawValue},
    types::Role,
};
use bytes::Bytes;

use super::amqp_session::{AmqpSession, Batched, ClientContext, PendingDelivery};
use crate::{
    model::{EntityIndex, Id, Incarnation, Model, SendGroupId, Session, SettlementKind},
    plan::SendTarget,
    reader,
};
use fetched::Fetched;

/// Kind of a pending request.
#[derive(Clone, Debug)]
enum PendingRequest {
    State(EntityIndex, Session),
    /// That it has this state from now on.
    SetState(EntityIndex, Session, Option<u64>),
    /// That the lock of a message lasts longer.
    Renew(Id, EntityIndex),
    /// That a session is held for longer.
    RenewSession(EntityIndex, Session),
    /// The numbers of a schedule.
    Schedule(SendTarget, SendGroupId),
    /// That a schedule is gone.
    Cancel(SendGroupId),
    /// A deferred message: under a lock, or for good, how often it had been seen then, and the first entity that can be
    /// asked for it.
    Fetch {
        copy: (Id, EntityIndex),
        at: EntityIndex,
        delete: bool,
        visits: Option<u32>,
        first: Incarnation,
    },
    /// That this was done with a message that was fetched.
    Settle(Id, EntityIndex, SettlementKind),
    /// Whether anything is left.
    Peek,
}

#[derive(Debug)]
pub(super) struct Requests {
    /// Of the link for requests; that for answers has the next one.
    pub(super) handle: u32,
    attached: u32,
    waiting: Option<PendingRequest>,
    received: u32,
    next_state: u64,
    /// Messages that were received by number and are locked.
    held: Vec<Fetched>,
    /// Deferred messages that the drain has requested already.
    tried: Vec<(Id, EntityIndex)>,
}

const CREDIT: u32 = 10;

impl Requests {
    /// Attaches both links.
    pub(super) fn attach(amqp: &mut AmqpSession, handle: u32, address: &str) -> Self {
        let node = format!("{address}/$management");
        let mut out = Attach::new(amqp.name(handle), handle, Role::Sender);
        out.source = Some(Source::new("here"));
        out.target = Some(Target::new(node.as_str()));
        out.initial_delivery_count = Some(0);
        amqp.attach(out);
        let mut answers = Attach::new(amqp.name(handle + 1), handle + 1, Role::Receiver);
        answers.source = Some(Source::new(node.as_str()));
        answers.target = Some(Target::new("here"));
        amqp.attach(answers);
        let (held, tried) = (Vec::new(), Vec::new());
        let next_state = amqp.holder * 1_000;
        Self { handle, attached: 0, waiting: None, received: 0, next_state, held, tried }
    }

    pub(super) fn on_attach(&mut self, handle: u32, amqp: &mut AmqpSession) {
        self.attached += 1;
        if handle != self.handle {
            amqp.credit(handle, 0, CREDIT);
        }
    }

    pub(super) fn is_free(&self) -> bool {
        self.attached == 2 && self.waiting.is_none()
    }

    fn ask(&mut self, operation: &str, body: &RawMap, requested: PendingRequest, amqp: &mut AmqpSession) {
        let Ok(body) = RawValue::first(body.bytes()) else { return };
        let request = MessageBuilder::new()
            .message_id("request")
            .application_property("operation", AnnotationValue::Str(operation))
            .body_raw(body)
            .build();
        self.waiting = Some(requested);
        amqp.transfer(self.handle, None, &request, Some(PendingDelivery::Enlisted));
    }

    /// Sets the state of a session that the client holds, or reads it.
    pub(super) fn use_state(
        &mut self,
        (entity, session): (EntityIndex, Session),
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
    ) {
        let name = reader::session_name(session, amqp.holder);
        let named = ("session-id", AnnotationValue::Str(&name));
        if cx.rng.chance(50) {
            let body = RawMap::with_string_keys(&[named]);
            return self.ask(
                "com.microsoft:get-session-state",
                &body,
                PendingRequest::State(entity, session),
                amqp,
            );
        }
        self.next_state += 1;
        let state = (!cx.rng.chance(20)).then_some(self.next_state);
        let bytes = state.map(u64::to_be_bytes);
        let value = bytes.as_ref().map_or(AnnotationValue::Null, |bytes| AnnotationValue::Binary(bytes));
        let body = RawMap::with_string_keys(&[named, ("session-state", value)]);
        cx.model.sessions.setting_state((entity, session), state);
        self.ask(
            "com.microsoft:set-session-state",
            &body,
            PendingRequest::SetState(entity, session, state),
            amqp,
        );
    }

    /// Renews the lock of a message that a link has.
    pub(super) fn renew(&mut self, (copy, token): ((Id, EntityIndex), [u8; 16]), amqp: &mut AmqpSession) {
        if let Some(body) = bodies::tokens(token) {
            self.ask("com.microsoft:renew-lock", &body, PendingRequest::Renew(copy.0, copy.1), amqp);
        }
    }

    /// Renews the lock of a session that the client holds.
    pub(super) fn renew_session(
        &mut self,
        (entity, session): (EntityIndex, Session),
        amqp: &mut AmqpSession,
    ) {
        let name = reader::session_name(session, amqp.holder);
        let body = RawMap::with_string_keys(&[("session-id", AnnotationValue::Str(&name))]);
        self.ask(
            "com.microsoft:renew-session-lock",
            &body,
            PendingRequest::RenewSession(entity, session),
            amqp,
        );
    }

    /// Schedules one message or two, for soon.
    pub(super) fn schedule(
        &mut self,
        target: SendTarget,
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
    ) {
        let group = cx.model.send_groups.begin();
        let due = cx.now + 1 + cx.rng.below(20_000);
        cx.model.send_groups.scheduling(group, due);
        let messages: Vec<Bytes> = (0..=cx.rng.below(2))
            .map(|_| cx.new_message(group, target, Some(due), (None, Batched::Yes)))
            .collect();
        if let Some(body) = bodies::schedule(&messages) {
            self.ask("com.microsoft:schedule-message", &body, PendingRequest::Schedule(target, group), amqp);
        }
    }

    /// Cancels a schedule, whoever has made it.
    pub(super) fn cancel(&mut self, target: SendTarget, amqp: &mut AmqpSession, cx: &mut ClientContext<'_>) {
        let known = cx.model.schedules.iter().rposition(|(other, ..)| *other == target);
        let Some(known) = known else { return self.schedule(target, amqp, cx) };
        let (_, group, numbers) = cx.model.schedules.swap_remove(known);
        cx.model.send_groups.cancelling(group);
        if let Some(body) = bodies::numbers(&numbers, None) {
            self.ask("com.microsoft:cancel-scheduled-message", &body, PendingRequest::Cancel(group), amqp);
        }
    }

    /// Receives a deferred message, or settles one that it has received so.
    pub(super) fn use_deferred(
        &mut self,
        entity: EntityIndex,
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
    ) {
        if let Some(fetched) = self.held.pop() {
            let (settlement_kind, status) = match cx.rng.below(5) {
                0..=1 => (SettlementKind::Complete, "completed"),
                2 => (SettlementKind::Return, "abandoned"),
                3 => (SettlementKind::Defer, "defered"),
                _ => (SettlementKind::DeadLetter, "suspended"),
            };
            // Abandoned it is deferred again, as it is when its lock ends.
            cx.model.messages.settling(fetched.copy, amqp.holder, settlement_kind);
            if let Some(body) = bodies::settle(status, fetched.token) {
                let requested = PendingRequest::Settle(fetched.copy.0, fetched.copy.1, settlement_kind);
                self.ask("com.microsoft:update-disposition", &body, requested, amqp);
            }
            return;
        }
        let known = cx.model.to_fetch(entity);
        if let Some((copy, number)) = known.get(cx.index(known.len().max(1))) {
            // Under its number another message may stand by then, which nobody would miss.
            let delete = cx.rng.chance(20) && !cx.topology.is_recreated(entity);
            self.fetch((*copy, entity), *number, delete, amqp, cx.model);
        }
    }

    fn fetch(
        &mut self,
        (copy, at): ((Id, EntityIndex), EntityIndex),
        number: u64,
        delete: bool,
        amqp: &mut AmqpSession,
        model: &mut Model,
    ) {
        let visits = delete.then(|| model.messages.taking(copy)).flatten();
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        if let Some(body) = bodies::numbers(&[number], Some(delete)) {
            let requested = PendingRequest::Fetch {
                copy,
                at,
                delete,
                visits,
                first: model.lifetimes.first_incarnation(at),
            };
            self.ask("com.microsoft:receive-by-sequence-number", &body, requested, amqp);
        }
    }

    /// Receives what is deferred, for good, each once.
    pub(super) fn drain(&mut self, entity: EntityIndex, amqp: &mut AmqpSession, cx: &mut ClientContext<'_>) {
        let known = cx.model.to_fetch(entity).into_iter().find(|(copy, _)| !self.tried.contains(copy));
        if let Some((copy, number)) = known {
            self.tried.push(copy);
            self.fetch((copy, entity), number, true, amqp, cx.model);
        }
    }

    /// Looks whether anything is left.
    pub(super) fn peek(&mut self, amqp: &mut AmqpSession) {
        let entries =
            [("from-sequence-number", AnnotationValue::Long(1)), ("message-count", AnnotationValue::Int(10))];
        self.ask(
            "com.microsoft:peek-message",
            &RawMap::with_string_keys(&entries),
            PendingRequest::Peek,
            amqp,
        );
    }

    /// The answer to what was asked.
    pub(super) fn on_answer(
        &mut self,
        payload: &Bytes,
        amqp: &mut AmqpSession,
        cx: &mut ClientContext<'_>,
    ) -> Result<(), String> {
        self.received += 1;
        amqp.credit(self.handle + 1, self.received, CREDIT);
        let (status, body) = bodies::answer(payload).ok_or("an answer cannot be read")?;
        let requested = self.waiting.take().ok_or("an answer to nothing")?;
        let done = status == 200;
        match requested {
            PendingRequest::State(entity, session) if done => {
                let state = bodies::state(body.as_ref());
                cx.model.count("session states read");
                return cx
                    .model
                    .sessions
                    .state_told((entity, session), amqp.holder, state)
                    .map_err(|broken| broken.to_string());
            }
            PendingRequest::Renew(id, entity) if done => {
                let until = bodies::expiration(body.as_ref()).ok_or("a renewal that says no end")?;
                cx.model.count("locks renewed");
                cx.model.messages.renewed((id, entity), amqp.holder, until);
            }
            PendingRequest::RenewSession(entity, session) if done => {
                let until = bodies::session_expiration(body.as_ref()).ok_or("a renewal that says no end")?;
                cx.model.session_renewed((entity, session), amqp.holder, until);
            }
            PendingRequest::SetState(entity, session, state) if done => {
                cx.model.count("session states set");
                cx.model.sessions.state_set((entity, session), amqp.holder, state);
            }
            PendingRequest::Schedule(target, group) => {
                let numbers = done.then(|| bodies::given(body.as_ref())).flatten();
                return scheduled(target, group, numbers, cx.model);
            }
            PendingRequest::Cancel(group) if done => {
                cx.model.count("schedules cancelled");
                return cx.model.send_groups.cancelled(group).map_err(|broken| broken.to_string());
            }
            PendingRequest::Cancel(group) if status == 404 => {
                cx.model.count("schedules fired before they were cancelled");
                cx.model.send_groups.not_cancelled(group);
            }
            PendingRequest::Fetch { copy, at, delete, first, .. } if done => {
                let holder = amqp.holder;
                let fetched = fetched::read(body.as_ref(), (copy.0, at), (delete, first), holder, cx)?;
                self.held.extend(fetched);
            }
            PendingRequest::Fetch { copy, visits: Some(visits), .. } => {
                cx.model.messages.not_taken(copy, visits);
            }
            PendingRequest::Settle(id, entity, settlement_kind)
                if done && settlement_kind == SettlementKind::Complete =>
            {
                cx.model.messages.completed((id, entity));
            }
            PendingRequest::Peek if status != 204 => {
                return Err("what forwards keeps nothing for itself".into());
            }
            // A session was lost, the disk is full, or there was nothing under that number.
            _ => {}
        }
        Ok(())
    }
}

fn scheduled(
    target: SendTarget,
    group: SendGroupId,
    numbers: Option<Vec<i64>>,
    model: &mut Model,
) -> Result<(), String> {
    let told = match numbers {
        Some(numbers) => {
            model.count("schedules made");
            model.schedules.push((target, group, numbers));
            model.accepted(group)
        }
        None => model.refused(group),
    };
    told.map_err(|broken| broken.to_string())
}
