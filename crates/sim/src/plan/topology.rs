//! Entities of a run: queues, forwarding queues, and a topic with subscriptions whose rules differ.
//!
//! Invariant: the entities that a message must reach follow from its number alone; the broker derives them from its rules.

use std::collections::{BTreeMap, BTreeSet};

use broker_core::{
    Batch, ClientId, Command, EntityKind, EntitySettings, EntityStatus, LockLifetime, Rule, Ticket,
};
use broker_filter::{CorrelationFilter, Filter, Parameters, SqlAction, SqlFilter, SystemProperty, Value};

use crate::model::EntityIndex;

const TOPIC: &str = "t";
/// Client id under which the simulator creates and deletes entities.
pub(crate) const SETUP: ClientId = ClientId(0);

/// Address to which a message is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SendTarget {
    Queue(EntityIndex),
    Topic,
    /// A queue that forwards what it gets.
    Forwarder(usize),
}

/// Which messages a subscription wants, by number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Interest {
    /// All: the rule that a subscription has when it is given none.
    All,
    /// The odd ones, by an SQL filter.
    Odd,
    /// The threes, by a correlation filter.
    Three,
    /// Odd ones and those above five, by two rules that both match sevens and nines.
    OddOrLarge,
    /// All, each copy changed by the rule's action.
    Changed,
    /// None.
    Nothing,
}

/// Action of [`Interest::Changed`]. The other copies keep the properties that were sent.
const ACTION: &str = "SET changed = number * 2 + 1; SET sys.Label = 'changed'; REMOVE spare";

impl Interest {
    pub(crate) const EACH: [Self; 6] =
        [Self::All, Self::Odd, Self::Three, Self::OddOrLarge, Self::Changed, Self::Nothing];

    fn wants(self, number: u64) -> bool {
        match self {
            Self::All | Self::Changed => true,
            Self::Odd => number % 2 == 1,
            Self::Three => number == 3,
            Self::OddOrLarge => number % 2 == 1 || number > 5,
            Self::Nothing => false,
        }
    }

    /// The same, in the broker's words.
    fn rules(self, acts: bool) -> Vec<Rule> {
        let sql = |text| SqlFilter::parse(text, Parameters::new()).ok().map(Filter::Sql);
        let filters = match self {
            Self::All | Self::Changed => vec![Some(Filter::True)],
            Self::Odd => vec![sql("number % 2 = 1")],
            Self::Three => {
                let mut filter = CorrelationFilter::new();
                filter.system(SystemProperty::Label, Value::Text("n3".into()));
                vec![Some(Filter::Correlation(filter))]
            }
            Self::OddOrLarge => vec![sql("number % 2 = 1"), sql("number > 5")],
            Self::Nothing => vec![Some(Filter::False)],
        };
        let action = if acts && self == Self::Changed {
            SqlAction::parse(ACTION, Parameters::new()).ok()
        } else {
            None
        };
        let rules = filters.into_iter().flatten().enumerate().map(|(number, filter)| Rule {
            name: format!("r{number}").into(),
            filter,
            action: action.clone(),
        });
        rules.collect()
    }
}

/// Kind of an entity.
#[derive(Clone, Debug)]
pub(crate) enum SourceKind {
    Queue,
    Subscription(Interest),
}

/// An entity from which messages are received.
#[derive(Clone, Debug)]
pub(crate) struct Entity {
    pub(crate) kind: SourceKind,
    pub(crate) settings: EntitySettings,
    /// It is deleted now and then, and created again.
    pub(crate) is_recreated: bool,
    /// Entity to which it forwards its dead letters.
    pub(crate) dead_letter_target: Option<EntityIndex>,
}

