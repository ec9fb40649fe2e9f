//! Rules come and go.
//!
//! Invariant: a refused request changes nothing. A rule that exists has its record in the journal.

use std::collections::BTreeSet;

use super::Core;
use crate::{
    ClientId, Effect, EntityError, EntityKind, EntityPath, EntitySettings, Output, Position, QueueId,
    RULES_PER_TOPIC, Rule, StoredRule, Ticket, Timestamp, name,
    record::{RuleRecord, encode_rule, encode_rule_gone},
    rules::{Kept, RuleKey},
};

impl Core {
    pub(super) fn create_subscription(
        &mut self,
        now: Timestamp,
        name: &str,
        settings: EntitySettings,
        rules: Vec<Rule>,
        out: &mut impl Output,
    ) -> Result<(), EntityError> {
        let mut names = BTreeSet::new();
        for rule in &rules {
            self.check_rule(rule, now)?;
            if !names.insert(rule.name.to_ascii_lowercase()) {
                return Err(EntityError::RuleExists(rule.name.clone()));
            }
        }
        let topic = name::split_subscription(name).and_then(|(topic, _)| self.names.get(&name::key(topic)));
        self.check_rule_count(topic.copied(), rules.len())?;
        let subscription = self.create_bare_entity(now, name, EntityKind::Subscription, settings, out)?;
        for rule in rules {
            self.keep_rule(now, subscription, rule, out)?;
        }
        Ok(())
    }

    pub(super) fn add_rule(
        &mut self,
        now: Timestamp,
        path: &EntityPath,
        rule: Rule,
        out: &mut impl Output,
    ) -> Result<(), EntityError> {
        let (topic, subscription) = self.subscription(path)?;
        self.check_rule(&rule, now)?;
        if self.rules.find(subscription, &rule.name).is_some() {
            return Err(EntityError::RuleExists(rule.name));
        }
        self.check_rule_count(Some(topic), 1)?;
        self.mark_used(subscription);
        self.keep_rule(now, subscription, rule, out)
    }

    /// The new record has the old one's number and lies behind it: a replay that sees both ends with the new one.
    pub(super) fn update_rule(
        &mut self,
        now: Timestamp,
        path: &EntityPath,
        rule: Rule,
        expected: Option<&StoredRule>,
        out: &mut impl Output,
    ) -> Result<(), EntityError> {
        let (topic, subscription) = self.subscription(path)?;
        let missing = || EntityError::RuleNotFound(rule.name.clone());
        let key = self.rules.find(subscription, &rule.name).ok_or_else(missing)?;
        let before = self.rules.get(key).ok_or_else(missing)?;
        if expected.is_some_and(|expected| self.rules.stored(topic, key).as_ref() != Some(expected)) {
            return Err(EntityError::Changed(before.name.clone()));
        }
        let (name, created_at) = (before.name.clone(), before.created_at);
        let outdated = (before.position, before.length);
        let rule = Rule { name, ..rule };
        self.check_rule(&rule, now)?;
        self.mark_used(subscription);
        let (position, length) = out.record(&encode_rule(subscription, key.number, &rule, created_at), &[]);
        out.release(outdated.0, outdated.1);
        let Rule { name, filter, action } = rule;
        self.rules.insert(topic, key, filter, Kept { name, action, created_at, position, length });
        Ok(())
    }

    pub(super) fn remove_rule(
        &mut self,
        path: &EntityPath,
        name: &str,
        expected: Option<&StoredRule>,
        out: &mut impl Output,
    ) -> Result<(), EntityError> {
        let (topic, subscription) = self.subscription(path)?;
        let missing = || EntityError::RuleNotFound(name.into());
        let key = self.rules.find(subscription, name).ok_or_else(missing)?;
        if expected.is_some_and(|expected| self.rules.stored(topic, key).as_ref() != Some(expected)) {
            return Err(EntityError::Changed(name.into()));
        }
        let rule = self.rules.remove(Some(topic), key).ok_or_else(missing)?;
        let (position, length) = out.record(&encode_rule_gone(subscription, key.number), &[]);
        // It lies behind the rule's own record, which the journal forgets first.
        out.release(position, length);
        out.release(rule.position, rule.length);
        Ok(())
    }

