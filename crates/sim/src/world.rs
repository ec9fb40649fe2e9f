//! Event loop of the simulation over AMQP connections, one event a step.
//!
//! Invariant: the order of events is drawn from the seed; there is no other source of order.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use amqp_gateway::{Gateway, GatewayConfig, Now};
use broker_auth::PeerFacts;
use broker_core::{Batch, ClientId, Effect, Timestamp, Work, WorkBudget};
use bytes::{Bytes, BytesMut};

use crate::{
    client::{Client, ClientContext, Mode, Purpose},
    disk::DiskFaults,
    model::EntityIndex,
    plan::{Plan, SendTarget},
    process::{Process, Residence},
    rng::Rng,
};

use deletions::EntityDeletions;
use departures::Departures;
pub use report::{Failure, Report};
use settings::SettingsChanges;
use tenant::{Tenant, answer_placements};
use tenants::TenantLife;

mod deletions;
mod departures;
mod drain;
mod report;
mod settings;
mod tenant;
mod tenants;

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
    for tenant in std::mem::take(&mut world.tenants) {
        world.report.add(tenant.model);
    }
    world.report.events.append(&mut world.process.events);
    world.report.journal = world.process.journal();
    world.report.disk_failures = world.process.disk_faults.failures.load(Ordering::Relaxed);
    Ok(world.report)
}

/// One simulated client, its gateway, and the bytes in flight between them.
struct Connection {
    /// Number of the namespace that its client means.
    tenant: usize,
    /// The namespace in which it was placed.
    namespace: Option<Residence>,
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
    connections: Vec<Connection>,
    /// The namespaces, the default one first.
    tenants: Vec<Tenant>,
    report: Report,
}

/// Number of the default namespace.
const DEFAULT: usize = 0;
/// Virtual time of the start, in milliseconds since the epoch.
const EPOCH: u64 = 1_700_000_000_000;

impl<'a> World<'a> {
    fn tenant(&mut self, number: usize) -> &mut Tenant {
        self.tenants.get_mut(number).expect("a namespace keeps its number")
    }

    fn new(plan: &'a Plan) -> Self {
        let mut rng = Rng::new(plan.seed);
        let disk_faults = DiskFaults::new(rng.fork(), plan.disk_fails);
        // The clients are slow by design; the time-outs have tests of their own.
        let patience = Duration::from_secs(3600);
        let config =
            GatewayConfig { idle_time_out: patience, open_time_out: patience, ..GatewayConfig::default() };
        let config = Arc::new(config);
        let tenants =
            (0..plan.namespaces as u64).map(|number| Tenant::new(number, plan, Arc::clone(&config)));
        Self {
            plan,
            tenants: tenants.collect(),
            // Only differences to it count.
            start: Instant::now(),
            now: EPOCH,
            process: Process::new(disk_faults, plan.seed),
            connections: Vec::new(),
            report: Report::default(),
            rng,
        }
    }

    fn now(&self) -> Now {
        let utc = Timestamp::from_millis(self.now);
        Now { instant: self.start + Duration::from_millis(self.now - EPOCH), utc, wall: utc }
    }

    /// Starts the broker on what is on the disk, and creates the queues where they are missing.
    fn boot(&mut self) -> Result<(), String> {
        let setups = TenantLife::of(self).setups();
        self.process.boot((self.plan, self.now), &mut self.rng, &setups)?;
        TenantLife::of(self).after_boot()
    }

    fn populate(&mut self) {
        let targets = self.plan.topology.targets();
        // Few connections, so that each gets something done.
        for _ in 0..self.plan.publishers {
            let target = self.below(targets.len() as u64);
            if let Some(target) = targets.get(target) {
                self.connect(DEFAULT, Purpose::Publish(*target));
            }
        }
        let count = self.plan.topology.count();
        // Sessions are taken by two.
        for entity in (0..count).rev().filter(|entity| self.plan.topology.has_sessions(*entity)).take(1) {
            self.connect(DEFAULT, Purpose::TakeSessions(entity));
            self.connect(DEFAULT, Purpose::TakeSessions(entity));
        }
        for _ in 0..self.plan.consumers {
            let entity = self.below(count as u64);
            let purpose = self.receives(entity);
            self.connect(DEFAULT, purpose);
        }
        for _ in 0..self.plan.transactors {
            self.connect(DEFAULT, Purpose::Transact);
        }
        for _ in 0..self.plan.management_clients {
            let index = self.below(targets.len() as u64);
            if let Some(target) = targets.get(index) {
                self.connect(DEFAULT, Purpose::Manage(*target));
            }
        }
        EntityDeletions::of(self).populate_recreated();
        for number in 1..self.tenants.len() {
            self.populate_tenant(number);
        }
    }

