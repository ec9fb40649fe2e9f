//! What the links of one connection share: the script, the numbers of deliveries, and who waits for which answer.
//!
//! Invariant: every delivery sent unsettled waits for one answer, and is forgotten with it.

use std::collections::BTreeMap;

use amqp_codec::{
    performative::{Attach, DeliveryState, Detach, Flow},
    raw::{AnnotationValue, RawMap},
};
use bytes::Bytes;
use testkit::Script;

use crate::{
    model::{Course, Deed, Id, Life, Model, ParcelId, Place, Session, Span},
    plan::{Places, Target},
    reader::{self, Key, Letter},
    rng::Rng,
};

/// What a client acts upon.
pub(crate) struct Scene<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) model: &'a mut Model,
    pub(crate) places: &'a Places,
    pub(crate) body_max: u64,
    /// One message in a hundred so often has a time to live.
    pub(crate) mortal: u64,
    pub(crate) now: u64,
}

/// When a letter shall arrive, where that is later.
type Due = Option<u64>;

/// Whether a letter is one of several that come together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Together {
    No,
    Yes,
}

impl Scene<'_> {
    /// An index below `end`, which is not 0.
    pub(super) fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.rng.below(end as u64)).unwrap_or(0)
    }

    /// A new message of a parcel; on a link it comes to no younger entity than the one that the link has found.
    pub(super) fn letter(
        &mut self,
        parcel: ParcelId,
        target: Target,
        due: Due,
        (link, together): (Option<Span>, Together),
    ) -> Bytes {
        let (number, session) = (self.rng.below(10), self.rng.below(reader::SESSIONS));
        let places = self.places.of(target, number);
        let (key, session) = self.key((parcel, together), target, session);
        // Where a message begins to live anew, or may leave its session unseen, none has a time to live.
        let forwarded = matches!(target, Target::Way(_));
        if forwarded {
            self.model.count("messages forwarded");
        }
        let steady = due.is_some() || forwarded;
        let steady = steady || places.iter().any(|place| self.places.has_sessions(*place));
        let fades = |grave| self.places.settings(grave).is_none_or(|there| !there.dead_letter_on_expiration);
        let steady = steady || places.iter().any(|place| self.places.grave(*place).is_some_and(fades));
        let ttl = (!steady && self.rng.chance(self.mortal)).then(|| 1 + self.rng.below(10_000));
        let places: Vec<_> = places.into_iter().map(|place| self.stay(place, session, ttl)).collect();
        let copies = self.places.reaches_topic(target);
        let course = Course { link, late: forwarded || (copies && due.is_some()), copies };
        let id = self.model.sending(parcel, &places, course);
        if key != Key::Nothing {
            self.model.keyed(id, session);
        }
        let length = self.rng.below(self.body_max);
        reader::write(&Letter { id, number, session, key, ttl, due, length })
    }

    /// What says to which partition a message belongs. Without partitions it is its session.
    fn key(
        &mut self,
        (parcel, together): (ParcelId, Together),
        target: Target,
        session: Session,
    ) -> (Key, Session) {
        if !self.places.is_parted(target) {
            return (Key::Session, session);
        }
        // Only a message of its own can do without, and only where there are no sessions.
        let places = self.places.all_of(target);
        let has_sessions = places.iter().any(|place| self.places.has_sessions(*place));
        let choice = match together {
            _ if has_sessions => 2,
            Together::Yes => 3,
            Together::No => 4,
        };
        let key = Key::EACH.get(self.index(choice)).copied().unwrap_or(Key::Session);
        // What comes together belongs to one partition.
        (key, if together == Together::Yes { parcel % reader::SESSIONS } else { session })
    }

    /// What the model has to know of a message at one place.
    fn stay(
        &self,
        place: Place,
        session: Session,
        ttl: Option<u64>,
    ) -> (Place, Option<Session>, Option<Life>) {
        let settings = self.places.settings(place);
        let dead_letters = settings.is_some_and(|settings| settings.dead_letter_on_expiration);
        let life = ttl.map(|ttl| Life { since: self.now, ttl, dead_letters });
        (place, self.places.has_sessions(place).then_some(session), life)
    }
}

/// Who waits for what becomes of a delivery.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiting {
    /// The sender of a parcel.
    Sent(ParcelId),
    /// Nobody: whether the transaction has it shows at its end.
    Enlisted,
    /// The coordinator: the name of a transaction.
    Declared,
    /// The coordinator: the end of one.
    Discharged(ParcelId),
    /// The coordinator: the end of one that was rolled back.
    RolledBack,
}

