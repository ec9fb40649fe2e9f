//! Settings of the namespaces of a run: they are held and let go again with clients connected, and their limits are set,
//! lowered below what is there, and raised.
//!
//! Invariant: after a crash a namespace has the settings that were told last, or those that were asked for after them.

use broker_core::{
    Batch, Command, Effect, EntityError, EntityKind, EntitySettings, NamespaceLimit, NamespaceSettings,
    Ticket,
};
use broker_node::NamespaceCommand;
use bytes::Bytes;

use super::{World, departures::Departures, tenant::answer_placements};
use crate::{
    client::Purpose,
    plan::{SETUP, SendTarget, Topology},
};

/// One step in this many changes the settings of a namespace.
const CHANGE_EVERY: u64 = 150;
/// The same of a namespace that is held or has a limit.
const RELAX_EVERY: u64 = 60;
/// Name of an entity that is created to see whether it may be.
const PROBE: &str = "probe";
/// Number of its creation, and of its deletions.
const PROBE_CREATED: Ticket = Ticket(u64::MAX);
const PROBE_DELETED: Ticket = Ticket(u64::MAX - 1);
/// Least number of bytes that a namespace may be limited to.
const BYTES_MIN: u64 = 1 << 10;

/// Settings of one namespace, as those know them who ask for changes.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Those that were told last.
    told: NamespaceSettings,
    /// Those that were asked for after them.
    pending: Option<NamespaceSettings>,
    /// An entity is being created: whether it is one more than there may be.
    probe: Option<bool>,
}

impl Settings {
    pub(super) fn is_held(&self) -> bool {
        self.told.held
    }

    /// Whether nothing is asked without an answer.
    fn is_quiet(&self) -> bool {
        self.pending.is_none() && self.probe.is_none()
    }

    /// They are durable.
    pub(super) fn told(&mut self, settings: &NamespaceSettings) {
        self.told = settings.clone();
        self.pending.take_if(|pending| pending == settings);
    }

    /// The client that was to be answered is gone.
    pub(super) fn restarted(&mut self) {
        self.probe = None;
    }

    /// A journal has kept these.
    pub(super) fn recovered(&mut self, settings: &NamespaceSettings) -> Result<(), String> {
        let pending = self.pending.take();
        if *settings != self.told && pending.as_ref() != Some(settings) {
            let told = &self.told;
            return Err(format!(
                "settings that were told survive a crash: told {told:?}, asked for {pending:?}, found {settings:?}"
            ));
        }
        self.told = settings.clone();
        Ok(())
    }

    /// An answer about the entity that is one too many, or is not.
    pub(super) fn answered(&mut self, effects: &[Effect]) -> Result<(), String> {
        for effect in effects {
            let is_refused = match effect {
                Effect::EntityDone { ticket: PROBE_CREATED } => false,
                Effect::RequestRefused { ticket: PROBE_CREATED, error: EntityError::LimitReached { .. } } => {
                    true
                }
                Effect::RequestRefused { ticket: PROBE_CREATED, error } => {
                    return Err(format!("an entity is refused for a limit alone: {error}"));
                }
                _ => continue,
            };
            if let Some(expected) = self.probe.take()
                && expected != is_refused
            {
                let limit = self.told.limits.get(NamespaceLimit::Entities);
                return Err(format!("a namespace takes as many entities as it may: {limit:?}, {is_refused}"));
            }
        }
        Ok(())
    }
}

/// Changes the settings of the namespaces of a world.
pub(super) struct SettingsChanges<'a, 'w> {
    world: &'a mut World<'w>,
}

impl<'a, 'w> SettingsChanges<'a, 'w> {
    pub(super) fn of(world: &'a mut World<'w>) -> Self {
        Self { world }
    }
}

impl SettingsChanges<'_, '_> {
    /// Holds namespaces, lets them go, and changes their limits, by chance.
    pub(super) fn change_settings(&mut self) -> Result<(), String> {
        if !self.world.plan.changes_settings {
            return Ok(());
        }
        for number in 0..self.world.tenants.len() {
            let tenant = self.world.tenant(number);
            if !tenant.is_active() || !tenant.settings.is_quiet() {
                continue;
            }
            let is_plain = tenant.settings.told == NamespaceSettings::default();
            if self.world.rng.below(if is_plain { CHANGE_EVERY } else { RELAX_EVERY }) > 0 {
                continue;
            }
            match self.world.rng.below(4) {
                0 if self.world.tenant(number).settings.is_held() => self.probe_hold(number)?,
                0 if self.world.plan.topology.recreated().is_empty() => self.probe_entities(number),
                _ => {
                    let settings = self.draw(number);
                    self.ask(number, settings);
                }
            }
        }
        Ok(())
    }