    pub(super) fn show_rule(
        &mut self,
        client: ClientId,
        path: &EntityPath,
        name: &str,
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        let effect = match self.subscription(path) {
            Ok((topic, subscription)) => {
                let key = self.rules.find(subscription, name);
                let rule = key.and_then(|key| self.rules.stored(topic, key));
                Effect::Rules { ticket, rules: rule.into_iter().collect() }
            }
            Err(error) => Effect::RequestRefused { ticket, error },
        };
        self.merge.effect(client, effect, out);
    }

    pub(super) fn list_rules(
        &mut self,
        client: ClientId,
        path: &EntityPath,
        (skip, top): (u64, u64),
        ticket: Ticket,
        out: &mut impl Output,
    ) {
        let effect = match self.subscription(path) {
            Ok((topic, subscription)) => {
                Effect::Rules { ticket, rules: self.rules.list(topic, subscription, skip, top) }
            }
            Err(error) => Effect::RequestRefused { ticket, error },
        };
        self.merge.effect(client, effect, out);
    }

    /// The topic and the subscription of a path.
    fn subscription(&self, path: &EntityPath) -> Result<(QueueId, QueueId), EntityError> {
        let missing = || EntityError::NotFound(path.entity.clone());
        let id = *self.names.get(&name::key(&path.entity)).ok_or_else(missing)?;
        let definition = &self.main_of(id).ok_or_else(missing)?.definition;
        let topic = definition.topic.ok_or_else(|| EntityError::NotASubscription(path.entity.clone()))?;
        Ok((topic, id))
    }

    /// Refuses a rule that no subscription can have.
    fn check_rule(&self, rule: &Rule, now: Timestamp) -> Result<(), EntityError> {
        if !rule.has_valid_name() {
            return Err(EntityError::InvalidName(rule.name.clone()));
        }
        let bytes = encode_rule(QueueId(0), 0, rule, now).len();
        if bytes > self.config.max_properties_bytes {
            let allowed = "as much as the properties of a message";
            return Err(EntityError::OutOfRange {
                property: "Rule",
                value: format!("{bytes} bytes").into(),
                allowed,
            });
        }
        Ok(())
    }

    fn check_rule_count(&self, topic: Option<QueueId>, more: usize) -> Result<(), EntityError> {
        let limit = self.config.max_rules_per_topic;
        let count = topic.map_or(0, |topic| self.rules.count(topic)).saturating_add(more);
        if count as u64 > limit {
            return Err(EntityError::LimitReached { what: RULES_PER_TOPIC, limit });
        }
        Ok(())
    }

    /// Records a rule that was checked.
    pub(super) fn keep_rule(
        &mut self,
        now: Timestamp,
        subscription: QueueId,
        rule: Rule,
        out: &mut impl Output,
    ) -> Result<(), EntityError> {
        let all = EntityError::LimitReached { what: "rule numbers", limit: u64::from(u32::MAX) };
        let key = self.rules.next_key(subscription).ok_or(all)?;
        let topic = self.main_of(subscription).and_then(|entity| entity.definition.topic);
        let topic = topic.ok_or_else(|| EntityError::NotFound(rule.name.clone()))?;
        let (position, length) = out.record(&encode_rule(subscription, key.number, &rule, now), &[]);
        let Rule { name, filter, action } = rule;
        self.rules.insert(topic, key, filter, Kept { name, action, created_at: now, position, length });
        Ok(())
    }

    /// Takes in the record of a rule.
    pub(super) fn replay_rule(&mut self, record: RuleRecord, position: Position, length: u32) {
        let key = RuleKey { subscription: record.subscription, number: record.number };
        match record.rule {
            Some((Rule { name, filter, action }, created_at)) => {
                self.rules.replay(key, filter, Kept { name, action, created_at, position, length });
            }
            None => drop(self.rules.remove(None, key)),
        }
    }

    /// Appends the record of a rule anew, if it is the one at `at`.
    pub(super) fn relocate_rule(&mut self, at: Position, record: &RuleRecord, out: &mut impl Output) {
        let key = RuleKey { subscription: record.subscription, number: record.number };
        let kept = self.rules.get(key).filter(|kept| kept.position == at).map(|kept| kept.length);
        let (Some(length), Some((rule, created_at))) = (kept, &record.rule) else { return };
        let bytes = encode_rule(key.subscription, key.number, rule, *created_at);
        let (position, new_length) = out.record(&bytes, &[]);
        out.release(at, length);
        self.rules.set_position(key, position, new_length);
    }
}
