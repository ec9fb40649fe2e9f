//! Everything that happens, one step after the other.
//!
//! Invariant: the order of events is drawn from the seed; there is no other source of order.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use amqp_gateway::{Gateway, GatewayConfig, Now};
use broker_auth::{Anonymous, Authority, Credentials, PeerFacts};
use broker_core::{Batch, ClientId, Effect, Timestamp};
use bytes::{Bytes, BytesMut};

use crate::{
    client::{Client, Mode, Purpose, Scene},
    digest::Digest,
    disk::Mischief,
    model::{Model, Place},
    plan::Plan,
    process::Process,
    rng::Rng,
};

use deletions::Deletions;

mod deletions;
mod drain;

/// Why a run failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("at step {step}: {what}")]
pub struct Failure {
    /// When.
    pub step: u32,
    /// What.
    pub what: String,
}

/// What a run did. Two runs of one plan give equal reports.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Messages the broker accepted.
    pub accepted: u64,
    /// Messages the broker refused, because its disk was full.
    pub refused: u64,
    /// Deliveries clients saw.
    pub delivered: u64,
    /// Times the broker was killed.
    pub crashes: u64,
    /// Disk calls that failed.
    pub disk_failures: u64,
    /// What else happened, and how often.
    pub events: BTreeMap<&'static str, u64>,
    /// Everything that went over the network, in order.
    pub wire: Digest,
    /// Everything that the journal wrote, in order.
    pub journal: Digest,
}

/// Runs a plan to its end.
pub fn run(plan: &Plan) -> Result<Report, Failure> {
    let mut world = World::new(plan);
    let mut step = 0;
    let failed = |step| move |what| Failure { step, what };
    world.boot().map_err(failed(step))?;
    world.populate();
    while step < plan.steps {
        step += 1;
        world.step().map_err(failed(step))?;
    }
    world.drain().map_err(failed(step))?;
    world.report.accepted = world.model.accepted;
    world.report.refused = world.model.refused;
    world.report.delivered = world.model.delivered;
    world.report.events = std::mem::take(&mut world.model.events);
    world.report.events.append(&mut world.process.events);
    world.report.journal = world.process.journal();
    world.report.disk_failures = world.process.mischief.failures.load(Ordering::Relaxed);
    Ok(world.report)
}

/// A client, its gateway, and the wires between them.
struct Line {
    client: Client,
    gateway: Gateway,
    id: ClientId,
    to_broker: BytesMut,
    to_client: BytesMut,
    effects: Vec<Effect>,
}

struct World<'a> {
    plan: &'a Plan,
    rng: Rng,
    start: Instant,
    now: u64,
    process: Process,
    lines: Vec<Line>,
    config: Arc<GatewayConfig>,
    authority: Arc<Authority>,
    next_client: u64,
    model: Model,
    report: Report,
    deletions: Deletions,
}

/// Virtual time of the start, in milliseconds since the epoch.
const EPOCH: u64 = 1_700_000_000_000;
/// Who creates entities.
pub(crate) const SETUP: ClientId = ClientId(0);

