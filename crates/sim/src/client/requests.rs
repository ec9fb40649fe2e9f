//! A pair of links to the management node of an entity, and the one request that is under way.
//!
//! Invariant: one request after the other; its answer is told to the model, and what was asked was told before.

mod fetched;
mod words;

use amqp_codec::{
    message::MessageBuilder,
    performative::{Attach, Source, Target as Terminus},
    raw::{AnnotationValue, RawMap, RawValue},
    types::Role,
};
use bytes::Bytes;

use super::wires::{Scene, Together, Waiting, Wires};
use crate::{
    model::{Age, Deed, Id, Model, ParcelId, Place, Session},
    plan::Target,
    reader,
};
use fetched::Fetched;

/// What was asked.
#[derive(Clone, Debug)]
enum Asked {
    /// The state of a session.
    State(Place, Session),
    /// That it has this state from now on.
    SetState(Place, Session, Option<u64>),
    /// That the lock of a message lasts longer.
    Renew(Id, Place),
    /// That a session is held for longer.
    RenewSession(Place, Session),
    /// The numbers of a schedule.
    Schedule(Target, ParcelId),
    /// That a schedule is gone.
    Cancel(ParcelId),
    /// A deferred message: under a lock, or for good, how often it had been seen then, and the first entity that can be
    /// asked for it.
    Fetch { copy: (Id, Place), at: Place, delete: bool, visits: Option<u32>, first: Age },
    /// That this was done with a message that was fetched.
    Settle(Id, Place, Deed),
    /// Whether anything is left.
    Peek,
}

#[derive(Debug)]
pub(super) struct Requests {
    /// Of the link for requests; that for answers has the next one.
    pub(super) handle: u32,
    attached: u32,
    waiting: Option<Asked>,
    received: u32,
    next_state: u64,
    /// Messages that were received by number and are locked.
    held: Vec<Fetched>,
    /// What a drain has asked for already.
    tried: Vec<(Id, Place)>,
}

const CREDIT: u32 = 10;

