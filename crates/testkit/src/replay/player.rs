//! The player itself.
//!
//! Invariant: a step begins when the demands before it are met; a frame meets one demand at most.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    time::{Duration, Instant},
};

use amqp_codec::{
    frame::{FrameKind, ProtocolHeader},
    value::{Value, decode_value},
};
use bytes::{BufMut, BytesMut};

use super::{
    fit::{Misfit, judge_sections, values_of},
    recording::{Place, Recording, Step, What},
    session::{Sessions, field, name_of, set_field},
    show::show,
    term::{Shape, Term},
    write::{Variables, WriteError, all},
};
use crate::{Incoming, Wire, WireError};

/// Everything that a play needs besides the connection.
pub trait Environment {
    /// A token of the key of this name for this audience, whose time is not over.
    fn token(&mut self, key_name: &str, audience: &str) -> String;
    /// Puts a message into an entity before the next step.
    fn store(&mut self, entity: &str, message: &[u8]);
    /// Moves the broker's clock forward.
    fn advance(&mut self, millis: u64);
}

/// Reason why a play ended early.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The broker did not say what the client waits for.
    #[error("line {line}: the client waits for `{demand}`: {reason}{heard}")]
    Unmet {
        /// Line of the recording, counted from 1.
        line: usize,
        /// The step.
        demand: String,
        /// Reason of the end of the wait.
        reason: String,
        /// Frames of the broker that no demand has taken.
        heard: Heard,
    },
    /// The broker said more than the client expects.
    #[error("at the end of the recording:{0}")]
    LeftOver(Heard),
    /// The recording says something that has no value.
    #[error("line {line}: {problem}")]
    NoValue {
        /// Line of the recording, counted from 1.
        line: usize,
        /// The problem.
        problem: WriteError,
    },
    /// The connection failed while the client wrote.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Frames that no demand has taken.
#[derive(Debug)]
pub struct Heard(Vec<String>);

impl std::fmt::Display for Heard {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return write!(out, "; nothing else came");
        }
        for frame in self.0.iter().take(SHOWN) {
            write!(out, "\n    the broker said {frame}")?;
        }
        let more = self.0.len().saturating_sub(SHOWN);
        if more > 0 { write!(out, "\n    and {more} more") } else { Ok(()) }
    }
}

/// Something the broker said, in the client's numbers.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    place: Place,
    /// The performative, then the sections of a message; nothing for a header.
    values: Vec<Value>,
}

/// A recorded client on a connection.
#[derive(Debug)]
pub struct Player<S> {
    wire: Wire<S>,
    variables: Variables,
    sessions: Sessions,
    /// The client's open.
    max_frame_size: usize,
    /// By channel and handle: the first transfer of a delivery that is not whole, and the bytes so far.
    parts: BTreeMap<(u16, u32), (Value, Vec<u8>)>,
    /// Frames that no demand has taken yet.
    heard: Vec<Said>,
}

/// Most frames that an error shows.
const SHOWN: usize = 8;

/// Longest wait for an answer, whatever else the broker says meanwhile. Far beyond what a broker needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest range of a disposition that is taken apart.
const LONGEST_RANGE: u32 = 100_000;

impl<S: Read + Write> Player<S> {
    /// On a connection to a broker which the client calls `host`; identifiers follow from `seed`.
    pub fn new(wire: Wire<S>, host: &str, seed: u64) -> Self {
        let mut variables = Variables::new(seed);
        variables.set("host", Value::String(host.to_owned()));
        Self {
            wire,
            variables,
            sessions: Sessions::default(),
            max_frame_size: 512,
            parts: BTreeMap::new(),
            heard: Vec::new(),
        }
    }

    /// Gives a variable its value.
    pub fn set(&mut self, name: &str, value: Value) {
        self.variables.set(name, value);
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.variables.get(name)
    }

    /// The connection, to break it.
    pub fn wire(&mut self) -> &mut Wire<S> {
        &mut self.wire
    }

    /// Plays the steps, and leaves the connection as it is then.
    pub fn play(&mut self, recording: &Recording, scene: &mut impl Environment) -> Result<(), PlayError> {
        for (at, step) in recording.steps.iter().enumerate() {
            let later = recording.steps.get(at + 1..).unwrap_or_default();
            self.step(step, later, scene)?;
        }
        self.wire.flush()?;
        Ok(())
    }

