//! The rules of subscriptions: which copies they let in, and what those are changed to.
//!
//! Invariant: a rule stands in its topic's index under the key under which its name, action and record are kept, and
//! nowhere else.

use std::collections::{BTreeMap, btree_map::Entry};

use broker_filter::{EvalError, Filter, NewId, PropertySet, RuleIndex, SqlAction};

use crate::{Position, QueueId, Timestamp};

/// A rule that matches a message, or fails on it.
pub(crate) type RuleAnswer = (RuleKey, Result<(), EvalError>);

/// A rule of a subscription (`docs/features/topics.md`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    /// Its name, unique in its subscription without regard to ASCII case; at most 50 characters.
    pub name: Box<str>,
    /// Which messages it lets in.
    pub filter: Filter,
    /// Action on the copies of matching messages.
    pub action: Option<SqlAction>,
}

impl Rule {
    /// The rule of a subscription that was given none: lets everything in.
    pub fn default_rule() -> Self {
        Self { name: "$Default".into(), filter: Filter::True, action: None }
    }

    /// Whether a rule can have this name: that of a subscription, perhaps with a `$` in front. The names of types are
    /// given to rules, those inside others with a `+`.
    pub(crate) fn has_valid_name(&self) -> bool {
        let name = self.name.strip_prefix('$').unwrap_or(&self.name);
        crate::entity::name::is_valid_subscription(&name.replace('+', "-"))
    }
}

/// A rule as it is kept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredRule {
    pub rule: Rule,
    pub created_at: Timestamp,
}

/// Which rule: its subscription's main store, and a number that counts up there.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct RuleKey {
    pub(crate) subscription: QueueId,
    pub(crate) number: u32,
}

/// Rule without its filter.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) name: Box<str>,
    pub(crate) action: Option<SqlAction>,
    pub(crate) created_at: Timestamp,
    pub(crate) position: Position,
    pub(crate) length: u32,
}

/// The rules of one topic.
#[derive(Debug, Default)]
struct OfTopic {
    index: RuleIndex<RuleKey>,
    count: RuleCount,
}

/// Number of rules of a topic, and of those whose copies may be larger than a plain copy.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct RuleCount {
    pub(crate) all: usize,
    /// Those whose filter is an expression, which may fail: why is written to the copy then.
    pub(crate) expressions: usize,
    /// Those with an action, which writes what it changes.
    pub(crate) actions: usize,
}

impl OfTopic {
    /// Adds a rule, or gives it another filter. `acts` says whether it has an action, and whether it had one.
    fn insert(&mut self, key: RuleKey, filter: Filter, acts: bool, acted: bool) {
        let is_expression = matches!(filter, Filter::Sql(_));
        let before = self.index.insert(key, filter);
        let counted = usize::from(matches!(before, Some(Filter::Sql(_))));
        self.count.expressions = self.count.expressions + usize::from(is_expression) - counted;
        self.count.actions = self.count.actions + usize::from(acts) - usize::from(acted);
        self.count.all = self.index.len();
    }

    fn remove(&mut self, key: RuleKey, acted: bool) {
        if let Some(filter) = self.index.remove(&key) {
            self.count.expressions -= usize::from(matches!(filter, Filter::Sql(_)));
            self.count.actions -= usize::from(acted);
            self.count.all = self.index.len();
        }
    }
}

/// All rules of all topics.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    kept: BTreeMap<RuleKey, Kept>,
    /// Numbers by subscription and name, in lower case.
    names: BTreeMap<(QueueId, Box<str>), u32>,
    topics: BTreeMap<QueueId, OfTopic>,
    /// Filters whose topic is not known yet. Only during replay.
    loose: BTreeMap<RuleKey, Filter>,
}

impl Rules {
    /// All rules of one subscription, in the order in which they were made.
    fn of(&self, subscription: QueueId) -> impl DoubleEndedIterator<Item = (RuleKey, &Kept)> {
        let key = |number| RuleKey { subscription, number };
        self.kept.range(key(0)..=key(u32::MAX)).map(|(key, kept)| (*key, kept))
    }

    /// The key of the next rule of a subscription; `None` when all numbers are used.
    pub(crate) fn next_key(&self, subscription: QueueId) -> Option<RuleKey> {
        let last = self.of(subscription).next_back().map_or(0, |(key, _)| key.number);
        Some(RuleKey { subscription, number: last.checked_add(1)? })
    }

    /// The rule of that name, found without a search through the others.
    pub(crate) fn find(&self, subscription: QueueId, name: &str) -> Option<RuleKey> {
        let number = *self.names.get(&(subscription, name.to_ascii_lowercase().into()))?;
        Some(RuleKey { subscription, number })
    }

    /// The rule of a key.
    pub(crate) fn get(&self, key: RuleKey) -> Option<&Kept> {
        self.kept.get(&key)
    }

    /// Rules of one subscription in the order of their names in lower case, from the `skip`th on, at most `top`.
    pub(crate) fn list(&self, topic: QueueId, subscription: QueueId, skip: u64, top: u64) -> Vec<StoredRule> {
        let bound = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let own = self.names.range((subscription, Box::default())..);
        let own = own.take_while(|((other, _), _)| *other == subscription);
        let page = own.skip(bound(skip)).take(bound(top));
        page.filter_map(|(_, number)| self.stored(topic, RuleKey { subscription, number: *number })).collect()
    }