    /// Connects a few clients to a namespace beside the default one.
    fn populate_tenant(&mut self, number: usize) {
        let targets = self.plan.topology.targets();
        let (target, entity) =
            (self.below(targets.len() as u64), self.below(self.plan.topology.count() as u64));
        let target = targets.get(target).copied().unwrap_or(SendTarget::Queue(0));
        self.connect(number, Purpose::Publish(target));
        let receives = self.receives(entity);
        self.connect(number, receives);
        let third = match self.rng.below(3) {
            0 => Purpose::Transact,
            1 => Purpose::Manage(target),
            _ => Purpose::Publish(SendTarget::Queue(0)),
        };
        self.connect(number, third);
    }

    fn receives(&mut self, entity: EntityIndex) -> Purpose {
        let mode = match self.rng.below(4) {
            0 => Mode::First,
            1 => Mode::Delete,
            _ => Mode::Second,
        };
        match self.rng.chance(10) {
            false if self.plan.topology.has_sessions(entity) => Purpose::TakeSessions(entity),
            // Nobody receives dead letters that are forwarded.
            true if self.plan.topology.dead_letter_target(entity).is_some() => self.receives(entity),
            dead_letter => Purpose::Consume(entity, dead_letter, mode),
        }
    }

    fn below(&mut self, end: u64) -> usize {
        usize::try_from(self.rng.below(end)).unwrap_or(0)
    }

    fn connect(&mut self, number: usize, purpose: Purpose) {
        let tenant = self.tenant(number);
        let (id, hostname) = (ClientId(tenant.next_client), tenant.hostname());
        tenant.next_client += 1;
        let service_bus = self.rng.chance(50);
        let client = Client::new(purpose, service_bus, (id.0, hostname), &mut self.cx(number));
        let peer = PeerFacts { tls: false, loopback: true, certificate_subject: None };
        let seed = self.rng.next();
        let first = self.tenant(DEFAULT).gateway().clone();
        let gateway = Gateway::new(first.config, first.authority, id, peer, seed, self.now());
        let (to_broker, to_client) = (BytesMut::new(), BytesMut::new());
        let (namespace, effects) = (None, Vec::new());
        self.connections.push(Connection {
            tenant: number,
            namespace,
            client,
            gateway,
            id,
            to_broker,
            to_client,
            effects,
        });
    }

