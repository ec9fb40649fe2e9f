//! A link that receives from one place, or from one of its sessions after the other.
//!
//! Invariant: what is seen goes to the model, unless the link was given up before.

use std::collections::BTreeMap;

use amqp_codec::{
    performative::{Attach, DeliveryState, Detach, Modified, Source, Target},
    raw::{AnnotationValue, RawMap, RawValue},
    types::{ReceiverSettleMode, Role, SenderSettleMode},
};
use broker_core::Hold;

use super::{
    Mode,
    wires::{Scene, Wires, check_departure},
};
use crate::{
    model::{Age, Deed, Id, Model, Place, Seen, Session, Shelf, Span},
    plan::{Fault, Places, Target::Way},
    reader,
};

const CREDIT_MAX: u64 = 20;
const SESSION_FILTER: &str = "com.microsoft:session-filter";
const LOCKED_UNTIL: &str = "com.microsoft:locked-until-utc";
/// How long a receiver waits for the next session.
const PATIENCE: &str = "com.microsoft:timeout";
const PATIENCE_MS: u32 = 500;
/// .NET ticks at the start of 1970, and in a millisecond.
const TICKS_1970: i64 = 621_355_968_000_000_000;
const TICKS_PER_MS: i64 = 10_000;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Standing {
    Closed,
    Attaching,
    /// The broker has refused the attach, and is about to detach.
    Refused,
    Open,
    Detaching,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) handle: u32,
    pub(super) place: Place,
    /// What is seen here was sent to the place, and kept elsewhere.
    shelf: Shelf,
    address: String,
    dead_letter: bool,
    mode: Mode,
    /// Takes one session after the other.
    pub(super) takes_sessions: bool,
    pub(super) session: Option<Session>,
    standing: Standing,
    /// The first entity that it may find.
    first: Age,
    /// Which one it has found.
    span: Span,
    pub(super) credit: u32,
    received: u32,
    /// Deliveries not yet settled, by delivery-id.
    held: BTreeMap<u32, (Id, Place)>,
    /// The tokens of their locks.
    tokens: BTreeMap<(Id, Place), [u8; 16]>,
    /// Of each partition.
    last_first_delivery: BTreeMap<u64, u64>,
    /// How often a drain found nothing to do.
    idle: u32,
}

impl Receiver {
    /// A link to an address, not yet attached.
    pub(super) fn new(
        handle: u32,
        (place, address): (Place, String),
        dead_letter: bool,
        mode: Mode,
        takes_sessions: bool,
    ) -> Self {
        Self {
            handle,
            place,
            shelf: Shelf::Own,
            address: if dead_letter { format!("{address}/$DeadLetterQueue") } else { address },
            dead_letter,
            mode,
            takes_sessions,
            session: None,
            standing: Standing::Closed,
            first: 0,
            span: Span::default(),
            credit: 0,
            received: 0,
            held: BTreeMap::new(),
            tokens: BTreeMap::new(),
            last_first_delivery: BTreeMap::new(),
            idle: 0,
        }
    }

    /// The same of where messages of the place are kept that could not be forwarded.
    pub(super) fn kept(handle: u32, shelf: Shelf, place: Place, places: &Places) -> Self {
        let address = match shelf {
            Shelf::Kept(way) => places.target_address(Way(way)),
            _ => format!("{}/$Transfer", places.address(place)),
        };
        Self { shelf, ..Self::new(handle, (place, address), true, Mode::Second, false) }
    }

    /// Whether its entity is deleted now and then.
    fn is_fleeting(&self, scene: &Scene<'_>) -> bool {
        !matches!(self.shelf, Shelf::Kept(_)) && scene.places.is_fleeting(self.place)
    }

    pub(super) fn is_open(&self) -> bool {
        self.standing == Standing::Open
    }

    pub(super) fn is_closed(&self) -> bool {
        self.standing == Standing::Closed
    }