/// Fault planted in the broker, to prove that an oracle notices it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PlantedFault {
    /// Forwarding queues keep their messages.
    NoForwarding,
    /// Dead letters are not forwarded.
    NoDeadLetterForwarding,
    /// Partitioned entities are created without partitions.
    NoPartitions,
    /// Rules have no action.
    NoRuleActions,
    /// Entities are not deleted.
    NoDeletion,
    /// Duplicate detection is off: a repeated message is delivered twice.
    NoDuplicateDetection,
    /// The files that a failed start left behind are lost.
    FailedStartsForget,
    /// A completion is confirmed before it is durable.
    EarlyConfirmation,
    /// A receive-and-delete message is delivered before its removal is durable.
    EarlyDelivery,
    /// A rollback takes messages from receivers that have not settled them.
    RollbackReleases,
    /// Link-held messages get locks that expire.
    HoldsExpire,
    /// Messages are recorded under the slot of another namespace.
    OtherSlot,
    /// A client of another namespace is shown a delivery.
    OtherClient,
    /// The slot of a deleted namespace is free before its records are given back.
    EarlyFreeSlot,
    /// A start creates namespaces in the shard with the least to do, wherever they are.
    OtherShard,
    /// Settings of a namespace are told before they are durable.
    SettingsToldEarly,
    /// A namespace that is held loses the messages of its first queue.
    HoldForgets,
    /// A namespace that is held takes clients.
    HoldLetsIn,
    /// Limits of a namespace are told and do not hold.
    LimitsIgnored,
    /// A namespace at its limit delivers nothing.
    LimitStopsReceives,
    /// The limits of a namespace hold for another one too.
    LimitsOfAnother,
    /// A round that has taken in commands of a namespace takes in none of another one.
    GreedyRound,
    /// A reader thread does not say that it has read.
    ReadsUntold,
    /// A start leaves a dynamic node.
    DynamicNodesStay,
}

/// All of them.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    /// Entities from which messages are received, by [`EntityIndex`].
    pub(crate) entities: Vec<Entity>,
    /// Targets of the forwarding queues.
    pub(crate) forwarders: Vec<SendTarget>,
    /// Whether the topic has partitions, and so its subscriptions.
    pub(crate) partitioned_topic: bool,
    /// Planted fault, which an oracle must notice.
    pub(crate) fault: Option<PlantedFault>,
}

impl Topology {
    /// Whether this fault is not planted.
    pub(crate) fn is_free_of(&self, fault: PlantedFault) -> bool {
        self.fault != Some(fault)
    }

    pub(crate) fn count(&self) -> usize {
        self.entities.len()
    }

    /// Address of an entity.
    pub(crate) fn address(&self, entity: EntityIndex) -> String {
        match self.entities.get(entity).map(|entity| &entity.kind) {
            Some(SourceKind::Subscription(_)) => format!("{TOPIC}/Subscriptions/s{entity}"),
            _ => format!("q{entity}"),
        }
    }

    /// Address of a target.
    pub(crate) fn target_address(&self, target: SendTarget) -> String {
        match target {
            SendTarget::Queue(entity) => self.address(entity),
            SendTarget::Topic => TOPIC.into(),
            SendTarget::Forwarder(forwarder) => format!("w{forwarder}"),
        }
    }

    pub(crate) fn settings(&self, entity: EntityIndex) -> Option<&EntitySettings> {
        self.entities.get(entity).map(|entity| &entity.settings)
    }

    pub(crate) fn has_sessions(&self, entity: EntityIndex) -> bool {
        self.settings(entity).is_some_and(|settings| settings.requires_session)
    }

    /// Whether the rule's action changes the copies of an entity.
    pub(crate) fn is_changed(&self, entity: EntityIndex) -> bool {
        let kind = self.entities.get(entity).map(|entity| &entity.kind);
        matches!(kind, Some(SourceKind::Subscription(Interest::Changed)))
    }

    /// The entity of a queue without sessions.
    pub(crate) fn plain(&self, target: SendTarget) -> Option<EntityIndex> {
        match target {
            SendTarget::Queue(entity) if !self.has_sessions(entity) => Some(entity),
            _ => None,
        }
    }