    /// Other settings than those that a namespace has.
    fn draw(&mut self, number: usize) -> NamespaceSettings {
        let tenant = self.world.tenant(number);
        let (mut settings, residence) = (tenant.settings.told.clone(), tenant.residence);
        let topology = &self.world.plan.topology;
        let rng = &mut self.world.rng;
        let limited = rng.chance(60);
        match rng.below(8) {
            0..=2 => settings.held = !settings.held,
            3..=4 => {
                let bytes = residence.and_then(|residence| self.world.process.live_bytes(residence));
                // Below what is there, or a little above it.
                let limit = (bytes.unwrap_or_default() * (50 + rng.below(100)) / 100).max(BYTES_MIN);
                settings.limits.set(NamespaceLimit::Bytes, limited.then_some(limit));
            }
            5 => {
                let limit = rng.below(20);
                settings.limits.set(NamespaceLimit::RememberedIds, limited.then_some(limit));
            }
            // A deleted entity may always be created again.
            6 if topology.recreated().is_empty() => {
                let limit = 1 + rng.below(entities(topology) * 2);
                settings.limits.set(NamespaceLimit::Entities, limited.then_some(limit));
            }
            _ => settings.weight = u16::try_from(1 + rng.below(1_000)).unwrap_or(1),
        }
        settings
    }

    /// Asks for these settings.
    fn ask(&mut self, number: usize, settings: NamespaceSettings) {
        let plan = self.world.plan;
        let tenant = self.world.tenant(number);
        if settings == tenant.settings.told {
            return;
        }
        // From now on it may refuse sends, whether it is told or not.
        let limits = [NamespaceLimit::Bytes, NamespaceLimit::RememberedIds];
        tenant.model.may_be_full |= limits.iter().any(|limit| settings.limits.get(*limit).is_some());
        tenant.settings.pending = Some(settings.clone());
        let setup = tenant.setup(plan);
        let (name, uid, shard) = (setup.name, setup.uid, tenant.shard);
        self.world.report.count("settings of namespaces asked for");
        self.world.process.change(shard, NamespaceCommand::Put { name, settings, uid, only_create: false });
    }

    /// Creates an entity that may be one too many, and deletes it again.
    fn probe_entities(&mut self, number: usize) {
        let entities = entities(&self.world.plan.topology);
        let tenant = self.world.tenant(number);
        let limit = tenant.settings.told.limits.get(NamespaceLimit::Entities);
        let Some(residence) = tenant.residence else { return };
        tenant.settings.probe = Some(limit.is_some_and(|limit| entities >= limit));
        // A crash may have left one behind.
        let delete = || Command::DeleteEntity { name: PROBE.into(), expected: None, ticket: PROBE_DELETED };
        let settings = Box::new(EntitySettings::default());
        let (name, kind, ticket) = (PROBE.into(), EntityKind::Queue, PROBE_CREATED);
        let create = Command::CreateEntity { name, kind, settings, ticket };
        let commands = vec![Command::Connect, delete(), create, delete(), Command::Disconnect];
        self.world.report.count(if limit.is_some() {
            "entities created under a limit"
        } else {
            "entities created without a limit"
        });
        self.world.process.submit(residence, Batch { client: SETUP, commands });
    }

    /// A client wants to connect to a namespace that is held.
    fn probe_hold(&mut self, number: usize) -> Result<(), String> {
        self.world.connect(number, Purpose::Publish(SendTarget::Queue(0)));
        let Some(mut connection) = self.world.connections.pop() else { return Ok(()) };
        let now = self.world.now();
        let opening: Bytes = connection.client.take_output();
        self.world.report.wire.add(&opening);
        connection.gateway.handle_input(now, opening);
        answer_placements(&mut connection, &self.world.tenants, self.world.plan, now);
        Departures::of(self.world).read_rest(&mut connection)?;
        self.world.report.count("clients that a held namespace has refused");
        if connection.client.was_closed() && connection.namespace.is_none() {
            return Ok(());
        }
        Err("a namespace that is held takes no client".into())
    }

    /// Lets go of all namespaces. Where forwarding needs room, and where entities are to be created again, no limit is left:
    /// else all is received under the limits that there are.
    pub(super) fn finish_settings(&mut self) -> Result<(), String> {
        let topology = &self.world.plan.topology;
        let needs_room = !topology.forwarders.is_empty()
            || !topology.dead_letter_targets().is_empty()
            || !topology.recreated().is_empty();
        for _ in 0..200 {
            let mut is_done = true;
            for number in 0..self.world.tenants.len() {
                let tenant = self.world.tenant(number);
                let before = &tenant.settings.told;
                let wanted = if needs_room {
                    NamespaceSettings::default()
                } else {
                    NamespaceSettings { held: false, ..before.clone() }
                };
                is_done &= wanted == *before;
                if wanted != *before && tenant.is_active() && tenant.settings.is_quiet() {
                    self.ask(number, wanted);
                }
            }
            if is_done {
                return Ok(());
            }
            self.world.work()?;
        }
        Err("changes of settings end".into())
    }
}

/// Number of all entities of a namespace.
fn entities(topology: &Topology) -> u64 {
    let creates = |command: &&Command| {
        matches!(command, Command::CreateEntity { .. } | Command::CreateSubscription { .. })
    };
    topology.setup().commands.iter().filter(creates).count() as u64
}
