//! A link that sends to one target.
//!
//! Invariant: the model knows a message before the wire does.

use amqp_codec::performative::{Attach, DeliveryState, Detach, Source, Target as Terminus};
use amqp_codec::types::Role;

use bytes::Bytes;

use super::wires::{Scene, Together, Waiting, Wires, check_departure};
use crate::{
    model::{Age, ParcelId, Place, Span},
    plan::Target,
};

const UNANSWERED_MAX: usize = 40;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standing {
    Closed,
    /// The first entity that it may find.
    Attaching(Age),
    /// The broker has refused the attach, and is about to detach.
    Refused,
    /// Which entity it has found.
    Open(Span),
}

#[derive(Debug)]
pub(super) struct Sender {
    pub(super) handle: u32,
    pub(super) target: Target,
    standing: Standing,
}

impl Sender {
    /// A link that is being attached.
    pub(super) fn new(wires: &mut Wires, handle: u32, target: Target, scene: &Scene<'_>) -> Self {
        let mut sender = Self { handle, target, standing: Standing::Closed };
        sender.attach(wires, scene);
        sender
    }

    /// Asks for the link, where there is none.
    pub(super) fn attach(&mut self, wires: &mut Wires, scene: &Scene<'_>) {
        if self.standing != Standing::Closed {
            return;
        }
        let address = scene.places.target_address(self.target);
        let mut attach = Attach::new(wires.name(self.handle), self.handle, Role::Sender);
        attach.source = Some(Source::new("here"));
        attach.target = Some(Terminus::new(address.as_str()));
        attach.initial_delivery_count = Some(0);
        wires.attach(attach);
        let first = self.place().map_or(0, |place| scene.model.first_at(place));
        self.standing = Standing::Attaching(first);
    }

    fn place(&self) -> Option<Place> {
        if let Target::Queue(place) = self.target { Some(place) } else { None }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.standing, Standing::Open(_))
    }

    pub(super) fn on_attach(&mut self, attach: &Attach, scene: &Scene<'_>) -> Result<(), String> {
        let Standing::Attaching(first) = self.standing else {
            return Err("an attach that nobody asked for".into());
        };
        self.standing = match self.place() {
            _ if attach.target.is_none() && scene.places.is_fleeting_target(self.target) => Standing::Refused,
            _ if attach.target.is_none() => return Err("the broker refused the link".into()),
            Some(place) => Standing::Open(scene.model.found_at(place, first)),
            None => Standing::Open(Span::default()),
        };
        Ok(())
    }

    /// The broker has detached the link, because its entity is gone.
    pub(super) fn on_detach(
        &mut self,
        detach: &Detach,
        wires: &mut Wires,
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        let Some(place) = self.place().filter(|place| scene.places.is_fleeting(*place)) else {
            return Err(format!("the broker detached the link: {:?}", detach.error));
        };
        check_departure(detach, self.is_open())?;
        wires.script.detach(0, self.handle, true);
        wires.forget(self.handle);
        let Standing::Open(span) = std::mem::replace(&mut self.standing, Standing::Closed) else {
            return Ok(());
        };
        scene.model.check_left(place, span).map_err(|broken| broken.to_string())
    }

    /// Whether the link has outlived its entity.
    pub(super) fn check(&self, scene: &Scene<'_>) -> Result<(), String> {
        match (self.place(), self.standing) {
            (Some(place), Standing::Open(span)) => {
                scene.model.check_link(place, span).map_err(|broken| broken.to_string())
            }
            _ => Ok(()),
        }
    }

    /// Which entity what is sent can reach.
    fn span(&self) -> Option<Span> {
        if let (Some(_), Standing::Open(span)) = (self.place(), self.standing) { Some(span) } else { None }
    }

    /// Some messages, each by itself.
    pub(super) fn publish(&self, wires: &mut Wires, scene: &mut Scene<'_>) {
        for _ in 0..=scene.rng.below(6) {
            if wires.unanswered.len() >= UNANSWERED_MAX {
                return;
            }
            let (parcel, payload) = self.repeat(scene).unwrap_or_else(|| self.fresh(scene));
            let waiting = (!scene.rng.chance(10)).then_some(Waiting::Sent(parcel));
            wires.transfer(self.handle, None, &payload, waiting);
        }
    }

    fn fresh(&self, scene: &mut Scene<'_>) -> (ParcelId, Bytes) {
        let parcel = scene.model.new_parcel();
        let payload = scene.letter(parcel, self.target, None, (self.span(), Together::No));
        if scene.places.drops_duplicates(self.target) {
            scene.model.repeats.push((self.target, parcel, payload.clone()));
        }
        (parcel, payload)
    }

    /// Something that was sent before, where that changes nothing.
    fn repeat(&self, scene: &mut Scene<'_>) -> Option<(ParcelId, Bytes)> {
        if !scene.places.drops_duplicates(self.target) || scene.rng.chance(70) {
            return None;
        }
        let place = scene.index(scene.model.repeats.len().max(1));
        let (target, parcel, payload) = scene.model.repeats.get(place)?.clone();
        (target == self.target && scene.model.sending_again(parcel)).then_some((parcel, payload))
    }

    /// A message in a transaction.
    pub(super) fn post(
        &self,
        wires: &mut Wires,
        scene: &mut Scene<'_>,
        parcel: ParcelId,
        state: DeliveryState,
    ) {
        let payload = scene.letter(parcel, self.target, None, (self.span(), Together::Yes));
        let waiting = (!scene.rng.chance(10)).then_some(Waiting::Enlisted);
        wires.transfer(self.handle, Some(state), &payload, waiting);
    }
}
