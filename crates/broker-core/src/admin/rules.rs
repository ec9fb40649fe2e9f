//! Rules come and go.
//!
//! Invariant: a refused request changes nothing. A rule that exists has its record in the journal.

use crate::{
    Effect, EntityError, EntityPath, Output, Position, QueueId, RULES_PER_TOPIC, Rule, StoredRule, Ticket,
    Timestamp, Work,
    call::Cx,
    entity::rules::{Kept, RuleKey},
    messages::Messages,
    record::{RuleRecord, encode_rule, encode_rule_gone},
};

/// Keeps the rules of subscriptions.
#[derive(Debug)]
pub(crate) struct RuleAdmin<'a> {
    pub(crate) messages: &'a mut Messages,
}

impl<'a> RuleAdmin<'a> {
    pub(crate) fn of(messages: &'a mut Messages) -> Self {
        Self { messages }
    }
}

impl RuleAdmin<'_> {
    pub(crate) fn add_rule(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        rule: Rule,
    ) -> Result<(), EntityError> {
        let (topic, subscription) = self.messages.entities.subscription(path)?;
        self.check_rule(&rule, cx.now)?;
        if self.messages.rules.find(subscription, &rule.name).is_some() {
            return Err(EntityError::RuleExists(rule.name));
        }
        self.check_rule_count(Some(topic), 1)?;
        cx.out.check_memory()?;
        self.messages.entities.mark_used(cx, subscription);
        self.keep_rule(cx, subscription, rule)
    }

    /// The new record has the old one's number and lies behind it: a replay that sees both ends with the new one.
    pub(crate) fn update_rule(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        rule: Rule,
        expected: Option<&StoredRule>,
    ) -> Result<(), EntityError> {
        let (topic, subscription) = self.messages.entities.subscription(path)?;
        let missing = || EntityError::RuleNotFound(rule.name.clone());
        let key = self.messages.rules.find(subscription, &rule.name).ok_or_else(missing)?;
        let before = self.messages.rules.get(key).ok_or_else(missing)?;
        if expected.is_some_and(|expected| self.messages.rules.stored(topic, key).as_ref() != Some(expected))
        {
            return Err(EntityError::Changed(before.name.clone()));
        }
        let (name, created_at) = (before.name.clone(), before.created_at);
        let outdated = (before.position, before.length);
        let rule = Rule { name, ..rule };
        self.check_rule(&rule, cx.now)?;
        self.messages.entities.mark_used(cx, subscription);
        let (position, length) =
            cx.out.record(&encode_rule(subscription, key.number, &rule, created_at), &[]);
        cx.out.release(outdated.0, outdated.1);
        let Rule { name, filter, action } = rule;
        self.messages.rules.insert(topic, key, filter, Kept { name, action, created_at, position, length });
        Ok(())
    }

    pub(crate) fn remove_rule(
        &mut self,
        path: &EntityPath,
        name: &str,
        expected: Option<&StoredRule>,
        out: &mut impl Output,
    ) -> Result<(), EntityError> {
        let (topic, subscription) = self.messages.entities.subscription(path)?;
        let missing = || EntityError::RuleNotFound(name.into());
        let key = self.messages.rules.find(subscription, name).ok_or_else(missing)?;
        if expected.is_some_and(|expected| self.messages.rules.stored(topic, key).as_ref() != Some(expected))
        {
            return Err(EntityError::Changed(name.into()));
        }
        let rule = self.messages.rules.remove(Some(topic), key).ok_or_else(missing)?;
        let (position, length) = out.record(&encode_rule_gone(subscription, key.number), &[]);
        // It lies behind the rule's own record, which the journal forgets first.
        out.release(position, length);
        out.release(rule.position, rule.length);
        Ok(())
    }

    pub(crate) fn show_rule(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        name: &str,
        ticket: Ticket,
    ) {
        let effect = match self.messages.entities.subscription(path) {
            Ok((topic, subscription)) => {
                let key = self.messages.rules.find(subscription, name);
                let rule = key.and_then(|key| self.messages.rules.stored(topic, key));
                Effect::Rules { ticket, rules: rule.into_iter().collect() }
            }
            Err(error) => Effect::RequestRefused { ticket, error },
        };
        cx.reply(effect);
    }

    pub(crate) fn list_rules(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        path: &EntityPath,
        skip: u64,
        top: u64,
        ticket: Ticket,
    ) {
        let effect = match self.messages.entities.subscription(path) {
            Ok((topic, subscription)) => {
                let rules = self.messages.rules.list(topic, subscription, skip, top);
                cx.out.charge(Work::LIST_ENTRY.times(rules.len() as u64));
                Effect::Rules { ticket, rules }
            }
            Err(error) => Effect::RequestRefused { ticket, error },
        };
        cx.reply(effect);
    }

    /// Refuses a rule that no subscription can have.
    pub(crate) fn check_rule(&self, rule: &Rule, now: Timestamp) -> Result<(), EntityError> {
        if !rule.has_valid_name() {
            return Err(EntityError::InvalidName(rule.name.clone()));
        }
        let bytes = encode_rule(QueueId(0), 0, rule, now).len();
        if bytes > self.messages.config.max_properties_bytes {
            let allowed = "as much as the properties of a message";
            return Err(EntityError::OutOfRange {
                property: "Rule",
                value: format!("{bytes} bytes").into(),
                allowed,
            });
        }
        Ok(())
    }

    pub(crate) fn check_rule_count(&self, topic: Option<QueueId>, more: usize) -> Result<(), EntityError> {
        let limit = self.messages.config.max_rules_per_topic;
        let count = topic.map_or(0, |topic| self.messages.rules.count(topic)).saturating_add(more);
        if count as u64 > limit {
            return Err(EntityError::LimitReached { what: RULES_PER_TOPIC, limit });
        }
        Ok(())
    }

    /// Records a rule that was checked.
    pub(crate) fn keep_rule(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        subscription: QueueId,
        rule: Rule,
    ) -> Result<(), EntityError> {
        let all = EntityError::LimitReached { what: "rule numbers", limit: u64::from(u32::MAX) };
        let key = self.messages.rules.next_key(subscription).ok_or(all)?;
        let topic = self.messages.main_of(subscription).and_then(|entity| entity.definition.topic);
        let topic = topic.ok_or_else(|| EntityError::NotFound(rule.name.clone()))?;
        let (position, length) = cx.out.record(&encode_rule(subscription, key.number, &rule, cx.now), &[]);
        let Rule { name, filter, action } = rule;
        self.messages.rules.insert(
            topic,
            key,
            filter,
            Kept { name, action, created_at: cx.now, position, length },
        );
        Ok(())
    }

    /// Takes in the record of a rule.
    pub(crate) fn replay_rule(&mut self, record: RuleRecord, position: Position, length: u32) {
        let key = RuleKey { subscription: record.subscription, number: record.number };
        match record.rule {
            Some((Rule { name, filter, action }, created_at)) => {
                self.messages.rules.replay(key, filter, Kept { name, action, created_at, position, length });
            }
            None => drop(self.messages.rules.remove(None, key)),
        }
    }

    /// Appends the record of a rule anew, if it is the one at `at`.
    pub(crate) fn relocate_rule(&mut self, at: Position, record: &RuleRecord, out: &mut impl Output) {
        let key = RuleKey { subscription: record.subscription, number: record.number };
        let kept = self.messages.rules.get(key).filter(|kept| kept.position == at).map(|kept| kept.length);
        let (Some(length), Some((rule, created_at))) = (kept, &record.rule) else { return };
        let bytes = encode_rule(key.subscription, key.number, rule, *created_at);
        let (position, new_length) = out.record(&bytes, &[]);
        out.release(at, length);
        self.messages.rules.set_position(key, position, new_length);
    }
}
