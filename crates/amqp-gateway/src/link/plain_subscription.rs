//! Plain subscriptions: the subscription that a plain receiver of a topic owns, and its end (decision 17).
//!
//! Invariant: a subscription that is not durable is given up with its link. One that is durable is given up only by a
//! peer that closes the link for good.

use amqp_codec::{
    performative::{Attach, Source},
    raw::{RawMap, RawValue},
    types::{Descriptor, SenderSettleMode, Symbol, write_map},
};
use amqp_engine::AttachReply;
use broker_auth::{Right, Scope};
use broker_core::{EntityPath, ReceiveMode, SubQueue, Subscriber, Work};
use broker_filter::Filter;
use bytes::BytesMut;

use super::{
    attach_request::UNBOUNDED,
    granted::{GLOBAL, SHARED},
    selector::{self, SelectorError},
};
use crate::{address, condition::Refusal, cx::Cx, dialect::Dialect, turn_work::TurnWork};

const SELECTOR: &str = "apache.org:selector-filter:string";
const SELECTOR_CODE: u64 = 0x0000_468c_0000_0004;
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
    /// Takes the filter that is in force, as the peer wrote it.
    pub(super) fn take_filter(&mut self) -> Option<RawMap> {
        self.filter.take()
    }

    /// The core has said that the subscription is one, and its name.
    pub(super) fn set_name(&mut self, name: &str) {
        self.name = Some(name.into());
    }

    /// Subscription that ends when the peer closes the link for good. A temporary subscription ends with its links anyway.
    pub(super) fn ends(&self, closed: bool) -> Option<Box<str>> {
        self.name.clone().filter(|_| closed)
    }
}

impl SubscriptionLookup {
    /// A link that the peer asks for.
    pub(super) const fn new(attach: Box<Attach>) -> Self {
        Self { attach: Some(attach), subscription: None }
    }

    /// The core has found the subscription: gives the answer to the attach.
    pub(super) fn on_found(&mut self, subscription: Box<str>, topic: &str) -> Option<AttachReply> {
        let attach = self.attach.take()?;
        self.subscription = Some(subscription);
        let source = Source {
            durable: UNSETTLED_STATE,
            expiry_policy: Some(Symbol::from(NEVER)),
            ..Source::new(topic)
        };
        Some(AttachReply {
            source: Some(source),
            target: attach.target,
            max_message_size: Some(UNBOUNDED),
            ..AttachReply::default()
        })
    }

    /// Subscription that ends when the peer closes the link.
    pub(super) fn ends(&self, closed: bool) -> Option<Box<str>> {
        self.subscription.clone().filter(|_| closed)
    }
}

/// Main store of a topic, which a found subscription is one of.
pub(super) fn topic_path(topic: &str) -> EntityPath {
    EntityPath { entity: topic.into(), sub_queue: SubQueue::Main }
}

/// Identity of a receiver whose address may be a topic's, and its filter. Clients of Service Bus name subscriptions
/// instead.
pub(super) fn subscriber(
    cx: &mut Cx,
    attach: &Attach,
    dialect: Dialect,
    path: &EntityPath,
) -> Result<Option<(Subscriber, PlainSubscription)>, Refusal> {
    let Some(source) = attach.source.as_ref().filter(|_| dialect == Dialect::Plain) else {
        return Ok(None);
    };
    let (filter, in_force) = selected(source, &mut cx.work)?;
    let is_durable =
        source.durable > 0 || source.expiry_policy.as_ref().is_some_and(|policy| policy == NEVER);
    let shared = has(&source.capabilities, SHARED);
    let (mut container, name) = identity(cx, attach, &source.capabilities);
    if !is_durable {
        container = if shared {
            format!("{container} volatile").into()
        } else {
            // Another link of this name, now or later, is another subscriber.
            format!("{container} {:032x}", cx.tracking.next_id()).into()
        };
    }
    let mode = match attach.snd_settle_mode {
        Some(SenderSettleMode::Settled) => ReceiveMode::ReceiveAndDelete,
        _ => ReceiveMode::PeekLock,
    };
    let temporary = !is_durable;
    let owner = owner(cx, path);
    let subscriber = Subscriber { container, name, owner, filter, mode, shared, temporary };
    Ok(Some((subscriber, PlainSubscription { filter: in_force, name: None })))
}

/// Owner of this client's subscriptions: its authentication class and name.
fn owner(cx: &Cx, path: &EntityPath) -> Box<str> {
    let scope = Scope::of_name(&address::resource(path, false));
    format!("{} {}", cx.client.authentication(), cx.client.grants().who(&scope, Right::Listen)).into()
}

/// Container and name that identify a subscriber. Several receivers of a shared subscription add `|` and more to its name.
pub(super) fn identity(cx: &Cx, attach: &Attach, capabilities: &[Symbol]) -> (Box<str>, Box<str>) {
    let name = attach.name.as_str();
    if !has(capabilities, SHARED) {
        return (cx.client.container().into(), name.into());
    }
    let name = name.rsplit_once('|').map_or(name, |(name, _)| name);
    let container = if has(capabilities, GLOBAL) { "" } else { cx.client.container() };
    (container.into(), name.into())
}

fn has(capabilities: &[Symbol], wanted: &str) -> bool {
    capabilities.iter().any(|capability| capability == wanted)
}

/// The messages that a source selects, and its filters that say so. Others are not in force.
fn selected(source: &Source, work: &mut TurnWork) -> Result<(Filter, Option<RawMap>), Refusal> {
    let mut filters = source.filter.iter().flat_map(RawMap::iter);
    let Some((key, value)) = filters.find(|(key, value)| is_selector(*key, *value)) else {
        return Ok((Filter::True, None));
    };
    let text = value.undescribed().as_str().ok_or(Refusal::Selector(SelectorError::NotText))?;
    work.charge(Work::of_sql(text.len()));
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
