//! A pair of links to the management node of an entity, and the one request that is under way.
//!
//! Invariant: one request after the other; its answer is told to the model, and what was asked was told before.

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, Source, Target},
    raw::{AnnotationValue, RawMap, RawValue},
    sections::Sections,
    types::Role,
};
use bytes::Bytes;

use super::wires::{Scene, Waiting, Wires};
use crate::{
    model::{Place, Session},
    reader,
};

/// What was asked.
#[derive(Clone, Copy, Debug)]
enum Asked {
    /// The state of a session.
    State(Place, Session),
    /// That it has this state from now on.
    SetState(Place, Session, Option<u64>),
}

/// What came back.
struct Answer {
    status: i64,
    body: Option<RawMap>,
}

#[derive(Debug)]
pub(super) struct Requests {
    /// Of the link for requests; that for answers has the next one.
    pub(super) handle: u32,
    attached: u32,
    waiting: Option<Asked>,
    received: u32,
    next_state: u64,
}

const CREDIT: u32 = 10;

impl Requests {
    /// Attaches both links.
    pub(super) fn attach(wires: &mut Wires, handle: u32, address: &str) -> Self {
        let node = format!("{address}/$management");
        let mut out = Attach::new(wires.name(handle), handle, Role::Sender);
        out.source = Some(Source::new("here"));
        out.target = Some(Target::new(node.as_str()));
        out.initial_delivery_count = Some(0);
        wires.attach(out);
        let mut answers = Attach::new(wires.name(handle + 1), handle + 1, Role::Receiver);
        answers.source = Some(Source::new(node.as_str()));
        answers.target = Some(Target::new("here"));
        wires.attach(answers);
        Self { handle, attached: 0, waiting: None, received: 0, next_state: wires.holder * 1_000 }
    }

    pub(super) fn on_attach(&mut self, handle: u32, wires: &mut Wires) {
        self.attached += 1;
        if handle != self.handle {
            wires.credit(handle, 0, CREDIT);
        }
    }

    pub(super) fn is_free(&self) -> bool {
        self.attached == 2 && self.waiting.is_none()
    }

    /// Sets the state of a session that the client holds, or reads it.
    pub(super) fn use_state(
        &mut self,
        place: Place,
        session: Session,
        wires: &mut Wires,
        scene: &mut Scene<'_>,
    ) {
        let name = reader::session_name(session);
        let named = ("session-id", AnnotationValue::Str(&name));
        if scene.rng.chance(50) {
            let body = RawMap::with_string_keys(&[named]);
            return self.ask("com.microsoft:get-session-state", &body, Asked::State(place, session), wires);
        }
        self.next_state += 1;
        let state = (!scene.rng.chance(20)).then_some(self.next_state);
        let bytes = state.map(u64::to_be_bytes);
        let value = bytes.as_ref().map_or(AnnotationValue::Null, |bytes| AnnotationValue::Binary(bytes));
        let body = RawMap::with_string_keys(&[named, ("session-state", value)]);
        scene.model.setting_state((place, session), state);
        self.ask("com.microsoft:set-session-state", &body, Asked::SetState(place, session, state), wires);
    }

    fn ask(&mut self, operation: &str, body: &RawMap, asked: Asked, wires: &mut Wires) {
        let Ok(body) = RawValue::first(body.bytes()) else { return };
        let request = MessageBuilder::new()
            .message_id("request")
            .application_property("operation", AnnotationValue::Str(operation))
            .body_raw(body)
            .build();
        self.waiting = Some(asked);
        wires.transfer(self.handle, None, &request, Some(Waiting::Enlisted));
    }

    /// The answer to what was asked.
    pub(super) fn on_answer(
        &mut self,
        payload: &Bytes,
        wires: &mut Wires,
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        self.received += 1;
        wires.credit(self.handle + 1, self.received, CREDIT);
        let answer = read(payload).ok_or("an answer cannot be read")?;
        match (self.waiting.take().ok_or("an answer to nothing")?, answer.status) {
            (Asked::State(place, session), 200) => {
                let body = answer.body.ok_or("an answer without a body")?;
                let state = body.get("session-state").and_then(RawValue::as_binary);
                let state = state.and_then(|bytes| bytes.try_into().ok().map(u64::from_be_bytes));
                scene.model.state_told((place, session), state).map_err(|broken| broken.to_string())
            }
            (Asked::SetState(place, session, state), 200) => {
                scene.model.state_set((place, session), state);
                Ok(())
            }
            // Its session was lost, or the disk is full.
            _ => Ok(()),
        }
    }
}

fn read(payload: &Bytes) -> Option<Answer> {
    let sections = Sections::scan(payload).ok()?;
    let status = sections.application_properties_view(payload).get("statusCode")?.as_i64()?;
    let body = sections.body_value(payload).and_then(|value| RawMap::copy_from_slice(value.bytes()).ok());
    Some(Answer { status, body })
}