    /// State that a client may read and change during its turn.
    fn cx(&mut self, number: usize) -> ClientContext<'_> {
        let Self { rng, tenants, plan, now, .. } = self;
        let tenant = tenants.get_mut(number).expect("a namespace keeps its number");
        ClientContext {
            rng,
            model: &mut tenant.model,
            topology: &plan.topology,
            body_max: plan.body_max,
            ttl_percent: plan.ttl_percent,
            now: *now,
        }
    }

    /// One event.
    fn step(&mut self) -> Result<(), String> {
        if self.rng.below(10_000) < self.plan.crash {
            Departures::of(self).crash();
            return self.boot();
        }
        if self.plan.panic > 0 && self.rng.below(10_000) < self.plan.panic {
            return Departures::of(self).panic();
        }
        EntityDeletions::of(self).delete_or_create();
        TenantLife::of(self).change_namespaces();
        SettingsChanges::of(self).change_settings()?;
        // All namespaces may be held.
        let connection = self.below(self.connections.len().max(1) as u64);
        if self.rng.below(10_000) < self.plan.cut {
            Departures::of(self).cut(connection);
            return Ok(());
        }
        match self.rng.below(20) {
            0..=4 => self.client_acts(connection)?,
            5..=8 => {
                let connection = self.connection_with(connection, |connection| {
                    !connection.to_broker.is_empty() || connection.gateway.has_more_input()
                });
                self.bytes_to_broker(connection, false);
            }
            9..=11 => return self.bytes_to_client(connection, false),
            12..=14 => self.node_step()?,
            15..=16 => self.disk_step()?,
            17..=18 => {
                let connection =
                    self.connection_with(connection, |connection| !connection.effects.is_empty());
                self.effects_arrive(connection);
            }
            _ => self.time_passes(),
        }
        if self.process.is_broken() {
            // The process ends by itself, and is started again.
            Departures::of(self).crash();
            return self.boot();
        }
        Ok(())
    }

    /// The first line from this one on that has something to do, if there is one.
    fn connection_with(&self, connection: usize, busy: impl Fn(&Connection) -> bool) -> usize {
        let (before, after) = self.connections.split_at(connection.min(self.connections.len()));
        let found = after.iter().position(&busy).map(|entity| entity + connection);
        found.or_else(|| before.iter().position(busy)).unwrap_or(connection)
    }

    fn client_acts(&mut self, connection: usize) -> Result<(), String> {
        let Self { connections, rng, tenants, plan, now, .. } = self;
        let Some(connection) = connections.get_mut(connection) else { return Ok(()) };
        let Some(tenant) = tenants.get_mut(connection.tenant) else { return Ok(()) };
        let mut cx = ClientContext {
            rng,
            model: &mut tenant.model,
            topology: &plan.topology,
            body_max: plan.body_max,
            ttl_percent: plan.ttl_percent,
            now: *now,
        };
        connection.client.act(&mut cx)?;
        let out = connection.client.take_output();
        connection.to_broker.extend_from_slice(&out);
        Ok(())
    }

    /// One turn of a connection: what it has read before is handled first, and only then is more read. `all` takes as many as there are.
    fn bytes_to_broker(&mut self, connection: usize, all: bool) {
        let now = self.now();
        let Some(connection) = self.connections.get_mut(connection) else { return };
        loop {
            if let Some(most) = self.plan.turn_work {
                connection.gateway.give_work(WorkBudget::new(Work(1 + self.rng.below(most))));
            }
            if connection.gateway.has_more_input() {
                self.report.count("turns of connections that go on with what was read before");
                connection.gateway.handle_more_input(now);
            } else {
                let count = cut_length(&mut self.rng, connection.to_broker.len(), all);
                if count == 0 {
                    break;
                }
                let bytes = connection.to_broker.split_to(count).freeze();
                self.report.wire.add(&bytes);
                connection.gateway.handle_input(now, bytes);
            }
            answer_placements(connection, &self.tenants, self.plan, now);
            if !all {
                break;
            }
        }
        connection.gateway.handle_deadline(now);
        submit(&mut self.process, connection);
    }

    fn bytes_to_client(&mut self, connection: usize, all: bool) -> Result<(), String> {
        let now = self.now();
        let Self { connections, rng, tenants, plan, now: millis, process, report, .. } = self;
        let Some(connection) = connections.get_mut(connection) else { return Ok(()) };
        let Some(tenant) = tenants.get_mut(connection.tenant) else { return Ok(()) };
        let mut out = BytesMut::new();
        connection.gateway.poll_output(now, &mut out, 4096);
        connection.gateway.compact_queued();
        connection.gateway.output_written(out.len());
        submit(process, connection);
        connection.to_client.extend_from_slice(&out);
        let count = cut_length(rng, connection.to_client.len(), all);
        let bytes: Bytes = connection.to_client.split_to(count).freeze();
        if !bytes.is_empty() {
            report.wire.add(&bytes);
        }
        let mut cx = ClientContext {
            rng,
            model: &mut tenant.model,
            topology: &plan.topology,
            body_max: plan.body_max,
            ttl_percent: plan.ttl_percent,
            now: *millis,
        };
        connection.client.read(&bytes, &mut cx)
    }

    fn node_step(&mut self) -> Result<(), String> {
        self.process.node_step(self.now, &mut self.rng)?;
        TenantLife::of(self).release()
    }

    fn disk_step(&mut self) -> Result<(), String> {
        self.process.disk_step(&mut self.rng);
        TenantLife::of(self).release()
    }

    fn effects_arrive(&mut self, connection: usize) {
        let now = self.now();
        let Some(connection) = self.connections.get_mut(connection) else { return };
        let effects = std::mem::take(&mut connection.effects);
        if !effects.is_empty() {
            connection.gateway.handle_effects(now, effects);
            submit(&mut self.process, connection);
        }
    }

    /// Advances the clock a little, or to the next deadline of the node.
    fn time_passes(&mut self) {
        let deadline = self.process.deadline().unwrap_or(0);
        self.now = match self.rng.below(3) {
            0 if deadline > self.now && deadline < self.now + 60_000 => deadline,
            _ => self.now + self.rng.below(500),
        };
    }
}

fn submit(process: &mut Process, connection: &mut Connection) {
    let commands = connection.gateway.take_commands();
    if let Some(residence) = connection.namespace {
        process.submit(residence, Batch { client: connection.id, commands });
    }
}

fn cut_length(rng: &mut Rng, length: usize, all: bool) -> usize {
    if all || length == 0 || rng.chance(60) {
        return length;
    }
    usize::try_from(rng.below(length as u64 + 1)).unwrap_or(length)
}

#[cfg(test)]
mod tests;
