//! Whoever receives from a topic itself, as clients of plain AMQP do, gets a subscription of its own (decision 17).
//!
//! Invariant: a subscriber's name decides which subscription it has, in all topics together: there is one at most. A
//! refused subscriber has changed nothing, but for a subscription of its own that it wanted otherwise.

use std::time::Duration;

use broker_filter::Filter;
use sha2::{Digest as _, Sha256};

use super::{Core, links::How};
use crate::{
    AttachError, ClientId, Effect, EntityError, EntityKind, EntityPath, EntitySettings, LinkId, Output,
    QueueId, ReceiveMode, Rule, SubQueue, Subscriber, Timestamp, UnsettledPolicy,
    client::{Link, Standing},
    name,
};

/// What the names of such subscriptions begin with.
const PREFIX: &str = "amqp-";
/// A subscription that was to go with its link, and whose link was lost with the process, goes after so long.
const LOST: Duration = Duration::from_secs(5 * 60);
/// Most characters of the owner's note.
const NOTE_CHARS: usize = 1_024;

/// The own name of a subscriber's subscription: letters and digits, whatever the client calls it.
fn own_name(container: &str, name: &str) -> String {
    // No text has such a byte.
    let digest = Sha256::digest([container.as_bytes(), &[0xff], name.as_bytes()].concat());
    let (half, _) = digest.split_first_chunk::<16>().expect("the digest has 32 bytes");
    format!("{PREFIX}{:032x}", u128::from_be_bytes(*half))
}

impl Core {
    /// Opens a consumer; where the path names a topic, on the subscriber's subscription, which is made if need be, and
    /// elsewhere on the messages that it wants.
    #[expect(clippy::too_many_arguments, reason = "the fields of one command")]
    pub(super) fn open_subscriber(
        &mut self,
        now: Timestamp,
        client: ClientId,
        link: LinkId,
        path: EntityPath,
        (mode, unsettled): (ReceiveMode, UnsettledPolicy),
        subscriber: Subscriber,
        auto_create: bool,
        out: &mut impl Output,
    ) {
        let (mut path, mut mode, mut filter) = (path, mode, Filter::True);
        let mut standing = Standing::Guest;
        if path.sub_queue == SubQueue::Main && self.is_topic(&path.entity) {
            // It must not stand in its own way.
            self.close_link(now, client, link, out);
            mode = subscriber.mode;
            standing = match (subscriber.temporary, subscriber.shared) {
                (true, _) => Standing::Temporary,
                (false, true) => Standing::Guest,
                (false, false) => Standing::Owner(subscriber.owner.clone()),
            };
            match self.subscription_for(now, &path.entity, subscriber, out) {
                Ok(name) => path.entity = name,
                Err(error) => {
                    return self.merge.effect(client, Effect::AttachRefused { link, error }, out);
                }
            }
        } else {
            filter = subscriber.filter;
        }
        let temporary = matches!(standing, Standing::Temporary);
        let how = How { mode, unsettled, session: None, filter, standing };
        self.open_consumer(now, client, link, &path, how, auto_create, out);
        if temporary && let Some(id) = self.names.get(&name::key(&path.entity)) {
            // It may have been refused.
            self.leave_temporary(*id, out);
        }
    }

    /// Deletes a temporary subscription, unless somebody receives from it.
    pub(super) fn leave_temporary(&mut self, subscription: QueueId, out: &mut impl Output) {
        let is_free = self.stores.get(&subscription).is_some_and(|store| store.consumers == 0);
        let name = self.main_of(subscription).filter(|_| is_free).map(|it| it.definition.name.clone());
        if let Some(name) = name {
            // It is there, so this cannot be refused.
            let _done = self.delete_entity(&name, None, out);
        }
    }

    fn is_topic(&self, name: &str) -> bool {
        let id = self.names.get(&name::key(name));
        id.is_some_and(|id| self.kind_of(*id) == Some(EntityKind::Topic))
    }