impl Requests {
    /// Attaches both links.
    pub(super) fn attach(wires: &mut Wires, handle: u32, address: &str) -> Self {
        let node = format!("{address}/$management");
        let mut out = Attach::new(wires.name(handle), handle, Role::Sender);
        out.source = Some(Source::new("here"));
        out.target = Some(Terminus::new(node.as_str()));
        out.initial_delivery_count = Some(0);
        wires.attach(out);
        let mut answers = Attach::new(wires.name(handle + 1), handle + 1, Role::Receiver);
        answers.source = Some(Source::new(node.as_str()));
        answers.target = Some(Terminus::new("here"));
        wires.attach(answers);
        let (held, tried) = (Vec::new(), Vec::new());
        let next_state = wires.holder * 1_000;
        Self { handle, attached: 0, waiting: None, received: 0, next_state, held, tried }
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

    /// Sets the state of a session that the client holds, or reads it.
    pub(super) fn use_state(
        &mut self,
        (place, session): (Place, Session),
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

    /// Renews the lock of a message that a link has.
    pub(super) fn renew(&mut self, (copy, token): ((Id, Place), [u8; 16]), wires: &mut Wires) {
        if let Some(body) = words::tokens(token) {
            self.ask("com.microsoft:renew-lock", &body, Asked::Renew(copy.0, copy.1), wires);
        }
    }

    /// Renews the lock of a session that the client holds.
    pub(super) fn renew_session(&mut self, (place, session): (Place, Session), wires: &mut Wires) {
        let name = reader::session_name(session);
        let body = RawMap::with_string_keys(&[("session-id", AnnotationValue::Str(&name))]);
        self.ask("com.microsoft:renew-session-lock", &body, Asked::RenewSession(place, session), wires);
    }

    /// Schedules one message or two, for soon.
    pub(super) fn schedule(&mut self, target: Target, wires: &mut Wires, scene: &mut Scene<'_>) {
        let parcel = scene.model.new_parcel();
        let due = scene.now + 1 + scene.rng.below(20_000);
        scene.model.scheduling(parcel, due);
        let messages: Vec<Bytes> = (0..=scene.rng.below(2))
            .map(|_| scene.letter(parcel, target, Some(due), (None, Together::Yes)))
            .collect();
        if let Some(body) = words::schedule(&messages) {
            self.ask("com.microsoft:schedule-message", &body, Asked::Schedule(target, parcel), wires);
        }
    }

    /// Cancels a schedule, whoever has made it.
    pub(super) fn cancel(&mut self, target: Target, wires: &mut Wires, scene: &mut Scene<'_>) {
        let known = scene.model.schedules.iter().rposition(|(other, ..)| *other == target);
        let Some(known) = known else { return self.schedule(target, wires, scene) };
        let (_, parcel, numbers) = scene.model.schedules.swap_remove(known);
        scene.model.cancelling(parcel);
        if let Some(body) = words::numbers(&numbers, None) {
            self.ask("com.microsoft:cancel-scheduled-message", &body, Asked::Cancel(parcel), wires);
        }
    }

    /// Receives a deferred message, or settles one that it has received so.
    pub(super) fn use_deferred(&mut self, place: Place, wires: &mut Wires, scene: &mut Scene<'_>) {
        if let Some(fetched) = self.held.pop() {
            let (deed, status) = match scene.rng.below(5) {
                0..=1 => (Deed::Complete, "completed"),
                2 => (Deed::Return, "abandoned"),
                3 => (Deed::Defer, "defered"),
                _ => (Deed::DeadLetter, "suspended"),
            };
            // Abandoned it is deferred again, as it is when its lock ends.
            scene.model.settling(fetched.copy, wires.holder, deed);
            if let Some(body) = words::settle(status, fetched.token) {
                let asked = Asked::Settle(fetched.copy.0, fetched.copy.1, deed);
                self.ask("com.microsoft:update-disposition", &body, asked, wires);
            }
            return;
        }
        let known = scene.model.to_fetch(place);
        if let Some((copy, number)) = known.get(scene.index(known.len().max(1))) {
            // Under its number another message may stand by then, which nobody would miss.
            let delete = scene.rng.chance(20) && !scene.places.is_fleeting(place);
            self.fetch((*copy, place), *number, delete, wires, scene.model);
        }
    }

    fn fetch(
        &mut self,
        (copy, at): ((Id, Place), Place),
        number: u64,
        delete: bool,
        wires: &mut Wires,
        model: &mut Model,
    ) {
        let visits = delete.then(|| model.taking(copy.0, copy.1)).flatten();
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        if let Some(body) = words::numbers(&[number], Some(delete)) {
            let asked = Asked::Fetch { copy, at, delete, visits, first: model.first_at(at) };
            self.ask("com.microsoft:receive-by-sequence-number", &body, asked, wires);
        }
    }

    /// Receives what is deferred, for good, each once.
    pub(super) fn drain(&mut self, place: Place, wires: &mut Wires, scene: &mut Scene<'_>) {
        let known = scene.model.to_fetch(place).into_iter().find(|(copy, _)| !self.tried.contains(copy));
        if let Some((copy, number)) = known {
            self.tried.push(copy);
            self.fetch((copy, place), number, true, wires, scene.model);
        }
    }

    /// Looks whether anything is left.
    pub(super) fn peek(&mut self, wires: &mut Wires) {
        let entries =
            [("from-sequence-number", AnnotationValue::Long(1)), ("message-count", AnnotationValue::Int(10))];
        self.ask("com.microsoft:peek-message", &RawMap::with_string_keys(&entries), Asked::Peek, wires);
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
        let (status, body) = words::answer(payload).ok_or("an answer cannot be read")?;
        let asked = self.waiting.take().ok_or("an answer to nothing")?;
        let done = status == 200;
        match asked {
            Asked::State(place, session) if done => {
                let state = words::state(body.as_ref());
                return scene
                    .model
                    .state_told((place, session), wires.holder, state)
                    .map_err(|broken| broken.to_string());
            }
            Asked::Renew(id, place) if done => {
                let until = words::expiration(body.as_ref()).ok_or("a renewal that says no end")?;
                scene.model.renewed((id, place), wires.holder, until);
            }
            Asked::RenewSession(place, session) if done => {
                let until = words::session_expiration(body.as_ref()).ok_or("a renewal that says no end")?;
                scene.model.session_renewed((place, session), wires.holder, until);
            }
            Asked::SetState(place, session, state) if done => {
                scene.model.state_set((place, session), wires.holder, state);
            }
            Asked::Schedule(target, parcel) => {
                let numbers = done.then(|| words::given(body.as_ref())).flatten();
                return scheduled(target, parcel, numbers, scene.model);
            }
            Asked::Cancel(parcel) if done => {
                return scene.model.cancelled(parcel).map_err(|broken| broken.to_string());
            }
            Asked::Cancel(parcel) if status == 404 => scene.model.not_cancelled(parcel),
            Asked::Fetch { copy, at, delete, first, .. } if done => {
                let holder = wires.holder;
                let fetched = fetched::read(body.as_ref(), (copy.0, at), (delete, first), holder, scene)?;
                self.held.extend(fetched);
            }
            Asked::Fetch { copy, visits: Some(visits), .. } => {
                scene.model.not_taken(copy.0, copy.1, visits);
            }
            Asked::Settle(id, place, deed) if done && deed == Deed::Complete => {
                scene.model.completed(id, place);
            }
            Asked::Peek if status != 204 => return Err("what forwards keeps nothing for itself".into()),
            // A session was lost, the disk is full, or there was nothing under that number.
            _ => {}
        }
        Ok(())
    }
}

fn scheduled(
    target: Target,
    parcel: ParcelId,
    numbers: Option<Vec<i64>>,
    model: &mut Model,
) -> Result<(), String> {
    let told = match numbers {
        Some(numbers) => {
            model.count("schedules made");
            model.schedules.push((target, parcel, numbers));
            model.accepted(parcel)
        }
        None => model.refused(parcel),
    };
    told.map_err(|broken| broken.to_string())
}