impl<'a> World<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut rng = Rng::new(plan.seed);
        let mischief = Mischief::new(rng.fork(), plan.disk_fails);
        // The clients are slow by design; the time-outs have tests of their own.
        let patience = Duration::from_secs(3600);
        let config =
            GatewayConfig { idle_time_out: patience, open_time_out: patience, ..GatewayConfig::default() };
        Self {
            plan,
            // Only differences to it count.
            start: Instant::now(),
            now: EPOCH,
            process: Process::new(mischief, plan.seed),
            lines: Vec::new(),
            config: Arc::new(config),
            authority: Arc::new(Authority::new(Credentials::development(Anonymous::Deny))),
            next_client: 1,
            model: Model::with_graves(plan.places.graves()).with_partitions(plan.places.parted()),
            report: Report::default(),
            deletions: Deletions::default(),
            rng,
        }
    }

    fn now(&self) -> Now {
        let utc = Timestamp::from_millis(self.now);
        Now { instant: self.start + Duration::from_millis(self.now - EPOCH), utc, wall: utc }
    }

    /// Starts the broker on what is on the disk, and creates the queues where they are missing.
    fn boot(&mut self) -> Result<(), String> {
        self.process.boot((self.plan, self.now), &mut self.rng, &self.plan.places.setup())?;
        self.after_boot();
        Ok(())
    }

    fn populate(&mut self) {
        let targets = self.plan.places.targets();
        // Few connections, so that each gets something done.
        for _ in 0..self.plan.publishers {
            let target = self.below(targets.len() as u64);
            if let Some(target) = targets.get(target) {
                self.connect(Purpose::Publish(*target));
            }
        }
        let places = self.plan.places.count();
        // Sessions are taken by two.
        for place in (0..places).rev().filter(|place| self.plan.places.has_sessions(*place)).take(1) {
            self.connect(Purpose::TakeSessions(place));
            self.connect(Purpose::TakeSessions(place));
        }
        for _ in 0..self.plan.consumers {
            let place = self.below(places as u64);
            let purpose = self.receives(place);
            self.connect(purpose);
        }
        for _ in 0..self.plan.transactors {
            self.connect(Purpose::Transact);
        }
        for _ in 0..self.plan.desks {
            let desk = self.below(targets.len() as u64);
            if let Some(target) = targets.get(desk) {
                self.connect(Purpose::Desk(*target));
            }
        }
        self.populate_fleeting();
    }

    fn receives(&mut self, place: Place) -> Purpose {
        let mode = match self.rng.below(4) {
            0 => Mode::First,
            1 => Mode::Delete,
            _ => Mode::Second,
        };
        match self.rng.chance(10) {
            false if self.plan.places.has_sessions(place) => Purpose::TakeSessions(place),
            // Nobody receives dead letters that are forwarded.
            true if self.plan.places.grave(place).is_some() => self.receives(place),
            dead_letter => Purpose::Consume(place, dead_letter, mode),
        }
    }

    fn below(&mut self, end: u64) -> usize {
        usize::try_from(self.rng.below(end)).unwrap_or(0)
    }

    fn connect(&mut self, purpose: Purpose) {
        let id = ClientId(self.next_client);
        self.next_client += 1;
        let service_bus = self.rng.chance(50);
        let client = Client::new(purpose, service_bus, id.0, &mut self.scene());
        let peer = PeerFacts { tls: false, loopback: true, certificate_subject: None };
        let seed = self.rng.next();
        let (config, authority) = (Arc::clone(&self.config), Arc::clone(&self.authority));
        let gateway = Gateway::new(config, authority, id, peer, seed, self.now());
        let (to_broker, to_client) = (BytesMut::new(), BytesMut::new());
        self.lines.push(Line { client, gateway, id, to_broker, to_client, effects: Vec::new() });
    }

    /// What a client acts upon.
    fn scene(&mut self) -> Scene<'_> {
        let Self { rng, model, plan, now, .. } = self;
        Scene { rng, model, places: &plan.places, body_max: plan.body_max, mortal: plan.mortal, now: *now }
    }

    /// One event.
    fn step(&mut self) -> Result<(), String> {
        if self.rng.below(10_000) < self.plan.crash {
            self.crash();
            return self.boot();
        }
        self.delete_or_make();
        let line = self.below(self.lines.len() as u64);
        if self.rng.below(10_000) < self.plan.cut {
            self.cut(line);
            return Ok(());
        }
        match self.rng.below(20) {
            0..=4 => self.client_acts(line)?,
            5..=8 => {
                let line = self.line_with(line, |line| !line.to_broker.is_empty());
                self.bytes_to_broker(line, false);
            }
            9..=11 => return self.bytes_to_client(line, false),
            12..=14 => self.node_step(),
            15..=16 => self.disk_step(),
            17..=18 => {
                let line = self.line_with(line, |line| !line.effects.is_empty());
                self.effects_arrive(line);
            }
            _ => self.time_passes(),
        }
        if self.process.is_broken() {
            // The process ends by itself, and is started again.
            self.crash();
            return self.boot();
        }
        Ok(())
    }

    /// The first line from this one on that has something to do, if there is one.
    fn line_with(&self, line: usize, busy: impl Fn(&Line) -> bool) -> usize {
        let (before, after) = self.lines.split_at(line.min(self.lines.len()));
        let found = after.iter().position(&busy).map(|place| place + line);
        found.or_else(|| before.iter().position(busy)).unwrap_or(line)
    }

    fn client_acts(&mut self, line: usize) -> Result<(), String> {
        let Self { lines, rng, model, plan, now, .. } = self;
        let mut scene = Scene {
            rng,
            model,
            places: &plan.places,
            body_max: plan.body_max,
            mortal: plan.mortal,
            now: *now,
        };
        let Some(line) = lines.get_mut(line) else { return Ok(()) };
        line.client.act(&mut scene)?;
        let out = line.client.take_output();
        line.to_broker.extend_from_slice(&out);
        Ok(())
    }

    fn bytes_to_broker(&mut self, line: usize, all: bool) {
        let now = self.now();
        let Some(line) = self.lines.get_mut(line) else { return };
        let count = cut_length(&mut self.rng, line.to_broker.len(), all);
        if count > 0 {
            let bytes = line.to_broker.split_to(count).freeze();
            self.report.wire.add(&bytes);
            line.gateway.handle_input(now, bytes);
        }
        line.gateway.handle_deadline(now);
        submit(&mut self.process, line);
    }

    fn bytes_to_client(&mut self, line: usize, all: bool) -> Result<(), String> {
        let now = self.now();
        let Self { lines, rng, model, plan, now: millis, process, report, .. } = self;
        let Some(line) = lines.get_mut(line) else { return Ok(()) };
        let mut out = BytesMut::new();
        line.gateway.poll_output(now, &mut out, 4096);
        line.gateway.unshare_waiting();
        line.gateway.output_written(out.len());
        submit(process, line);
        line.to_client.extend_from_slice(&out);
        let count = cut_length(rng, line.to_client.len(), all);
        let bytes: Bytes = line.to_client.split_to(count).freeze();
        if !bytes.is_empty() {
            report.wire.add(&bytes);
        }
        let mut scene = Scene {
            rng,
            model,
            places: &plan.places,
            body_max: plan.body_max,
            mortal: plan.mortal,
            now: *millis,
        };
        line.client.read(&bytes, &mut scene)
    }

    fn node_step(&mut self) {
        self.process.node_step(self.now, &mut self.rng);
        self.release();
    }

    fn disk_step(&mut self) {
        self.process.disk_step(&mut self.rng);
        self.release();
    }

    fn release(&mut self) {
        for released in self.process.released() {
            if released.client == SETUP {
                self.deletions_done(released.effects);
            } else if let Some(line) = self.lines.iter_mut().find(|line| line.id == released.client) {
                line.effects.extend(released.effects);
            }
        }
    }

    fn effects_arrive(&mut self, line: usize) {
        let now = self.now();
        let Some(line) = self.lines.get_mut(line) else { return };
        let effects = std::mem::take(&mut line.effects);
        if !effects.is_empty() {
            line.gateway.handle_effects(now, effects);
            submit(&mut self.process, line);
        }
    }

    /// A little, or to the next deadline of the node.
    fn time_passes(&mut self) {
        let deadline = self.process.deadline().unwrap_or(0);
        self.now = match self.rng.below(3) {
            0 if deadline > self.now && deadline < self.now + 60_000 => deadline,
            _ => self.now + self.rng.below(500),
        };
    }

    /// The connection breaks: what was under way is lost, and the client comes back as a new one.
    fn cut(&mut self, line: usize) {
        let mut line = self.lines.swap_remove(line);
        let commands = line.gateway.disconnected();
        self.process.submit(Batch { client: line.id, commands });
        line.client.lost(&mut self.model);
        self.connect(line.client.purpose());
    }

    /// The process is killed, and perhaps the machine with it.
    fn crash(&mut self) {
        self.report.crashes += 1;
        self.process.crash(&mut self.rng);
        self.model.restarted();
        self.deletions = Deletions::default();
        let lines = std::mem::take(&mut self.lines);
        for line in lines {
            line.client.lost(&mut self.model);
            self.connect(line.client.purpose());
        }
    }
}

fn submit(process: &mut Process, line: &mut Line) {
    process.submit(Batch { client: line.id, commands: line.gateway.take_commands() });
}

fn cut_length(rng: &mut Rng, length: usize, all: bool) -> usize {
    if all || length == 0 || rng.chance(60) {
        return length;
    }
    usize::try_from(rng.below(length as u64 + 1)).unwrap_or(length)
}

#[cfg(test)]
mod tests;