    /// Asks for the link, with this session where it takes sessions; `None` is the next one.
    pub(super) fn attach(&mut self, wires: &mut Wires, model: &Model, wanted: Option<Session>) {
        let mut attach = Attach::new(wires.name(self.handle), self.handle, Role::Receiver);
        let mut source = Source::new(self.address.as_str());
        if self.takes_sessions {
            let name = wanted.map(reader::session_name);
            let wanted = name.as_deref().map_or(AnnotationValue::Null, AnnotationValue::Str);
            source.filter = Some(RawMap::with_symbol_keys(&[(SESSION_FILTER, wanted)]));
            let patience = [(PATIENCE, AnnotationValue::Uint(PATIENCE_MS))];
            attach.properties = Some(RawMap::with_symbol_keys(&patience));
        }
        attach.source = Some(source);
        attach.target = Some(Target::new("here"));
        attach.snd_settle_mode = (self.mode == Mode::Delete).then_some(SenderSettleMode::Settled);
        attach.rcv_settle_mode = (self.mode == Mode::Second).then_some(ReceiverSettleMode::Second);
        wires.attach(attach);
        self.standing = Standing::Attaching;
        (self.session, self.credit, self.received) = (None, 0, 0);
        (self.first, self.last_first_delivery) = (model.first_at(self.place), BTreeMap::new());
    }

    /// Asks for a session, or for any.
    pub(super) fn take_session(&mut self, wires: &mut Wires, scene: &mut Scene<'_>) {
        let takes_one = self.takes_sessions && scene.rng.chance(50);
        let wanted = takes_one.then(|| scene.rng.below(reader::SESSIONS));
        self.attach(wires, scene.model, wanted);
    }

    pub(super) fn on_attach(
        &mut self,
        attach: &Attach,
        wires: &Wires,
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        let Some(source) = attach.source.as_ref() else {
            if self.takes_sessions || self.is_fleeting(scene) {
                self.standing = Standing::Refused;
                return Ok(());
            }
            return Err("the broker refused the link".into());
        };
        self.standing = Standing::Open;
        self.span = scene.model.found_at(self.place, self.first);
        if self.takes_sessions {
            let filter = source.filter.as_ref().and_then(|filter| filter.get(SESSION_FILTER));
            let session =
                filter.and_then(RawValue::as_str).and_then(|name| name.strip_prefix('s')?.parse().ok());
            let session = session.ok_or("an attach does not name its session")?;
            let until = attach.properties.as_ref().and_then(|map| map.get(LOCKED_UNTIL)?.as_i64());
            let until = until.ok_or("an attach does not say how long its session is locked")?;
            let until = u64::try_from((until - TICKS_1970) / TICKS_PER_MS).unwrap_or(0);
            self.session = Some(session);
            let granted = scene.model.granted((self.place, session), wires.holder, until, scene.now);
            return granted.map_err(|broken| broken.to_string());
        }
        Ok(())
    }

    /// The broker has detached the link: it answers, or a session is over, or none was to be had.
    pub(super) fn on_detach(
        &mut self,
        detach: &Detach,
        wires: &mut Wires,
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        if self.is_fleeting(scene) {
            return self.on_deletion(detach, wires, scene);
        }
        if !self.takes_sessions {
            return Err(format!("the broker detached the link: {:?}", detach.error));
        }
        if self.standing != Standing::Detaching {
            wires.script.detach(0, self.handle, true);
            self.leave(wires, scene)?;
        }
        self.standing = Standing::Closed;
        Ok(())
    }

    /// The entity is gone, or was not there.
    fn on_deletion(
        &mut self,
        detach: &Detach,
        wires: &mut Wires,
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        check_departure(detach, self.is_open())?;
        wires.script.detach(0, self.handle, true);
        self.held.clear();
        if std::mem::replace(&mut self.standing, Standing::Closed) == Standing::Refused {
            return Ok(());
        }
        let left = scene.model.left_ground(self.place, self.span, wires.holder);
        left.map_err(|broken| broken.to_string())
    }