/// A connection's side of all its links.
#[derive(Debug)]
pub(super) struct Wires {
    pub(super) script: Script,
    /// Names the connection in the model.
    pub(super) holder: u64,
    /// Speaks as a Service Bus client does: its locks outlive its connection.
    pub(super) service_bus: bool,
    next_delivery: u32,
    /// With the link on which it was sent.
    pub(super) unanswered: BTreeMap<u32, (u32, Waiting)>,
    /// Settlements sent with `settled=false` whose answers matter, by delivery-id.
    pub(super) settling: BTreeMap<u32, (Id, Place, Deed)>,
    /// Our handles, by the name of the link and by the broker's handle.
    names: BTreeMap<String, u32>,
    remotes: BTreeMap<u32, u32>,
    next_name: u64,
}

impl Wires {
    pub(super) fn new(script: Script, holder: u64, service_bus: bool) -> Self {
        Self {
            script,
            holder,
            service_bus,
            next_delivery: 0,
            unanswered: BTreeMap::new(),
            settling: BTreeMap::new(),
            names: BTreeMap::new(),
            remotes: BTreeMap::new(),
            next_name: 0,
        }
    }

    /// A new name for a link with this handle of ours.
    pub(super) fn name(&mut self, handle: u32) -> String {
        self.next_name += 1;
        let name = format!("link-{}-{}", self.holder, self.next_name);
        self.names.insert(name.clone(), handle);
        name
    }

    /// Sends an attach, in the client's dialect.
    pub(super) fn attach(&mut self, mut attach: Attach) {
        if self.service_bus && attach.properties.is_none() {
            let name = [("com.microsoft:receiver-name", AnnotationValue::Str("sim"))];
            attach.properties = Some(RawMap::with_symbol_keys(&name));
        }
        self.script.attach(0, attach);
    }

    /// Which of our links an attach answers.
    pub(super) fn attached(&mut self, attach: &Attach) -> Option<u32> {
        let handle = self.names.remove(attach.name.as_str())?;
        self.remotes.insert(attach.handle, handle);
        Some(handle)
    }

    /// Which of our links the broker means.
    pub(super) fn local(&self, remote: u32) -> Option<u32> {
        self.remotes.get(&remote).copied()
    }

    /// Which of our links the broker has detached.
    pub(super) fn detached(&mut self, detach: &Detach) -> Option<u32> {
        self.remotes.remove(&detach.handle)
    }

    /// A link is gone, and with it the answers that were to come on it.
    pub(super) fn forget(&mut self, handle: u32) {
        self.unanswered.retain(|_, (other, _)| *other != handle);
    }

    /// Grants credit, counted from `received`.
    pub(super) fn credit(&mut self, handle: u32, received: u32, credit: u32) {
        let flow = Flow {
            next_incoming_id: Some(0),
            incoming_window: u32::MAX >> 1,
            // Every transfer is a delivery of its own.
            next_outgoing_id: self.next_delivery,
            outgoing_window: 65_536,
            handle: Some(handle),
            delivery_count: Some(received),
            link_credit: Some(credit),
            ..Flow::default()
        };
        self.script.flow(0, flow);
    }

    /// Sends a message, and notes who waits for the answer; without anybody it is sent settled.
    pub(super) fn transfer(
        &mut self,
        handle: u32,
        state: Option<DeliveryState>,
        payload: &[u8],
        waiting: Option<Waiting>,
    ) {
        let mut frame = Script::transfer_frame(handle, self.next_delivery, waiting.is_none());
        frame.state = state;
        self.script.transfer_with(0, frame, payload);
        if let Some(waiting) = waiting {
            self.unanswered.insert(self.next_delivery, (handle, waiting));
        }
        self.next_delivery += 1;
    }
}

/// Why the broker has detached a link.
pub(super) fn condition(detach: &Detach) -> &str {
    detach.error.as_ref().map_or("", |error| error.condition.as_str())
}

/// Whether a link that was refused, or was open, goes for the reason for which links of deleted entities go.
pub(super) fn check_departure(detach: &Detach, was_open: bool) -> Result<(), String> {
    let expected = if was_open { "amqp:resource-deleted" } else { "amqp:not-found" };
    if condition(detach) == expected {
        return Ok(());
    }
    Err(format!("a link of a deleted entity goes with {expected}, not with {:?}", detach.error))
}
