//! Our codec against that of `fe2o3-amqp-types`, both ways: it must read what we write, and we
//! must read what it writes, to the same meaning.

#![expect(clippy::disallowed_methods, reason = "`serde_amqp` is the oracle here")]

use fe2o3_amqp_types::definitions::{self as theirs, ErrorCondition, Fields, Handle};
use fe2o3_amqp_types::messaging as m;
use fe2o3_amqp_types::performatives as p;
use fe2o3_amqp_types::transaction as t;
use proptest::prelude::*;
use serde_amqp::primitives::{Array, OrderedMap, Symbol as TheirSymbol};
use serde_amqp::serde::{Serialize, de::DeserializeOwned};

use super::*;
use crate::value::Value;

fn symbol(word: &Symbol) -> TheirSymbol {
    TheirSymbol::from(word.as_str())
}

fn array(words: &[Symbol]) -> Option<Array<TheirSymbol>> {
    (!words.is_empty()).then(|| Array(words.iter().map(symbol).collect()))
}

fn fields(map: &RawMap) -> Fields {
    let mut fields = OrderedMap::new();
    for (key, value) in map {
        let key = TheirSymbol::from(key.as_symbol().unwrap());
        fields.insert(key, Value::Long(value.as_i64().unwrap()));
    }
    fields
}

fn error(error: &Error) -> theirs::Error {
    theirs::Error {
        condition: ErrorCondition::Custom(symbol(&error.condition)),
        description: error.description.clone(),
        info: error.info.as_ref().map(|map| Box::new(fields(map))),
    }
}

fn outcome(state: &DeliveryState) -> m::Outcome {
    match state {
        DeliveryState::Accepted => m::Outcome::Accepted(m::Accepted {}),
        DeliveryState::Released => m::Outcome::Released(m::Released {}),
        DeliveryState::Rejected(reason) => {
            m::Outcome::Rejected(m::Rejected { error: reason.as_deref().map(error) })
        }
        DeliveryState::Modified(it) => m::Outcome::Modified(m::Modified {
            delivery_failed: it.delivery_failed,
            undeliverable_here: it.undeliverable_here,
            message_annotations: it.message_annotations.as_ref().map(fields),
        }),
        other => panic!("not an outcome: {other:?}"),
    }
}

fn state(state: &DeliveryState) -> m::DeliveryState {
    match state {
        DeliveryState::Received { section_number, section_offset } => {
            m::DeliveryState::Received(m::Received {
                section_number: *section_number,
                section_offset: *section_offset,
            })
        }
        DeliveryState::Declared { txn_id } => {
            m::DeliveryState::Declared(t::Declared { txn_id: txn_id.to_vec().into() })
        }
        DeliveryState::Transactional { txn_id, outcome: then } => {
            m::DeliveryState::TransactionalState(t::TransactionalState {
                txn_id: txn_id.to_vec().into(),
                outcome: then.as_deref().map(outcome),
            })
        }
        it => outcome(it).into(),
    }
}

fn settle_first(mode: ReceiverSettleMode) -> theirs::ReceiverSettleMode {
    match mode {
        ReceiverSettleMode::First => theirs::ReceiverSettleMode::First,
        ReceiverSettleMode::Second => theirs::ReceiverSettleMode::Second,
    }
}

fn role(role: Role) -> theirs::Role {
    match role {
        Role::Sender => theirs::Role::Sender,
        Role::Receiver => theirs::Role::Receiver,
    }
}

fn transfer(it: &Transfer) -> p::Transfer {
    p::Transfer {
        handle: Handle(it.handle),
        delivery_id: it.delivery_id,
        delivery_tag: it.delivery_tag.map(|tag| tag.to_vec().into()),
        message_format: it.message_format,
        settled: it.settled,
        more: it.more,
        rcv_settle_mode: it.rcv_settle_mode.map(settle_first),
        state: it.state.as_ref().map(state),
        resume: it.resume,
        aborted: it.aborted,
        batchable: it.batchable,
    }
}

fn disposition(it: &Disposition) -> p::Disposition {
    p::Disposition {
        role: role(it.role),
        first: it.first,
        last: it.last,
        settled: it.settled,
        state: it.state.as_ref().map(state),
        batchable: it.batchable,
    }
}

fn flow(it: &Flow) -> p::Flow {
    p::Flow {
        next_incoming_id: it.next_incoming_id,
        incoming_window: it.incoming_window,
        next_outgoing_id: it.next_outgoing_id,
        outgoing_window: it.outgoing_window,
        handle: it.handle.map(Handle),
        delivery_count: it.delivery_count,
        link_credit: it.link_credit,
        available: it.available,
        drain: it.drain,
        echo: it.echo,
        properties: it.properties.as_ref().map(fields),
    }
}

fn open(it: &Open) -> p::Open {
    p::Open {
        container_id: it.container_id.clone(),
        hostname: it.hostname.clone(),
        max_frame_size: it.max_frame_size.into(),
        channel_max: it.channel_max.into(),
        idle_time_out: it.idle_time_out,
        outgoing_locales: array(&it.outgoing_locales),
        incoming_locales: array(&it.incoming_locales),
        offered_capabilities: array(&it.offered_capabilities),
        desired_capabilities: array(&it.desired_capabilities),
        properties: it.properties.as_ref().map(fields),
    }
}

