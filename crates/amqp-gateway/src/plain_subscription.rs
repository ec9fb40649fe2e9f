//! Plain subscriptions: the subscription that a plain receiver of a topic owns, and its end (decision 17).
//!
//! Invariant: a subscription that is not durable is given up with its link. One that is durable is given up only by a
//! peer that closes the link for good.

use amqp_codec::{
    performative::{Attach, Source},
    raw::{RawMap, RawValue},
    types::{Descriptor, SenderSettleMode, Symbol, write_map},
};
use amqp_engine::{AttachReply, LinkKey};
use broker_auth::{Right, Scope};
use broker_core::{Command, EntityPath, LinkId, QueueInfo, ReceiveMode, SubQueue, Subscriber};
use broker_filter::Filter;
use bytes::BytesMut;

use crate::{
    address,
    attach::UNBOUNDED,
    condition::Refusal,
    gateway::Gateway,
    link::{Consumer, LinkRole},
    selector::{self, SelectorError},
    settlement_rules::Dialect,
};

const SELECTOR: &str = "apache.org:selector-filter:string";
const SELECTOR_CODE: u64 = 0x0000_468c_0000_0004;
const SHARED: &str = "shared";
const GLOBAL: &str = "global";
const NEVER: &str = "never";
/// Durability of the terminus with its unsettled state.
const UNSETTLED_STATE: u32 = 2;

/// Relation of a link to the subscription that it owns.
#[derive(Debug)]
pub(crate) struct PlainSubscription {
    /// The filter that is in force, as the peer wrote it.
    filter: Option<RawMap>,
    /// The subscription, once the core has said that it is one.
    name: Option<Box<str>>,
}

/// A link on which a peer looks a subscription up.
#[derive(Debug)]
pub(crate) struct SubscriptionLookup {
    attach: Option<Box<Attach>>,
    subscription: Option<Box<str>>,
}

impl PlainSubscription {
    /// Subscription that ends when the peer closes the link for good. A temporary subscription ends with its links anyway.
    pub(crate) fn ends(&self, closed: bool) -> Option<Box<str>> {
        self.name.clone().filter(|_| closed)
    }
}

impl SubscriptionLookup {
    /// Subscription that ends when the peer closes the link.
    pub(crate) fn ends(&self, closed: bool) -> Option<Box<str>> {
        self.subscription.clone().filter(|_| closed)
    }
}

impl Gateway {
    /// Identity of a receiver whose address may be a topic's, and its filter. Clients of Service Bus name subscriptions
    /// instead.
    pub(crate) fn subscriber(
        &mut self,
        attach: &Attach,
        dialect: Dialect,
        path: &EntityPath,
    ) -> Result<Option<(Subscriber, PlainSubscription)>, Refusal> {
        let Some(source) = attach.source.as_ref().filter(|_| dialect == Dialect::Plain) else {
            return Ok(None);
        };
        let (filter, in_force) = selected(source)?;
        let is_durable =
            source.durable > 0 || source.expiry_policy.as_ref().is_some_and(|policy| policy == NEVER);
        let shared = has(&source.capabilities, SHARED);
        let (mut container, name) = self.identity(attach, &source.capabilities);
        if !is_durable {
            container = if shared {
                format!("{container} volatile").into()
            } else {
                // Another link of this name, now or later, is another subscriber.
                format!("{container} {:032x}", self.tracking.next_id()).into()
            };
        }
        let mode = match attach.snd_settle_mode {
            Some(SenderSettleMode::Settled) => ReceiveMode::ReceiveAndDelete,
            _ => ReceiveMode::PeekLock,
        };
        let temporary = !is_durable;
        let owner = self.owner(path);
        let subscriber = Subscriber { container, name, owner, filter, mode, shared, temporary };
        Ok(Some((subscriber, PlainSubscription { filter: in_force, name: None })))
    }

    /// Owner of this client's subscriptions: its authentication class and name.
    fn owner(&self, path: &EntityPath) -> Box<str> {
        let scope = Scope::of(&address::resource(path, false));
        format!("{} {}", self.authentication(), self.grants.who(&scope, Right::Listen)).into()
    }