    /// Whether the link has outlived its entity.
    pub(super) fn check(&self, scene: &Scene<'_>) -> Result<(), String> {
        if !self.is_open() || !self.is_fleeting(scene) {
            return Ok(());
        }
        scene.model.check_link(self.place, self.span).map_err(|broken| broken.to_string())
    }

    /// Gives the session back.
    pub(super) fn detach(&mut self, wires: &mut Wires, scene: &mut Scene<'_>) -> Result<(), String> {
        wires.script.detach(0, self.handle, true);
        self.standing = Standing::Detaching;
        self.leave(wires, scene)
    }

    fn leave(&mut self, wires: &Wires, scene: &mut Scene<'_>) -> Result<(), String> {
        self.held.clear();
        let Some(session) = self.session.take() else { return Ok(()) };
        let released = scene.model.released((self.place, session), wires.holder);
        released.map_err(|broken| broken.to_string())
    }

    pub(super) fn on_delivery(
        &mut self,
        delivery: u32,
        payload: &[u8],
        wires: &Wires,
        scene: &mut Scene<'_>,
    ) -> Result<(), String> {
        if !self.is_open() {
            return Ok(());
        }
        let read = reader::read(payload)?;
        self.received += 1;
        self.credit = self.credit.saturating_sub(1);
        let settled = self.mode == Mode::Delete;
        let locked_until =
            if settled { None } else { Some(self.lock_end(read.locked_until, wires, scene)?) };
        if read.first_acquirer && !self.dead_letter && !self.takes_sessions {
            let last = self.last_first_delivery.entry(read.sequence >> 48).or_default();
            if read.sequence <= *last {
                return Err(format!("message {} came before one with a lower number", read.id));
            }
            *last = read.sequence;
        }
        let seen = read.seen(self.place, wires.holder, scene)?;
        if scene.places.check_properties(seen.place, &read)? {
            scene.model.count("copies that an action has changed");
        }
        let seen = Seen {
            shelf: if self.shelf == Shelf::Own { seen.shelf } else { self.shelf },
            span: self.span,
            dead_letter: self.dead_letter,
            session: self.session,
            locked_until,
            ..seen
        };
        let copy = (seen.id, seen.place);
        if scene.model.delivered(seen).map_err(|broken| broken.to_string())? && !settled {
            // An earlier delivery of it is stale.
            self.held.retain(|_, other| *other != copy);
            self.held.insert(delivery, copy);
            self.tokens.extend(read.token.map(|token| (copy, token)));
        }
        Ok(())
    }

    /// The end of the lock of a delivery, in milliseconds; the end of time where it ends with its link alone.
    fn lock_end(&self, told: Option<u64>, wires: &Wires, scene: &Scene<'_>) -> Result<u64, String> {
        // A queue that forwards has settings of its own, which are the default ones.
        let settings = scene.places.settings(self.place).filter(|_| !matches!(self.shelf, Shelf::Kept(_)));
        let hold = settings.map_or(Hold::Link, |settings| settings.hold);
        let is_timed = wires.service_bus || self.takes_sessions || hold == Hold::Lock;
        match (is_timed, told) {
            (true, Some(until)) => Ok(until),
            (true, None) => Err("a delivery does not say how long its lock lasts".into()),
            (false, Some(_)) if scene.places.does(Fault::Holds) => {
                Err("a delivery that is held by its link has a lock that ends".into())
            }
            (false, _) => Ok(u64::MAX),
        }
    }

    pub(super) fn ask(&mut self, wires: &mut Wires, scene: &mut Scene<'_>) {
        if self.credit == 0 {
            self.credit = u32::try_from(1 + scene.rng.below(CREDIT_MAX)).unwrap_or(1);
            wires.credit(self.handle, self.received, self.credit);
        }
    }

