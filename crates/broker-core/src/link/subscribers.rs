//! Subscriptions of receivers that attach to a topic itself, as plain AMQP clients do: each gets its own (decision 17).
//!
//! Invariant: a subscriber's name decides which subscription it has, in all topics together: there is one at most. A
//! refused subscriber has changed nothing, but for a subscription of its own that it wanted otherwise.

use std::time::Duration;

use broker_filter::Filter;
use sha2::{Digest as _, Sha256};

use super::{
    attachments::{Attachments, ConsumerOptions},
    client::{Link, SubscriptionRole},
};
use crate::{
    AttachError, ClientId, Effect, EntityError, EntityPath, EntitySettings, LinkId, Output, QueueId, Rule,
    SubQueue, Subscriber,
    admin::{dynamic::DynamicNodeAdmin, entities::EntityAdmin, removal::EntityRemoval},
    call::Cx,
    entity::name,
    namespace::Namespace,
};

/// A temporary subscription that lost its link with the process is deleted after this time without use.
const LOST: Duration = Duration::from_secs(5 * 60);
/// Most characters of the owner's note.
const NOTE_CHARS: usize = 1_024;

/// The own name of a subscriber's subscription: letters and digits, because names of clients may have any characters.
fn own_name(container: &str, name: &str) -> String {
    // No text has such a byte.
    let digest = Sha256::digest([container.as_bytes(), &[0xff], name.as_bytes()].concat());
    let (half, _) = digest.split_first_chunk::<16>().expect("the digest has 32 bytes");
    format!("{}{:032x}", name::OWN_PREFIX, u128::from_be_bytes(*half))
}

/// Gives subscribers of topics their subscriptions.
#[derive(Debug)]
pub(crate) struct Subscribers<'a> {
    pub(crate) state: &'a mut Namespace,
}

impl<'a> Subscribers<'a> {
    pub(crate) fn of(state: &'a mut Namespace) -> Self {
        Self { state }
    }
}