    /// By which a subscriber is known again. Several receivers of a shared subscription add `|` and more to its name.
    fn identity(&self, attach: &Attach, capabilities: &[Symbol]) -> (Box<str>, Box<str>) {
        let name = attach.name.as_str();
        if !has(capabilities, SHARED) {
            return (self.container.clone(), name.into());
        }
        let name = name.rsplit_once('|').map_or(name, |(name, _)| name);
        let container = if has(capabilities, GLOBAL) { "".into() } else { self.container.clone() };
        (container, name.into())
    }

    /// A receiver without source asks whether there is a subscription of its name.
    pub(crate) fn attach_lookup(&mut self, key: LinkKey, attach: Box<Attach>) -> Result<(), Refusal> {
        let (container, name) = self.identity(&attach, &attach.desired_capabilities);
        let link_name = attach.name.as_str().into();
        let lookup = SubscriptionLookup { attach: Some(attach), subscription: None };
        let role = LinkRole::SubscriptionLookup(Box::new(lookup));
        let link = self.add_link(key, link_name, Dialect::Plain, None, role)?;
        self.commands.push(Command::FindSubscriber { link, container, name });
        Ok(())
    }

    /// The core has found it.
    pub(crate) fn on_subscriber_found(&mut self, id: LinkId, subscription: Box<str>, topic: &str) {
        let path = EntityPath { entity: topic.into(), sub_queue: SubQueue::Main };
        if let Err(refusal) = self.claim(&path, false, Right::Listen) {
            let Some(link) = self.remove_link(id) else { return };
            let error = self.error(&refusal, topic);
            return self.engine.refuse_link(link.key, error);
        }
        let Some(link) = self.links.get_mut(id.0) else { return };
        let LinkRole::SubscriptionLookup(lookup) = &mut link.role else { return };
        let Some(attach) = lookup.attach.take() else { return };
        lookup.subscription = Some(subscription);
        let source = Source {
            durable: UNSETTLED_STATE,
            expiry_policy: Some(Symbol::from(NEVER)),
            ..Source::new(topic)
        };
        let reply = AttachReply {
            source: Some(source),
            target: attach.target,
            max_message_size: Some(UNBOUNDED),
            ..AttachReply::default()
        };
        let key = link.key;
        self.engine.accept_link(key, reply);
    }
}

impl Consumer {
    /// The core has opened the link on `queue`; says the filter that is in force there.
    pub(crate) fn opened_on(&mut self, queue: &QueueInfo) -> Option<RawMap> {
        let in_force = self.plain_subscription.as_mut()?.filter.take();
        let is_topic =
            self.path.sub_queue == SubQueue::Main && !self.path.entity.eq_ignore_ascii_case(&queue.name);
        // Only a subscription is given up with its link.
        self.plain_subscription = self.plain_subscription.take().filter(|_| is_topic);
        self.plain_subscription.iter_mut().for_each(|own| own.name = Some(queue.name.clone()));
        in_force
    }
}

fn has(capabilities: &[Symbol], wanted: &str) -> bool {
    capabilities.iter().any(|capability| capability == wanted)
}

/// The messages that a source selects, and its filters that say so. Others are not in force.
fn selected(source: &Source) -> Result<(Filter, Option<RawMap>), Refusal> {
    let mut filters = source.filter.iter().flat_map(RawMap::iter);
    let Some((key, value)) = filters.find(|(key, value)| is_selector(*key, *value)) else {
        return Ok((Filter::True, None));
    };
    let text = value.undescribed().as_str().ok_or(Refusal::Selector(SelectorError::NotText))?;
    let filter = selector::filter(text).map_err(Refusal::Selector)?;
    let mut in_force = BytesMut::new();
    write_map(&mut in_force, 2, |out| {
        out.extend_from_slice(key.bytes());
        out.extend_from_slice(value.bytes());
    });
    Ok((filter, RawMap::new(in_force.freeze()).ok()))
}

/// Clients differ in the key, and in whether the descriptor is a symbol or a number.
fn is_selector(key: RawValue<'_>, value: RawValue<'_>) -> bool {
    match value.described() {
        Some((Descriptor::Code(code), _)) => code == SELECTOR_CODE,
        Some((Descriptor::Name(name), _)) => name == SELECTOR,
        None => key.as_str() == Some(SELECTOR),
    }
}