    /// Sets a message aside; its number will be asked for.
    pub(super) fn defer(&mut self, wires: &mut Wires, scene: &mut Scene<'_>) {
        let Some(held) = self.pick(scene) else { return self.ask(wires, scene) };
        let aside =
            Modified { delivery_failed: None, undeliverable_here: Some(true), message_annotations: None };
        self.dispose(held, false, (DeliveryState::Modified(Box::new(aside)), Deed::Defer), wires, scene);
    }

    /// Asks for messages or settles one.
    pub(super) fn consume(&mut self, wires: &mut Wires, scene: &mut Scene<'_>) {
        if self.mode == Mode::Delete || scene.rng.below(3) == 0 {
            self.ask(wires, scene);
        } else {
            self.settle(wires, scene);
        }
    }

    fn settle(&mut self, wires: &mut Wires, scene: &mut Scene<'_>) {
        let Some((delivery, copy)) = self.pick(scene) else { return self.ask(wires, scene) };
        let has_grave = scene.places.grave(self.place).is_some();
        let (state, deed) = match scene.rng.below(10) {
            // Where dead letters go somewhere there are more of them.
            0..=2 if has_grave => (DeliveryState::Rejected(None), Deed::DeadLetter),
            0..=5 => (DeliveryState::Accepted, Deed::Complete),
            6 => (DeliveryState::Released, Deed::Return),
            7 => (DeliveryState::Rejected(None), Deed::DeadLetter),
            8 => {
                let failed = Modified {
                    delivery_failed: Some(true),
                    undeliverable_here: None,
                    message_annotations: None,
                };
                (DeliveryState::Modified(Box::new(failed)), Deed::Return)
            }
            // Say nothing, and let the lock run out.
            _ => return,
        };
        self.dispose((delivery, copy), self.mode == Mode::First, (state, deed), wires, scene);
    }

    fn dispose(
        &mut self,
        (delivery, copy): (u32, (Id, Place)),
        settled: bool,
        (state, deed): (DeliveryState, Deed),
        wires: &mut Wires,
        scene: &mut Scene<'_>,
    ) {
        self.held.remove(&delivery);
        scene.model.settling(copy, wires.holder, deed);
        if settled && deed == Deed::Complete {
            scene.model.count("completions without an answer");
        }
        if !settled {
            wires.settling.insert(delivery, (copy.0, copy.1, deed));
        }
        wires.script.disposition(0, delivery, delivery, settled, Some(state));
    }

    /// Whether there are deliveries that are not settled.
    pub(super) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// One of the deliveries that are not settled.
    pub(super) fn pick(&self, scene: &mut Scene<'_>) -> Option<(u32, (Id, Place))> {
        let count = self.held.len();
        if count == 0 {
            return None;
        }
        self.held.iter().nth(scene.index(count)).map(|(delivery, copy)| (*delivery, *copy))
    }

    /// One of the locks that it has.
    pub(super) fn pick_lock(&self, scene: &mut Scene<'_>) -> Option<((Id, Place), [u8; 16])> {
        let (_, copy) = self.pick(scene)?;
        Some((copy, *self.tokens.get(&copy)?))
    }

    /// A transaction has a delivery now.
    pub(super) fn hand_over(&mut self, delivery: u32) {
        self.held.remove(&delivery);
    }

    /// Completes everything, and asks for more.
    pub(super) fn drain(&mut self, wires: &mut Wires, scene: &mut Scene<'_>) -> Result<(), String> {
        let busy = !self.held.is_empty();
        while let Some((&delivery, &copy)) = self.held.first_key_value() {
            self.dispose((delivery, copy), false, (DeliveryState::Accepted, Deed::Complete), wires, scene);
        }
        if self.credit == 0 {
            self.credit = 50;
            wires.credit(self.handle, self.received, self.credit);
        } else if !busy {
            self.idle += 1;
        }
        // Nothing more comes from this session: on to the next.
        if self.takes_sessions && self.idle > 2 {
            self.idle = 0;
            return self.detach(wires, scene);
        }
        Ok(())
    }
}
