//! Where messages are sent to and received from: queues, and a topic with subscriptions whose rules differ.
//!
//! Invariant: what a message's places are is decided here, by its number alone; the broker decides it by its rules.

use std::collections::{BTreeMap, BTreeSet};

use broker_core::{Batch, Command, EntityKind, EntitySettings, EntityStatus, Hold, Rule, Ticket};
use broker_filter::{CorrelationFilter, Filter, Parameters, SqlAction, SqlFilter, SystemProperty, Value};

use crate::{model::Place, reader::Read, world::SETUP};

const TOPIC: &str = "t";

/// Where a message is sent to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    /// A queue.
    Queue(Place),
    /// The topic.
    Topic,
    /// A queue that forwards what it gets.
    Way(usize),
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

/// What the action of [`Interest::Changed`] does. The other copies keep what was sent.
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

/// What stands at a place.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Queue,
    Subscription(Interest),
}

/// An entity from which messages are received.
#[derive(Clone, Debug)]
pub(crate) struct Entity {
    pub(crate) kind: Kind,
    pub(crate) settings: EntitySettings,
    /// It is deleted now and then, and made again.
    pub(crate) is_fleeting: bool,
    /// Where its dead letters are forwarded to.
    pub(crate) grave: Option<Place>,
}

/// What a broker may fail to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// What should forward keeps its messages.
    Forwards,
    /// The same of dead letters.
    Buries,
    /// What should have partitions has none.
    Parts,
    /// No rule changes anything.
    Acts,
    /// Nothing is deleted.
    Deletes,
    /// No id of a message is remembered: what is sent twice comes twice.
    Remembers,
    /// What a start in vain leaves on the disk is lost.
    Returns,
    /// A completion is confirmed before it is durable.
    Confirms,
    /// What is received and deleted is handed out before its removal is durable.
    Hands,
    /// Messages that a link holds have locks that end by time.
    Holds,
}

/// All of them.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// Where messages are received; a place is an index.
    pub(crate) entities: Vec<Entity>,
    /// Where the queues that forward send their messages.
    pub(crate) ways: Vec<Target>,
    /// Whether the topic has partitions, and so its subscriptions.
    pub(crate) parted_topic: bool,
    /// What the broker does not do, so that an oracle must see it.
    pub(crate) fault: Option<Fault>,
}

impl Places {
    /// Whether the broker does what it should.
    pub(crate) fn does(&self, fault: Fault) -> bool {
        self.fault != Some(fault)
    }

    pub(crate) fn count(&self) -> usize {
        self.entities.len()
    }

    /// What a place is called.
    pub(crate) fn address(&self, place: Place) -> String {
        match self.entities.get(place).map(|entity| &entity.kind) {
            Some(Kind::Subscription(_)) => format!("{TOPIC}/Subscriptions/s{place}"),
            _ => format!("q{place}"),
        }
    }

    /// What a target is called.
    pub(crate) fn target_address(&self, target: Target) -> String {
        match target {
            Target::Queue(place) => self.address(place),
            Target::Topic => TOPIC.into(),
            Target::Way(way) => format!("w{way}"),
        }
    }

    pub(crate) fn settings(&self, place: Place) -> Option<&EntitySettings> {
        self.entities.get(place).map(|entity| &entity.settings)
    }

    pub(crate) fn has_sessions(&self, place: Place) -> bool {
        self.settings(place).is_some_and(|settings| settings.requires_session)
    }

    /// Whether what was delivered has the properties that it was sent with, or those that the rule made of them.
    pub(crate) fn check_properties(&self, place: Place, read: &Read) -> Result<bool, String> {
        let kind = self.entities.get(place).map(|entity| &entity.kind);
        let is_changed = matches!(kind, Some(Kind::Subscription(Interest::Changed)));
        let number = read.number.ok_or_else(|| format!("message {} has lost its number", read.id))?;
        let label = if is_changed { "changed".to_owned() } else { format!("n{number}") };
        let expected = (is_changed.then_some(number * 2 + 1), !is_changed, label);
        let found = (read.changed, read.has_spare, read.label.clone());
        if found == expected {
            return Ok(is_changed);
        }
        Err(format!("the properties of message {} at place {place} are {found:?}, not {expected:?}", read.id))
    }

    /// The place of a queue without sessions.
    pub(crate) fn plain(&self, target: Target) -> Option<Place> {
        match target {
            Target::Queue(place) if !self.has_sessions(place) => Some(place),
            _ => None,
        }
    }

    /// Whether the entity of a place is deleted now and then.
    pub(crate) fn is_fleeting(&self, place: Place) -> bool {
        self.entities.get(place).is_some_and(|entity| entity.is_fleeting)
    }

    /// Where the dead letters of a place are forwarded to.
    pub(crate) fn grave(&self, place: Place) -> Option<Place> {
        self.entities.get(place)?.grave
    }

    /// All places whose dead letters are forwarded, with where to.
    pub(crate) fn graves(&self) -> BTreeMap<Place, Place> {
        (0..self.count()).filter_map(|place| Some((place, self.grave(place)?))).collect()
    }

    /// All places whose entities are deleted now and then.
    pub(crate) fn fleeting(&self) -> Vec<Place> {
        (0..self.count()).filter(|place| self.is_fleeting(*place)).collect()
    }

    /// The same of what is sent to.
    pub(crate) fn is_fleeting_target(&self, target: Target) -> bool {
        matches!(target, Target::Queue(place) if self.is_fleeting(place))
    }