    /// A rule as it is shown.
    pub(crate) fn stored(&self, topic: QueueId, key: RuleKey) -> Option<StoredRule> {
        let (filter, kept) = (self.filter(topic, key)?.clone(), self.get(key)?);
        let rule = Rule { name: kept.name.clone(), filter, action: kept.action.clone() };
        Some(StoredRule { rule, created_at: kept.created_at })
    }

    /// Number of rules of all subscriptions of a topic.
    pub(crate) fn count(&self, topic: QueueId) -> usize {
        self.counted(topic).all
    }

    /// The same, and what kinds of rules they are.
    pub(crate) fn counted(&self, topic: QueueId) -> RuleCount {
        self.topics.get(&topic).map_or_else(RuleCount::default, |topic| topic.count)
    }

    /// Number of SQL filters and of correlation filters among them.
    pub(crate) fn filters(&self, topic: QueueId) -> (usize, usize) {
        let index = self.topics.get(&topic).map(|topic| &topic.index);
        index.map_or((0, 0), |index| (index.sql_filters(), index.correlation_filters()))
    }

    fn keep(&mut self, key: RuleKey, kept: Kept) {
        self.names.insert((key.subscription, kept.name.to_ascii_lowercase().into()), key.number);
        self.kept.insert(key, kept);
    }

    fn give_up(&mut self, key: RuleKey) -> Option<Kept> {
        let kept = self.kept.remove(&key)?;
        let name = (key.subscription, kept.name.to_ascii_lowercase().into());
        if self.names.get(&name) == Some(&key.number) {
            self.names.remove(&name);
        }
        Some(kept)
    }

    fn has_action(&self, key: RuleKey) -> bool {
        self.get(key).is_some_and(|kept| kept.action.is_some())
    }

    /// Adds a rule.
    pub(crate) fn insert(&mut self, topic: QueueId, key: RuleKey, filter: Filter, kept: Kept) {
        let (acts, acted) = (kept.action.is_some(), self.has_action(key));
        self.topics.entry(topic).or_default().insert(key, filter, acts, acted);
        self.keep(key, kept);
    }

    /// Takes a rule out.
    pub(crate) fn remove(&mut self, topic: Option<QueueId>, key: RuleKey) -> Option<Kept> {
        let acted = self.has_action(key);
        if let Some(Entry::Occupied(mut topic)) = topic.map(|topic| self.topics.entry(topic)) {
            topic.get_mut().remove(key, acted);
            if topic.get().index.is_empty() {
                topic.remove();
            }
        }
        self.loose.remove(&key);
        self.give_up(key)
    }

    /// Takes all rules of a subscription out.
    pub(crate) fn remove_all(&mut self, topic: Option<QueueId>, subscription: QueueId) -> Vec<Kept> {
        let keys: Vec<RuleKey> = self.of(subscription).map(|(key, _)| key).collect();
        keys.into_iter().filter_map(|key| self.remove(topic, key)).collect()
    }

    /// Says that the record of a rule lies somewhere else now.
    pub(crate) fn set_position(&mut self, key: RuleKey, position: Position, length: u32) {
        if let Some(kept) = self.kept.get_mut(&key) {
            (kept.position, kept.length) = (position, length);
        }
    }

    /// Takes in a rule that the journal has; its topic comes later.
    pub(crate) fn replay(&mut self, key: RuleKey, filter: Filter, kept: Kept) {
        self.loose.insert(key, filter);
        self.keep(key, kept);
    }

    /// After replay: gives the rules to the topics of their subscriptions. Those of a subscription that is lost go;
    /// says where their records lie.
    pub(crate) fn settle(&mut self, topic_of: impl Fn(QueueId) -> Option<QueueId>) -> Vec<(Position, u32)> {
        let mut lost = Vec::new();
        for (key, filter) in std::mem::take(&mut self.loose) {
            match topic_of(key.subscription) {
                Some(topic) => {
                    let acts = self.has_action(key);
                    self.topics.entry(topic).or_default().insert(key, filter, acts, false);
                }
                None => lost.extend(self.give_up(key).map(|kept| (kept.position, kept.length))),
            }
        }
        lost
    }

    /// All records of rules.
    pub(crate) fn records(&self) -> impl Iterator<Item = (Position, u32)> {
        self.kept.values().map(|kept| (kept.position, kept.length))
    }

    /// All keys and what is kept, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (RuleKey, &Kept)> {
        self.kept.iter().map(|(key, kept)| (*key, kept))
    }

    /// Which rules of a topic match a message, and which fail on it, in order; and the steps that `LIKE` took.
    pub(crate) fn matching(
        &self,
        topic: QueueId,
        properties: &PropertySet,
        new_id: &mut NewId<'_>,
    ) -> (Vec<RuleAnswer>, u64) {
        let (mut found, mut steps) = (Vec::new(), 0);
        if let Some(OfTopic { index, .. }) = self.topics.get(&topic) {
            steps = index.matching(properties, new_id, |key, result| found.push((*key, result)));
        }
        (found, steps)
    }

    /// The filter of a rule.
    pub(crate) fn filter(&self, topic: QueueId, key: RuleKey) -> Option<&Filter> {
        self.topics.get(&topic)?.index.get(&key)
    }
}