    /// Demands that the broker has said nothing else, up to the end of the stream where the client has closed.
    pub fn finish(mut self) -> Result<(), PlayError> {
        loop {
            match self.listen() {
                Ok(()) => {}
                Err(WireError::Closed) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.heard.retain(|said| !is_harmless(said));
        if self.heard.is_empty() { Ok(()) } else { Err(PlayError::LeftOver(self.heard())) }
    }

    fn step(&mut self, step: &Step, later: &[Step], scene: &mut impl Environment) -> Result<(), PlayError> {
        let no_value = |problem| PlayError::NoValue { line: step.line, problem };
        match &step.what {
            What::Say(place, terms) => self.say(*place, terms).map_err(no_value)?,
            What::Demand(place, terms) => return self.demand(step, later, *place, terms),
            What::Token { variable, key, audience } => {
                let Shape::Text { pieces, .. } = &audience.0 else { return Ok(()) };
                let audience = self.variables.text(pieces).map_err(no_value)?;
                let token = scene.token(key, &audience);
                self.variables.set(variable, Value::String(token));
            }
            What::Store { entity, message } => {
                let (_, bytes) = all(message, &self.variables).map_err(no_value)?;
                scene.store(entity, &bytes);
            }
            What::Advance(millis) => {
                self.wire.flush()?;
                scene.advance(*millis);
            }
        }
        Ok(())
    }

    fn say(&mut self, place: Place, terms: &[Term]) -> Result<(), WriteError> {
        match place {
            Place::SaslHeader => self.wire.script.header(ProtocolHeader::Sasl),
            Place::AmqpHeader => self.wire.script.header(ProtocolHeader::Amqp),
            Place::Sasl => {
                let (_, body) = all(terms, &self.variables)?;
                self.wire.script.frame(FrameKind::Sasl, 0, &body)
            }
            Place::Channel(channel) => return self.say_on(channel, terms),
        };
        Ok(())
    }

    fn say_on(&mut self, channel: u16, terms: &[Term]) -> Result<(), WriteError> {
        let Some((performative, sections)) = terms.split_first() else {
            self.wire.script.heartbeat();
            return Ok(());
        };
        self.variables.set("next", Value::Uint(self.sessions.next_incoming(channel)));
        let mut performative = performative.clone();
        let mut value = self.value(&performative)?;
        if name_of(&value) == Some("flow")
            && let (Some(Value::Uint(handle)), Some(Value::Uint(count))) =
                (field(&value, "handle"), field(&value, "delivery-count"))
        {
            let count = count.wrapping_add(self.sessions.initial_count(channel, *handle));
            performative = performative.with_field("delivery-count", Value::Uint(count));
            value = self.value(&performative)?;
        }
        self.sessions.said(channel, &value);
        if let Some(Value::Uint(size)) = field(&value, "max-frame-size") {
            self.max_frame_size = usize::try_from(*size).unwrap_or(usize::MAX);
        }
        let (_, payload) = all(sections, &self.variables)?;
        self.frames(channel, performative, &payload)
    }

    /// As many frames as the client makes of a performative and its payload.
    fn frames(&mut self, channel: u16, mut performative: Term, mut payload: &[u8]) -> Result<(), WriteError> {
        loop {
            let (_, mut body) = all(std::slice::from_ref(&performative), &self.variables)?;
            let room = self.max_frame_size.saturating_sub(body.len() + 8).max(1);
            if payload.len() <= room {
                body.put_slice(payload);
                self.wire.script.frame(FrameKind::Amqp, channel, &body);
                return Ok(());
            }
            let more = performative.with_field("more", Value::Bool(true));
            let (_, mut body) = all(std::slice::from_ref(&more), &self.variables)?;
            let (now, rest) = payload.split_at(room);
            body.put_slice(now);
            self.wire.script.frame(FrameKind::Amqp, channel, &body);
            payload = rest;
            // `Microsoft.Azure.Amqp` names nothing but the handle in what follows.
            if let (Some(composite), Some(handle)) = (performative.composite(), performative.field("handle"))
            {
                performative = Term(Shape::Composite(composite, vec![(0, handle.clone())]))
                    .with_field("more", Value::Bool(false));
            }
        }
    }

    fn value(&self, term: &Term) -> Result<Value, WriteError> {
        let mut bytes = BytesMut::new();
        term.write(&mut bytes, &self.variables)?;
        decode_value(&bytes).map_err(|_| WriteError::Demand)
    }

    fn demand(&mut self, step: &Step, later: &[Step], place: Place, terms: &[Term]) -> Result<(), PlayError> {
        self.wire.flush()?;
        for terms in self.apart(step, terms)? {
            self.demand_one(step, later, place, &terms)?;
        }
        Ok(())
    }

    /// A disposition over a range is a demand for each delivery, for a broker may answer them one by one.
    fn apart(&self, step: &Step, terms: &[Term]) -> Result<Vec<Vec<Term>>, PlayError> {
        let [term] = terms else { return Ok(vec![terms.to_vec()]) };
        let (Some(first), Some(last)) = (term.field("first"), term.field("last")) else {
            return Ok(vec![terms.to_vec()]);
        };
        let number = |term: &Term| match self.value(term) {
            Ok(Value::Uint(number)) => Ok(number),
            Ok(_) => Err(PlayError::NoValue { line: step.line, problem: WriteError::Demand }),
            Err(problem) => Err(PlayError::NoValue { line: step.line, problem }),
        };
        let (first, last) = (number(first)?, number(last)?);
        Ok(range(first, last)
            .map(|id| {
                let id = Value::Uint(id);
                vec![term.with_field("first", id.clone()).with_field("last", id)]
            })
            .collect())
    }

    fn demand_one(
        &mut self,
        step: &Step,
        later: &[Step],
        place: Place,
        terms: &[Term],
    ) -> Result<(), PlayError> {
        let began = Instant::now();
        loop {
            match self.take(place, terms) {
                Taken::Yes => return Ok(()),
                Taken::Contradicted(misfit) => return Err(self.unmet(step, misfit.to_string())),
                Taken::NotYet => {}
            }
            if let Some(end) = self.unexpected_end(step, later) {
                return Err(self.unmet(step, format!("the broker has ended it: {end}")));
            }
            let heard = if began.elapsed() < PATIENCE { self.listen() } else { Err(WireError::TimedOut) };
            if let Err(error) = heard {
                return Err(self.unmet(step, error.to_string()));
            }
        }
    }

    fn unmet(&self, step: &Step, reason: String) -> PlayError {
        PlayError::Unmet { line: step.line, demand: step.text.clone(), reason, heard: self.heard() }
    }

    fn heard(&self) -> Heard {
        let show_all = |said: &Said| said.values.iter().map(show).collect::<Vec<_>>().join(" ");
        Heard(self.heard.iter().map(|said| format!("{} {}", said.place, show_all(said))).collect())
    }

    /// Takes the first frame that fits.
    fn take(&mut self, place: Place, terms: &[Term]) -> Taken {
        for (at, said) in self.heard.iter().enumerate() {
            if said.place != place || !said.may_fit(terms) {
                continue;
            }
            let mut tried = self.variables.clone();
            match said.fit(terms, &mut tried) {
                Ok(()) => {
                    self.variables = tried;
                    self.heard.remove(at);
                    return Taken::Yes;
                }
                Err(misfit) if said.is_the_answer(terms, &self.variables) => {
                    return Taken::Contradicted(misfit);
                }
                Err(_) => {}
            }
        }
        Taken::NotYet
    }

    /// An end of a link, a session or the connection for which no step waits.
    fn unexpected_end(&self, step: &Step, later: &[Step]) -> Option<String> {
        let awaited = |said: &Said| {
            std::iter::once(step).chain(later).any(|step| match &step.what {
                What::Demand(place, terms) => {
                    let name = terms.first().and_then(Term::composite).map(|composite| composite.name);
                    *place == said.place && name.is_some() && name == said.name()
                }
                _ => false,
            })
        };
        let ends = |said: &&Said| matches!(said.name(), Some("detach" | "end" | "close"));
        let end = self.heard.iter().filter(ends).find(|said| said.error().is_some() && !awaited(said))?;
        end.error().map(show)
    }

    /// Hears the next thing the broker says.
    fn listen(&mut self) -> Result<(), WireError> {
        let said = match self.wire.next_incoming()? {
            Incoming::Header(ProtocolHeader::Sasl) => Said { place: Place::SaslHeader, values: Vec::new() },
            Incoming::Header(_) => Said { place: Place::AmqpHeader, values: Vec::new() },
            Incoming::Heartbeat => return Ok(()),
            Incoming::Sasl(frame) => {
                let mut bytes = BytesMut::new();
                frame.encode(&mut bytes);
                Said { place: Place::Sasl, values: vec![decoded(&bytes)?] }
            }
            Incoming::Frame(received) => {
                let mut bytes = BytesMut::new();
                received.performative.encode(&mut bytes);
                let mut value = decoded(&bytes)?;
                let channel = self.sessions.translate(received.channel, &mut value);
                return self.hear(channel, value, &received.payload);
            }
        };
        self.heard.push(said);
        Ok(())
    }

    fn hear(&mut self, channel: u16, value: Value, payload: &[u8]) -> Result<(), WireError> {
        let place = Place::Channel(channel);
        match name_of(&value) {
            Some("transfer") => {
                let Some(Value::Uint(handle)) = field(&value, "handle").cloned() else { return Ok(()) };
                let more = field(&value, "more") == Some(&Value::Bool(true));
                let part = self.parts.entry((channel, handle)).or_insert_with(|| (value, Vec::new()));
                part.1.extend_from_slice(payload);
                if more {
                    return Ok(());
                }
                let Some((first, bytes)) = self.parts.remove(&(channel, handle)) else { return Ok(()) };
                let mut values = vec![first];
                let no_message = || WireError::NotAmqp("a transfer whose payload is no message".to_owned());
                values.extend(values_of(&bytes).ok_or_else(no_message)?);
                self.heard.push(Said { place, values });
            }
            Some("disposition") => {
                let number = |name| match field(&value, name) {
                    Some(Value::Uint(number)) => Some(*number),
                    _ => None,
                };
                let first = number("first").unwrap_or(0);
                for id in range(first, number("last").unwrap_or(first)) {
                    let mut one = value.clone();
                    set_field(&mut one, "first", Value::Uint(id));
                    set_field(&mut one, "last", Value::Uint(id));
                    self.heard.push(Said { place, values: vec![one] });
                }
            }
            _ => self.heard.push(Said { place, values: vec![value] }),
        }
        Ok(())
    }
}

fn decoded(bytes: &[u8]) -> Result<Value, WireError> {
    decode_value(bytes).map_err(|error| WireError::NotAmqp(error.to_string()))
}

/// Delivery-ids from one to another, both included, which are serial numbers.
fn range(first: u32, last: u32) -> impl Iterator<Item = u32> {
    let count = last.wrapping_sub(first).min(LONGEST_RANGE);
    (0..=count).map(move |offset| first.wrapping_add(offset))
}

/// Whether a frame takes nothing from a client that does not wait for it: credit, and the state of a session.
fn is_harmless(said: &Said) -> bool {
    said.name() == Some("flow")
}

enum Taken {
    Yes,
    NotYet,
    /// The answer has come, and it is another one.
    Contradicted(Misfit),
}

impl Said {
    fn name(&self) -> Option<&'static str> {
        self.values.first().and_then(name_of)
    }

    fn error(&self) -> Option<&Value> {
        self.values.first().and_then(|value| field(value, "error")).filter(|error| **error != Value::Null)
    }

    /// Whether the numbers that the demand spells out are those of the frame: a look that costs little.
    fn may_fit(&self, terms: &[Term]) -> bool {
        let (Some(term), Some(value)) = (terms.first(), self.values.first()) else { return true };
        ["first", "handle"].iter().all(|name| match term.field(name).map(|term| &term.0) {
            Some(Shape::Scalar(number)) => field(value, name) == Some(number),
            _ => true,
        })
    }

    fn fit(&self, terms: &[Term], variables: &mut Variables) -> Result<(), Misfit> {
        let (Some((term, sections)), Some((value, found))) = (terms.split_first(), self.values.split_first())
        else {
            return Ok(());
        };
        term.fits(value, variables)?;
        judge_sections(sections, found, variables)
    }

    /// Whether it answers what the demand waits for, so that nothing later can meet it: the attach of the link, the
    /// disposition of the delivery, the reply to the request, the next delivery of the link.
    fn is_the_answer(&self, terms: &[Term], variables: &Variables) -> bool {
        let (Some(term), Some(value)) = (terms.first(), self.values.first()) else { return false };
        if term.composite().map(|composite| composite.name) != name_of(value) {
            return false;
        }
        let same = |name: &str| {
            let found = field(value, name).unwrap_or(&Value::Null);
            term.field(name).is_some_and(|term| term.fits(found, &mut variables.clone()).is_ok())
        };
        match name_of(value) {
            Some("attach") => same("name") && same("role"),
            Some("disposition") => same("role") && same("first"),
            Some("transfer") => {
                let request = terms.iter().find_map(|term| term.field("correlation-id"));
                let mut found = self.values.iter().filter_map(|value| field(value, "correlation-id"));
                same("handle")
                    && request
                        .is_none_or(|id| found.any(|said| id.fits(said, &mut variables.clone()).is_ok()))
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SaslHeader => write!(out, "sasl-header"),
            Self::AmqpHeader => write!(out, "amqp-header"),
            Self::Sasl => write!(out, "sasl"),
            Self::Channel(channel) => write!(out, "{channel}"),
        }
    }
}
