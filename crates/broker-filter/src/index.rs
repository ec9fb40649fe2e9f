//! Finds the rules that match without trying each.
//!
//! Invariant: gives what trying each filter in the order of the keys would give.

mod shapes;

use std::collections::{BTreeMap, BTreeSet};

use crate::NewId;
use crate::error::EvalError;
use crate::filter::Filter;
use crate::properties::{Property, PropertySet};
use crate::sql::SqlFilter;
use crate::value::{Kind, Value};
use shapes::Shapes;

/// Rules by key, found by the properties of a message.
///
/// Correlation filters are found by the values that they want, all those over the same properties with
/// one search. So is an SQL filter that starts with a condition `property = constant` or
/// `property IN (constants of one kind)` joined to the rest by `AND`; conditions `IS [NOT] NULL` and
/// `EXISTS`, which cannot fail, may stand before it. All other SQL filters are tried one by one: an `OR`
/// outermost, an equality behind a condition that could fail, a comparison with another property.
#[derive(Debug, Clone)]
pub struct RuleIndex<K> {
    filters: BTreeMap<K, Filter>,
    /// Filters that match every message, and SQL filters that nothing is known of.
    always: BTreeSet<K>,
    /// Correlation filters.
    correlation: Shapes<K>,
    /// SQL filters by the values that their first equality takes.
    equal: Shapes<K>,
    /// The same filters by the property and its kind: they fail on a value of another kind.
    kinds: BTreeMap<u64, BTreeMap<Kind, BTreeSet<K>>>,
    sql_filters: usize,
    correlation_filters: usize,
}

/// First equality of an SQL filter.
struct Equality<'a> {
    property: &'a Property,
    /// The kind of all constants.
    kind: Kind,
    constants: Vec<&'a Value>,
}

impl<K> Default for RuleIndex<K> {
    fn default() -> Self {
        Self {
            filters: BTreeMap::new(),
            always: BTreeSet::new(),
            correlation: Shapes::default(),
            equal: Shapes::default(),
            kinds: BTreeMap::new(),
            sql_filters: 0,
            correlation_filters: 0,
        }
    }
}

impl<K: Ord + Clone> RuleIndex<K> {
    /// No rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule, and gives back the filter that its key had.
    pub fn insert(&mut self, key: K, filter: Filter) -> Option<Filter> {
        let old = self.remove(&key);
        match &filter {
            Filter::False => self.sql_filters += 1,
            Filter::True => {
                self.sql_filters += 1;
                self.always.insert(key.clone());
            }
            Filter::Correlation(correlation) => {
                self.correlation_filters += 1;
                let conditions: Vec<_> = correlation.conditions().collect();
                if conditions.is_empty() {
                    self.always.insert(key.clone());
                } else {
                    self.correlation.insert(&conditions, &key);
                }
            }
            Filter::Sql(sql) => {
                self.sql_filters += 1;
                self.insert_sql(&key, sql);
            }
        }
        self.filters.insert(key, filter);
        old
    }

    fn insert_sql(&mut self, key: &K, sql: &SqlFilter) {
        let Some(equality) = Equality::of(sql) else {
            self.always.insert(key.clone());
            return;
        };
        for constant in &equality.constants {
            self.equal.insert(&[(equality.property, constant)], key);
        }
        let kinds = self.kinds.entry(equality.property.hash()).or_default();
        kinds.entry(equality.kind).or_default().insert(key.clone());
    }

    /// Takes a rule out.
    pub fn remove(&mut self, key: &K) -> Option<Filter> {
        let filter = self.filters.remove(key)?;
        self.always.remove(key);
        match &filter {
            Filter::True | Filter::False => self.sql_filters -= 1,
            Filter::Correlation(correlation) => {
                self.correlation_filters -= 1;
                self.correlation.remove(&correlation.conditions().collect::<Vec<_>>(), key);
            }
            Filter::Sql(sql) => {
                self.sql_filters -= 1;
                self.remove_sql(key, sql);
            }
        }
        Some(filter)
    }

    fn remove_sql(&mut self, key: &K, sql: &SqlFilter) {
        let Some(equality) = Equality::of(sql) else { return };
        for constant in &equality.constants {
            self.equal.remove(&[(equality.property, constant)], key);
        }
        let hash = equality.property.hash();
        if let Some(kinds) = self.kinds.get_mut(&hash) {
            if let Some(keys) = kinds.get_mut(&equality.kind) {
                keys.remove(key);
            }
            kinds.retain(|_, keys| !keys.is_empty());
            if kinds.is_empty() {
                self.kinds.remove(&hash);
            }
        }
    }

    /// The filter of a rule.
    pub fn get(&self, key: &K) -> Option<&Filter> {
        self.filters.get(key)
    }

    /// All rules, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &Filter)> {
        self.filters.iter()
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.filters.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Number of rules with an SQL filter. The true and the false filter count as SQL filters, as in Azure Service Bus.
    pub const fn sql_filters(&self) -> usize {
        self.sql_filters
    }

    /// Number of rules with a correlation filter.
    pub const fn correlation_filters(&self) -> usize {
        self.correlation_filters
    }

    /// Tells of each rule that matches, and of each that failed, in the order of their keys. Returns the steps of all of
    /// them: see [`SqlFilter::matches_counted`].
    pub fn matching<'a>(
        &'a self,
        properties: &PropertySet,
        new_id: &mut NewId<'_>,
        mut tell: impl FnMut(&'a K, Result<(), EvalError>),
    ) -> u64 {
        let mut steps = 0;
        for key in self.candidates(properties) {
            let Some(filter) = self.filters.get(key) else { continue };
            let (answer, taken) = filter.matches_counted(properties, new_id);
            steps += taken;
            match answer {
                Ok(true) => tell(key, Ok(())),
                Ok(false) => {}
                Err(error) => tell(key, Err(error)),
            }
        }
        steps
    }

    /// All rules that may match or fail, in order.
    fn candidates<'a>(&'a self, properties: &PropertySet) -> BTreeSet<&'a K> {
        let mut candidates: BTreeSet<&K> = self.always.iter().collect();
        self.correlation.find(properties, &mut candidates);
        self.equal.find(properties, &mut candidates);
        if !self.kinds.is_empty() {
            for (hash, value) in properties.hashes() {
                let kinds = self.kinds.get(&hash).into_iter().flatten();
                let others = kinds.filter(|(kind, _)| **kind != value.kind());
                candidates.extend(others.flat_map(|(_, keys)| keys));
            }
        }
        candidates
    }
}

impl<'a> Equality<'a> {
    /// `None` when there is none that decides for the whole filter.
    fn of(sql: &'a SqlFilter) -> Option<Self> {
        let first = sql.conjuncts().iter().find(|conjunct| !conjunct.is_safe())?;
        let (property, mut constants) = first.as_equality()?;
        // Null is equal to nothing.
        constants.retain(|constant| !constant.is_null());
        let kind = constants.first()?.kind();
        let alike = constants.iter().all(|constant| constant.kind() == kind);
        alike.then_some(Self { property, kind, constants })
    }
}

#[cfg(test)]
mod tests;