    /// The name of the subscriber's subscription, as it wants it.
    fn subscription_for(
        &mut self,
        now: Timestamp,
        topic: &str,
        subscriber: Subscriber,
        out: &mut impl Output,
    ) -> Result<Box<str>, AttachError> {
        let own = own_name(&subscriber.container, &subscriber.name);
        let wanted = name::subscription(topic, &own);
        if let Some(id) = self.find_subscription(&own) {
            let is_used = self.stores.get(&id).is_some_and(|store| store.consumers > 0);
            let found = self.main_of(id).map(|entity| entity.definition.name.clone());
            let is_same = found.as_ref().is_some_and(|name| name::key(name) == name::key(&wanted))
                && self.filter_of(id) == Some(&subscriber.filter);
            let alone = self.alone_on(id);
            let shares = subscriber.shared && alone.is_none();
            let stolen = alone.filter(|(owner, ..)| {
                *owner == &*subscriber.owner && !subscriber.shared && !subscriber.temporary
            });
            match stolen.map(|(_, client, link)| (client, link)) {
                Some(older) if is_same => self.steal(now, older, out),
                _ if is_used && !(is_same && shares) => {
                    return Err(AttachError::SubscriptionInUse(subscriber.name));
                }
                _ => {}
            }
            if is_same {
                return Ok(wanted);
            }
            // Another topic or filter: it begins anew.
            if let Some(name) = found {
                self.delete_entity(&name, None, out).map_err(AttachError::Subscription)?;
            }
        }
        let limit = self.config.max_subscribers_per_topic;
        if self.subscribers_of(topic) >= limit {
            return Err(AttachError::LimitReached { what: "subscribers per topic", limit });
        }
        let settings = EntitySettings {
            dead_letter_on_filter_error: false,
            auto_delete_on_idle: subscriber.temporary.then_some(LOST),
            user_metadata: Some(note(&subscriber.container, &subscriber.name)),
            ..EntitySettings::default()
        };
        let rule = Rule { filter: subscriber.filter, ..Rule::default_rule() };
        self.create_subscription(now, &wanted, settings, vec![rule], out).map_err(|error| match error {
            EntityError::LimitReached { what, limit } => AttachError::LimitReached { what, limit },
            other => AttachError::Subscription(other),
        })?;
        Ok(wanted)
    }

    /// The durable subscriber that shares a subscription with nobody, while it receives: who it is, and its link.
    fn alone_on(&self, subscription: QueueId) -> Option<(&str, ClientId, LinkId)> {
        let links = &self.stores.get(&subscription)?.links;
        links.iter().find_map(|(client, link)| {
            let Link::Consumer { number } = self.clients.get(client)?.links.get(link)? else { return None };
            let Standing::Owner(owner) = &self.consumers.get(number)?.standing else { return None };
            Some((&**owner, *client, *link))
        })
    }

    /// Takes the place of an older link of the same subscriber: a link is known by its name and the containers at its
    /// ends, and attached anew it is stolen (transport 2.6.1).
    fn steal(&mut self, now: Timestamp, (client, link): (ClientId, LinkId), out: &mut impl Output) {
        self.close_link(now, client, link, out);
        self.merge.effect(client, Effect::LinkStolen { link }, out);
    }

    /// Says what there is of a subscriber, so that it can be looked at or given up.
    pub(super) fn find_subscriber(
        &mut self,
        client: ClientId,
        link: LinkId,
        (container, name): (&str, &str),
        out: &mut impl Output,
    ) {
        let found = self.find_subscription(&own_name(container, name));
        let names = found.and_then(|id| {
            let definition = &self.main_of(id)?.definition;
            let topic = self.main_of(definition.topic?)?;
            Some((definition.name.clone(), topic.definition.name.clone()))
        });
        let effect = match names {
            Some((subscription, topic)) => Effect::SubscriberFound { link, subscription, topic },
            None => Effect::AttachRefused { link, error: AttachError::NotFound(name.into()) },
        };
        self.merge.effect(client, effect, out);
    }

    /// Deletes a subscriber's subscription, unless somebody else receives from it.
    pub(super) fn unsubscribe(&mut self, subscription: &str, out: &mut impl Output) {
        let is_own = name::split_subscription(subscription).is_some_and(|(_, own)| own.starts_with(PREFIX));
        let id = self.names.get(&name::key(subscription)).filter(|_| is_own);
        let is_free = id.and_then(|id| self.stores.get(id)).is_some_and(|store| store.consumers == 0);
        if is_free {
            // It is there, so this cannot be refused.
            let _done = self.delete_entity(subscription, None, out);
        }
    }

    /// The subscription of that name of its own, of whichever topic. Looks at all names.
    fn find_subscription(&self, own: &str) -> Option<QueueId> {
        let mut names = self.names.iter();
        let is_it = |name: &str| name::split_subscription(name).is_some_and(|(_, found)| found == own);
        names.find(|(name, _)| name.ends_with(own) && is_it(name)).map(|(_, id)| *id)
    }

    /// How many subscriptions of a topic are subscribers'.
    fn subscribers_of(&self, topic: &str) -> u64 {
        let from = format!("{}{PREFIX}", name::subscriptions_key(topic)).into_boxed_str();
        let names = self.names.range(from.clone()..);
        names.take_while(|(name, _)| name.starts_with(&*from)).count() as u64
    }

    /// The filter of a subscriber's only rule.
    fn filter_of(&self, subscription: QueueId) -> Option<&Filter> {
        let topic = self.main_of(subscription)?.definition.topic?;
        let key = self.rules.find(subscription, &Rule::default_rule().name)?;
        self.rules.filter(topic, key)
    }
}

/// Tells whoever lists subscriptions whose this is.
fn note(container: &str, name: &str) -> Box<str> {
    let text = format!("subscriber {name} of {container}").replace(char::is_control, " ");
    text.chars().take(NOTE_CHARS).collect::<String>().into()
}