impl Subscribers<'_> {
    /// Opens a consumer; where the path names a topic, on the subscriber's subscription, which is made if need be, and
    /// elsewhere on the messages that it wants.
    pub(crate) fn open_subscriber(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        link: LinkId,
        path: EntityPath,
        options: ConsumerOptions,
        subscriber: Subscriber,
        auto_create: bool,
    ) {
        let (mut path, mut options) = (path, options);
        if path.sub_queue == SubQueue::Main && self.state.messages.entities.is_topic(&path.entity) {
            // It must not stand in its own way.
            Attachments::of(self.state).close_link(cx, cx.client, link);
            options.mode = subscriber.mode;
            options.subscription_role = match (subscriber.temporary, subscriber.shared) {
                (true, _) => SubscriptionRole::Temporary,
                (false, true) => SubscriptionRole::Shared,
                (false, false) => SubscriptionRole::Owner(subscriber.owner.clone()),
            };
            match self.own_subscription(cx, &path, subscriber) {
                Ok(name) => path.entity = name,
                Err(error) => {
                    return cx.reply(Effect::AttachRefused { link, error });
                }
            }
        } else {
            options.filter = subscriber.filter;
        }
        let temporary = matches!(options.subscription_role, SubscriptionRole::Temporary);
        Attachments::of(self.state).open_consumer(cx, link, &path, options, auto_create);
        if temporary
            && let Some(id) = self.state.messages.entities.names.get(&name::key(&path.entity)).copied()
        {
            // It may have been refused.
            EntityRemoval::of(self.state).leave_temporary(cx, id);
        }
    }

    /// The name of the subscriber's subscription, unless the topic is a dynamic node of another client.
    fn own_subscription(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        topic: &EntityPath,
        subscriber: Subscriber,
    ) -> Result<Box<str>, AttachError> {
        if let Some(queue) = self.state.resolve(topic) {
            DynamicNodeAdmin::of(self.state).check_receiver(cx.client, queue)?;
        }
        self.subscription_for(cx, &topic.entity, subscriber)
    }

    /// The name of the subscriber's subscription, as it wants it.
    fn subscription_for(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        topic: &str,
        subscriber: Subscriber,
    ) -> Result<Box<str>, AttachError> {
        let own = own_name(&subscriber.container, &subscriber.name);
        let wanted = name::subscription(topic, &own);
        if let Some(id) = self.state.messages.entities.find_subscription(&own) {
            let is_used = self.state.store(id).is_some_and(|store| store.links.consumers > 0);
            let found = self.state.main_of(id).map(|entity| entity.definition.name.clone());
            let is_same = found.as_ref().is_some_and(|name| name::key(name) == name::key(&wanted))
                && self.filter_of(id) == Some(&subscriber.filter);
            let alone = self.alone_on(id);
            let shares = subscriber.shared && alone.is_none();
            let stolen = alone.filter(|(owner, ..)| {
                *owner == &*subscriber.owner && !subscriber.shared && !subscriber.temporary
            });
            match stolen {
                Some((_, client, link)) if is_same => self.steal(cx, client, link),
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
                // Nothing is deleted for which there is no successor.
                cx.out.check_memory().map_err(|error| AttachError::Subscription(error.into()))?;
                EntityRemoval::of(self.state)
                    .delete_entity(cx, &name, None)
                    .map_err(AttachError::Subscription)?;
            }
        }
        let limit = self.state.messages.config.max_subscribers_per_topic;
        if self.state.messages.entities.subscribers_of(topic) >= limit {
            return Err(AttachError::LimitReached { what: "subscribers per topic", limit });
        }
        let settings = EntitySettings {
            dead_letter_on_filter_error: false,
            auto_delete_on_idle: subscriber.temporary.then_some(LOST),
            user_metadata: Some(note(&subscriber.container, &subscriber.name)),
            ..EntitySettings::default()
        };
        let rule = Rule { filter: subscriber.filter, ..Rule::default_rule() };
        EntityAdmin::of(&mut self.state.messages)
            .create_subscription(cx, &wanted, settings, vec![rule])
            .map_err(|error| match error {
                EntityError::LimitReached { what, limit } => AttachError::LimitReached { what, limit },
                other => AttachError::Subscription(other),
            })?;
        Ok(wanted)
    }

    /// Identity and link of the receiving durable subscriber of a subscription that is not shared.
    fn alone_on(&self, subscription: QueueId) -> Option<(&str, ClientId, LinkId)> {
        let links = &self.state.store(subscription)?.links.attached;
        links.iter().find_map(|(client, link)| {
            let Link::Consumer { number } = self.state.links.clients.get(client)?.links.get(link)? else {
                return None;
            };
            let SubscriptionRole::Owner(owner) = &self.state.links.consumers.get(number)?.subscription_role
            else {
                return None;
            };
            Some((&**owner, *client, *link))
        })
    }

    /// Takes the place of an older link of the same subscriber: a link is known by its name and the containers at its
    /// ends, and attached anew it is stolen (transport 2.6.1).
    fn steal(&mut self, cx: &mut Cx<'_, impl Output>, client: ClientId, link: LinkId) {
        Attachments::of(self.state).close_link(cx, client, link);
        cx.tell(client, Effect::LinkStolen { link });
    }

    /// Finds a subscriber's subscription for a link that peeks at it or unsubscribes.
    pub(crate) fn find_subscriber(
        &mut self,
        cx: &mut Cx<'_, impl Output>,
        link: LinkId,
        container: &str,
        name: &str,
    ) {
        let found = self.state.messages.entities.find_subscription(&own_name(container, name));
        let names = found.and_then(|id| {
            let definition = &self.state.main_of(id)?.definition;
            let topic = self.state.main_of(definition.topic?)?;
            Some((definition.name.clone(), topic.definition.name.clone()))
        });
        let effect = match names {
            Some((subscription, topic)) => Effect::SubscriberFound { link, subscription, topic },
            None => Effect::AttachRefused { link, error: AttachError::NotFound(name.into()) },
        };
        cx.reply(effect);
    }

    /// The filter of a subscriber's only rule.
    fn filter_of(&self, subscription: QueueId) -> Option<&Filter> {
        let topic = self.state.main_of(subscription)?.definition.topic?;
        let key = self.state.messages.rules.find(subscription, &Rule::default_rule().name)?;
        self.state.messages.rules.filter(topic, key)
    }
}

/// `UserMetadata` of a subscription, which names its subscriber in lists.
fn note(container: &str, name: &str) -> Box<str> {
    let text = format!("subscriber {name} of {container}").replace(char::is_control, " ");
    text.chars().take(NOTE_CHARS).collect::<String>().into()
}