    /// The queues that forward straight to one that is deleted now and then, with its place: what comes when it is gone
    /// they keep among their dead letters.
    pub(crate) fn keepers(&self) -> Vec<(usize, Place)> {
        let ways = self.ways.iter().enumerate();
        ways.filter_map(|(way, onward)| match onward {
            Target::Queue(place) if self.is_fleeting(*place) => Some((way, *place)),
            _ => None,
        })
        .collect()
    }

    pub(crate) fn drops_duplicates(&self, target: Target) -> bool {
        let Target::Queue(place) = target else { return false };
        self.settings(place).is_some_and(|settings| settings.requires_duplicate_detection)
    }

    /// All places with partitions.
    pub(crate) fn parted(&self) -> BTreeSet<Place> {
        let is_parted = |place: &Place| self.settings(*place).is_some_and(|it| it.enable_partitioning);
        (0..self.count()).filter(is_parted).collect()
    }

    /// Whether what is sent there comes to an entity with partitions.
    pub(crate) fn is_parted(&self, target: Target) -> bool {
        match target {
            Target::Queue(place) => self.settings(place).is_some_and(|it| it.enable_partitioning),
            Target::Topic => self.parted_topic,
            Target::Way(way) => self.ways.get(way).is_some_and(|onward| self.is_parted(*onward)),
        }
    }

    /// Whether what is sent there comes to the topic in the end.
    pub(crate) fn reaches_topic(&self, target: Target) -> bool {
        match target {
            Target::Queue(_) => false,
            Target::Topic => true,
            Target::Way(way) => self.ways.get(way).is_some_and(|onward| self.reaches_topic(*onward)),
        }
    }

    /// Everything that can be sent to.
    pub(crate) fn targets(&self) -> Vec<Target> {
        let queues =
            self.entities.iter().enumerate().filter(|(_, entity)| matches!(entity.kind, Kind::Queue));
        let mut targets: Vec<Target> = queues.map(|(place, _)| Target::Queue(place)).collect();
        if targets.len() < self.count() {
            targets.push(Target::Topic);
        }
        targets.extend((0..self.ways.len()).map(Target::Way));
        targets
    }

    /// Where messages arrive, whatever their number is.
    pub(crate) fn all_of(&self, target: Target) -> Vec<Place> {
        let mut places: Vec<Place> = (0..10).flat_map(|number| self.of(target, number)).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Where a message with this number arrives: exactly one copy at each.
    pub(crate) fn of(&self, target: Target, number: u64) -> Vec<Place> {
        match target {
            Target::Queue(place) => vec![place],
            Target::Topic => {
                let wants = |entity: &Entity| matches!(entity.kind, Kind::Subscription(interest) if interest.wants(number));
                (0..)
                    .zip(&self.entities)
                    .filter(|(_, entity)| wants(entity))
                    .map(|(place, _)| place)
                    .collect()
            }
            Target::Way(way) => self.ways.get(way).map_or_else(Vec::new, |onward| self.of(*onward, number)),
        }
    }

    /// Makes what stands at a place.
    pub(crate) fn create(&self, place: Place, ticket: Ticket) -> Option<Command> {
        let entity = self.entities.get(place)?;
        let name = self.address(place);
        let grave = entity.grave.filter(|_| self.does(Fault::Buries));
        let forward_dead_lettered_to = grave.map(|grave| self.address(grave).into());
        let enable_partitioning = entity.settings.enable_partitioning && self.does(Fault::Parts);
        let requires_duplicate_detection =
            entity.settings.requires_duplicate_detection && self.does(Fault::Remembers);
        let hold = if self.does(Fault::Holds) { entity.settings.hold } else { Hold::Lock };
        let settings = EntitySettings {
            hold,
            forward_dead_lettered_to,
            enable_partitioning,
            requires_duplicate_detection,
            ..entity.settings.clone()
        };
        Some(match entity.kind {
            Kind::Queue => create(name, EntityKind::Queue, &settings, ticket),
            Kind::Subscription(interest) => {
                let (name, settings) = (name.into(), Box::new(settings));
                let rules = interest.rules(self.does(Fault::Acts));
                Command::CreateSubscription { name, settings, rules, ticket }
            }
        })
    }

    /// Creates what is missing.
    pub(crate) fn setup(&self) -> Batch {
        let ticket = Ticket(0);
        let mut commands = vec![Command::Connect];
        if self.targets().contains(&Target::Topic) {
            let enable_partitioning = self.parted_topic && self.does(Fault::Parts);
            let settings = EntitySettings { enable_partitioning, ..EntitySettings::default() };
            commands.push(create(TOPIC.into(), EntityKind::Topic, &settings, ticket));
        }
        // What others forward to comes first.
        let graves: BTreeSet<Place> = self.graves().into_values().collect();
        let others = (0..self.count()).filter(|place| !graves.contains(place));
        let places = graves.iter().copied().chain(others);
        commands.extend(places.filter_map(|place| self.create(place, ticket)));
        commands.extend((0..).zip(&self.ways).map(|(way, onward)| {
            let forward_to = Some(self.target_address(*onward).into());
            let forwards = self.does(Fault::Forwards);
            let status = if forwards { EntityStatus::Active } else { EntityStatus::ReceiveDisabled };
            let settings = EntitySettings { forward_to, status, ..EntitySettings::default() };
            create(self.target_address(Target::Way(way)), EntityKind::Queue, &settings, ticket)
        }));
        commands.push(Command::Disconnect);
        Batch { client: SETUP, commands }
    }
}

fn create(name: String, kind: EntityKind, settings: &EntitySettings, ticket: Ticket) -> Command {
    Command::CreateEntity { name: name.into(), kind, settings: Box::new(settings.clone()), ticket }
}