    /// Whether an entity is deleted and created again now and then.
    pub(crate) fn is_recreated(&self, entity: EntityIndex) -> bool {
        self.entities.get(entity).is_some_and(|entity| entity.is_recreated)
    }

    /// Entity to which an entity forwards its dead letters.
    pub(crate) fn dead_letter_target(&self, entity: EntityIndex) -> Option<EntityIndex> {
        self.entities.get(entity)?.dead_letter_target
    }

    /// All entities whose dead letters are forwarded, with where to.
    pub(crate) fn dead_letter_targets(&self) -> BTreeMap<EntityIndex, EntityIndex> {
        (0..self.count()).filter_map(|entity| Some((entity, self.dead_letter_target(entity)?))).collect()
    }

    /// All entities that are deleted and created again now and then.
    pub(crate) fn recreated(&self) -> Vec<EntityIndex> {
        (0..self.count()).filter(|entity| self.is_recreated(*entity)).collect()
    }

    /// The same of what is sent to.
    pub(crate) fn is_recreated_target(&self, target: SendTarget) -> bool {
        matches!(target, SendTarget::Queue(entity) if self.is_recreated(entity))
    }

    /// The queues that forward straight to one that is deleted now and then, with its entity: what comes when it is gone
    /// they keep among their dead letters.
    pub(crate) fn dead_lettering_forwarders(&self) -> Vec<(usize, EntityIndex)> {
        let forwarders = self.forwarders.iter().enumerate();
        forwarders
            .filter_map(|(forwarder, target)| match target {
                SendTarget::Queue(entity) if self.is_recreated(*entity) => Some((forwarder, *entity)),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn drops_duplicates(&self, target: SendTarget) -> bool {
        let SendTarget::Queue(entity) = target else { return false };
        self.settings(entity).is_some_and(|settings| settings.requires_duplicate_detection)
    }

    /// All entities with partitions.
    pub(crate) fn partitioned(&self) -> BTreeSet<EntityIndex> {
        let is_partitioned =
            |entity: &EntityIndex| self.settings(*entity).is_some_and(|it| it.enable_partitioning);
        (0..self.count()).filter(is_partitioned).collect()
    }

    /// Whether what is sent there comes to an entity with partitions.
    pub(crate) fn is_partitioned(&self, target: SendTarget) -> bool {
        match target {
            SendTarget::Queue(entity) => self.settings(entity).is_some_and(|it| it.enable_partitioning),
            SendTarget::Topic => self.partitioned_topic,
            SendTarget::Forwarder(forwarder) => {
                self.forwarders.get(forwarder).is_some_and(|target| self.is_partitioned(*target))
            }
        }
    }

    /// Whether what is sent there comes to the topic in the end.
    pub(crate) fn reaches_topic(&self, target: SendTarget) -> bool {
        match target {
            SendTarget::Queue(_) => false,
            SendTarget::Topic => true,
            SendTarget::Forwarder(forwarder) => {
                self.forwarders.get(forwarder).is_some_and(|target| self.reaches_topic(*target))
            }
        }
    }

    /// Everything that can be sent to.
    pub(crate) fn targets(&self) -> Vec<SendTarget> {
        let queues =
            self.entities.iter().enumerate().filter(|(_, entity)| matches!(entity.kind, SourceKind::Queue));
        let mut targets: Vec<SendTarget> = queues.map(|(entity, _)| SendTarget::Queue(entity)).collect();
        if targets.len() < self.count() {
            targets.push(SendTarget::Topic);
        }
        targets.extend((0..self.forwarders.len()).map(SendTarget::Forwarder));
        targets
    }

    /// Entities that messages of a target can reach, whatever their number.
    pub(crate) fn all_of(&self, target: SendTarget) -> Vec<EntityIndex> {
        let mut entities: Vec<EntityIndex> = (0..10).flat_map(|number| self.of(target, number)).collect();
        entities.sort_unstable();
        entities.dedup();
        entities
    }

    /// Entities that a message with this number must reach, one copy each.
    pub(crate) fn of(&self, target: SendTarget, number: u64) -> Vec<EntityIndex> {
        match target {
            SendTarget::Queue(entity) => vec![entity],
            SendTarget::Topic => {
                let wants = |entity: &Entity| matches!(entity.kind, SourceKind::Subscription(interest) if interest.wants(number));
                (0..)
                    .zip(&self.entities)
                    .filter(|(_, entity)| wants(entity))
                    .map(|(entity, _)| entity)
                    .collect()
            }
            SendTarget::Forwarder(forwarder) => {
                self.forwarders.get(forwarder).map_or_else(Vec::new, |target| self.of(*target, number))
            }
        }
    }

    /// Command that creates an entity, with the planted fault if one concerns it.
    pub(crate) fn create(&self, index: EntityIndex, ticket: Ticket) -> Option<Command> {
        let entity = self.entities.get(index)?;
        let name = self.address(index);
        let dead_letter_target =
            entity.dead_letter_target.filter(|_| self.is_free_of(PlantedFault::NoDeadLetterForwarding));
        let forward_dead_lettered_to = dead_letter_target.map(|target| self.address(target).into());
        let enable_partitioning =
            entity.settings.enable_partitioning && self.is_free_of(PlantedFault::NoPartitions);
        let requires_duplicate_detection = entity.settings.requires_duplicate_detection
            && self.is_free_of(PlantedFault::NoDuplicateDetection);
        let hold = if self.is_free_of(PlantedFault::HoldsExpire) {
            entity.settings.hold
        } else {
            LockLifetime::Lock
        };
        let settings = EntitySettings {
            hold,
            forward_dead_lettered_to,
            enable_partitioning,
            requires_duplicate_detection,
            ..entity.settings.clone()
        };
        Some(match entity.kind {
            SourceKind::Queue => create(name, EntityKind::Queue, &settings, ticket),
            SourceKind::Subscription(interest) => {
                let (name, settings) = (name.into(), Box::new(settings));
                let rules = interest.rules(self.is_free_of(PlantedFault::NoRuleActions));
                Command::CreateSubscription { name, settings, rules, ticket }
            }
        })
    }

    /// Creates what is missing.
    pub(crate) fn setup(&self) -> Batch {
        let ticket = Ticket(0);
        let mut commands = vec![Command::Connect];
        if self.targets().contains(&SendTarget::Topic) {
            let enable_partitioning = self.partitioned_topic && self.is_free_of(PlantedFault::NoPartitions);
            let settings = EntitySettings { enable_partitioning, ..EntitySettings::default() };
            commands.push(create(TOPIC.into(), EntityKind::Topic, &settings, ticket));
        }
        // Targets of forwarding are created before the entities that forward to them.
        let dead_letter_targets: BTreeSet<EntityIndex> = self.dead_letter_targets().into_values().collect();
        let others = (0..self.count()).filter(|entity| !dead_letter_targets.contains(entity));
        let entities = dead_letter_targets.iter().copied().chain(others);
        commands.extend(entities.filter_map(|entity| self.create(entity, ticket)));
        commands.extend((0..).zip(&self.forwarders).map(|(forwarder, target)| {
            let forward_to = Some(self.target_address(*target).into());
            let forwards = self.is_free_of(PlantedFault::NoForwarding);
            let status = if forwards { EntityStatus::Active } else { EntityStatus::ReceiveDisabled };
            let settings = EntitySettings { forward_to, status, ..EntitySettings::default() };
            create(
                self.target_address(SendTarget::Forwarder(forwarder)),
                EntityKind::Queue,
                &settings,
                ticket,
            )
        }));
        commands.push(Command::Disconnect);
        Batch { client: SETUP, commands }
    }
}

fn create(name: String, kind: EntityKind, settings: &EntitySettings, ticket: Ticket) -> Command {
    Command::CreateEntity { name: name.into(), kind, settings: Box::new(settings.clone()), ticket }
}