fn begin(it: &Begin) -> p::Begin {
    p::Begin {
        remote_channel: it.remote_channel,
        next_outgoing_id: it.next_outgoing_id,
        incoming_window: it.incoming_window,
        outgoing_window: it.outgoing_window,
        handle_max: Handle(it.handle_max),
        offered_capabilities: array(&it.offered_capabilities),
        desired_capabilities: array(&it.desired_capabilities),
        properties: it.properties.as_ref().map(fields),
    }
}

fn durability(durable: u32) -> m::TerminusDurability {
    match durable {
        0 => m::TerminusDurability::None,
        1 => m::TerminusDurability::Configuration,
        _ => m::TerminusDurability::UnsettledState,
    }
}

fn expiry_policy(policy: Option<&Symbol>) -> m::TerminusExpiryPolicy {
    policy.map_or_else(m::TerminusExpiryPolicy::default, |it| it.as_str().try_into().unwrap())
}

fn address(address: Option<&Address>) -> Option<String> {
    address.and_then(Address::as_str).map(str::to_owned)
}

fn source(it: &Source) -> m::Source {
    m::Source {
        address: address(it.address.as_ref()),
        durable: durability(it.durable),
        expiry_policy: expiry_policy(it.expiry_policy.as_ref()),
        timeout: it.timeout,
        dynamic: it.dynamic,
        dynamic_node_properties: it.dynamic_node_properties.as_ref().map(fields),
        distribution_mode: it.distribution_mode.as_ref().map(|it| it.as_str().try_into().unwrap()),
        filter: it.filter.as_ref().map(fields),
        default_outcome: it.default_outcome.as_ref().map(outcome),
        outcomes: array(&it.outcomes),
        capabilities: array(&it.capabilities),
    }
}

fn target(it: &Target) -> m::TargetArchetype {
    match it {
        Target::Terminus(it) => m::TargetArchetype::Target(m::Target {
            address: address(it.address.as_ref()),
            durable: durability(it.durable),
            expiry_policy: expiry_policy(it.expiry_policy.as_ref()),
            timeout: it.timeout,
            dynamic: it.dynamic,
            dynamic_node_properties: it.dynamic_node_properties.as_ref().map(fields),
            capabilities: array(&it.capabilities),
        }),
        Target::Coordinator { capabilities } => {
            let words = capabilities.iter().map(|it| it.as_str().try_into().unwrap());
            m::TargetArchetype::Coordinator(t::Coordinator {
                capabilities: (!capabilities.is_empty()).then(|| Array(words.collect())),
            })
        }
    }
}

fn attach(it: &Attach) -> p::Attach {
    p::Attach {
        name: it.name.clone(),
        handle: Handle(it.handle),
        role: role(it.role),
        snd_settle_mode: match it.snd_settle_mode.unwrap_or_default() {
            SenderSettleMode::Unsettled => theirs::SenderSettleMode::Unsettled,
            SenderSettleMode::Settled => theirs::SenderSettleMode::Settled,
            SenderSettleMode::Mixed => theirs::SenderSettleMode::Mixed,
        },
        rcv_settle_mode: settle_first(it.rcv_settle_mode.unwrap_or_default()),
        source: it.source.as_ref().map(|it| Box::new(source(it))),
        target: it.target.as_ref().map(|it| Box::new(target(it))),
        unsettled: None,
        incomplete_unsettled: it.incomplete_unsettled,
        initial_delivery_count: it.initial_delivery_count,
        max_message_size: it.max_message_size,
        offered_capabilities: array(&it.offered_capabilities),
        desired_capabilities: array(&it.desired_capabilities),
        properties: it.properties.as_ref().map(fields),
    }
}

/// Checks both ways: `ours` in bytes reads as `theirs`, and `theirs` in bytes reads as what means
/// the same to them as `ours`.
fn agree<T>(
    ours: &Performative,
    expected: &T,
    theirs: impl Fn(&Performative) -> T,
) -> Result<(), TestCaseError>
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let read: T = serde_amqp::from_slice(&body(ours)).unwrap();
    prop_assert_eq!(&read, expected);
    let bytes = serde_amqp::to_vec(expected).unwrap();
    let (read, rest) = decode(&bytes.into()).unwrap();
    prop_assert!(rest.is_empty());
    prop_assert_eq!(&theirs(&read), expected);
    Ok(())
}

macro_rules! agrees {
    ($test:ident, $variant:ident, $wrap:expr, $strategy:expr, $theirs:expr) => {
        proptest! {
            #[test]
            fn $test(it in $strategy) {
                let expected = $theirs(&it);
                agree(&Performative::$variant($wrap(it)), &expected, |read| match read {
                    Performative::$variant(it) => $theirs(it),
                    other => panic!("another performative: {other:?}"),
                })?;
            }
        }
    };
}

agrees!(the_oracle_agrees_on_transfers, Transfer, std::convert::identity, any::transfer(), transfer);
agrees!(
    the_oracle_agrees_on_dispositions,
    Disposition,
    std::convert::identity,
    any::disposition(),
    disposition
);
agrees!(the_oracle_agrees_on_flows, Flow, std::convert::identity, any::flow(), flow);
agrees!(the_oracle_agrees_on_opens, Open, Box::new, any::open(), open);
agrees!(the_oracle_agrees_on_begins, Begin, Box::new, any::begin(), begin);
agrees!(the_oracle_agrees_on_attaches, Attach, Box::new, any::attach(), attach);
agrees!(the_oracle_agrees_on_detaches, Detach, Box::new, any::detach(), |it: &Detach| p::Detach {
    handle: Handle(it.handle),
    closed: it.closed,
    error: it.error.as_ref().map(error),
});
