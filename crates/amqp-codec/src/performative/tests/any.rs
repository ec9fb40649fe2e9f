//! Performatives of every shape, for the properties. The strategies are boxed: nested by value they
//! overflow the stack of a test thread.

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;

use super::*;

pub(super) fn symbol() -> impl Strategy<Value = Symbol> {
    "[a-z]{2,9}:[a-z-]{2,20}".prop_map(|word| Symbol::new(word).unwrap())
}

pub(super) fn symbols() -> impl Strategy<Value = Vec<Symbol>> {
    vec(symbol(), 0..4)
}

pub(super) fn map() -> BoxedStrategy<RawMap> {
    btree_map("[a-z-]{1,12}", any::<i64>(), 0..5)
        .prop_map(|entries| {
            let pairs: Vec<_> =
                entries.iter().map(|(key, value)| (key.as_str(), AnnotationValue::Long(*value))).collect();
            RawMap::with_symbol_keys(&pairs)
        })
        .boxed()
}

pub(super) fn error() -> BoxedStrategy<Error> {
    (symbol(), of(".{0,40}"), of(map()))
        .prop_map(|(condition, description, info)| Error { condition, description, info })
        .boxed()
}

fn tag() -> impl Strategy<Value = DeliveryTag> {
    vec(any::<u8>(), 0..=32).prop_map(|bytes| DeliveryTag::try_from(&bytes[..]).unwrap())
}

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..300).prop_map(Bytes::from)
}

pub(super) fn outcome() -> BoxedStrategy<DeliveryState> {
    prop_oneof![
        Just(DeliveryState::Accepted),
        Just(DeliveryState::Released),
        of(error()).prop_map(|error| DeliveryState::Rejected(error.map(Box::new))),
        (any::<Option<bool>>(), any::<Option<bool>>(), of(map())).prop_map(
            |(delivery_failed, undeliverable_here, message_annotations)| {
                DeliveryState::Modified(Box::new(Modified {
                    delivery_failed,
                    undeliverable_here,
                    message_annotations,
                }))
            }
        ),
    ]
    .boxed()
}

pub(super) fn state() -> BoxedStrategy<DeliveryState> {
    prop_oneof![
        4 => outcome(),
        1 => (any::<u32>(), any::<u64>()).prop_map(|(section_number, section_offset)| {
            DeliveryState::Received { section_number, section_offset }
        }),
        1 => bytes().prop_map(|id| DeliveryState::Declared { txn_id: id.into() }),
        1 => (bytes(), of(outcome())).prop_map(|(id, outcome)| DeliveryState::Transactional {
            txn_id: id.into(),
            outcome: outcome.map(Box::new),
        }),
    ]
    .boxed()
}

fn mode<T: std::fmt::Debug + Clone>(modes: &'static [T]) -> impl Strategy<Value = Option<T>> {
    of(proptest::sample::select(modes))
}

pub(super) fn receiver_settle_mode() -> impl Strategy<Value = Option<ReceiverSettleMode>> {
    mode(&[ReceiverSettleMode::First, ReceiverSettleMode::Second])
}

fn sender_settle_mode() -> impl Strategy<Value = Option<SenderSettleMode>> {
    mode(&[SenderSettleMode::Unsettled, SenderSettleMode::Settled, SenderSettleMode::Mixed])
}

pub(super) fn role() -> impl Strategy<Value = Role> {
    any::<bool>().prop_map(Role::from)
}

pub(super) fn transfer() -> BoxedStrategy<Transfer> {
    let ids = (any::<u32>(), any::<Option<u32>>(), of(tag()), any::<Option<u32>>());
    let flags = (any::<Option<bool>>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (ids, flags, receiver_settle_mode(), of(state()))
        .prop_map(|((handle, delivery_id, delivery_tag, message_format), flags, rcv_settle_mode, state)| {
            let (settled, more, resume, aborted, batchable) = flags;
            Transfer {
                handle,
                delivery_id,
                delivery_tag,
                message_format,
                settled,
                more,
                rcv_settle_mode,
                state,
                resume,
                aborted,
                batchable,
            }
        })
        .boxed()
}

pub(super) fn disposition() -> BoxedStrategy<Disposition> {
    (role(), any::<u32>(), any::<Option<u32>>(), any::<bool>(), of(state()), any::<bool>())
        .prop_map(|(role, first, last, settled, state, batchable)| Disposition {
            role,
            first,
            last,
            settled,
            state,
            batchable,
        })
        .boxed()
}

pub(super) fn flow() -> BoxedStrategy<Flow> {
    let session = (any::<Option<u32>>(), any::<u32>(), any::<u32>(), any::<u32>());
    let link = any::<(Option<u32>, Option<u32>, Option<u32>, Option<u32>)>();
    (session, link, any::<bool>(), any::<bool>(), of(map()))
        .prop_map(|(session, link, drain, echo, properties)| {
            let (next_incoming_id, incoming_window, next_outgoing_id, outgoing_window) = session;
            let (handle, delivery_count, link_credit, available) = link;
            Flow {
                next_incoming_id,
                incoming_window,
                next_outgoing_id,
                outgoing_window,
                handle,
                delivery_count,
                link_credit,
                available,
                drain,
                echo,
                properties,
            }
        })
        .boxed()
}

pub(super) fn open() -> BoxedStrategy<Open> {
    let names = (".{0,300}", of(".{0,40}"), any::<u32>(), any::<u16>(), any::<Option<u32>>());
    (names, symbols(), symbols(), symbols(), symbols(), of(map()))
        .prop_map(|(names, outgoing_locales, incoming_locales, offered, desired, properties)| {
            let (container_id, hostname, max_frame_size, channel_max, idle_time_out) = names;
            Open {
                container_id,
                hostname,
                max_frame_size,
                channel_max,
                idle_time_out,
                outgoing_locales,
                incoming_locales,
                offered_capabilities: offered,
                desired_capabilities: desired,
                properties,
            }
        })
        .boxed()
}

pub(super) fn begin() -> BoxedStrategy<Begin> {
    let numbers = any::<(Option<u16>, u32, u32, u32, u32)>();
    (numbers, symbols(), symbols(), of(map()))
        .prop_map(|(numbers, offered, desired, properties)| {
            let (remote_channel, next_outgoing_id, incoming_window, outgoing_window, handle_max) = numbers;
            Begin {
                remote_channel,
                next_outgoing_id,
                incoming_window,
                outgoing_window,
                handle_max,
                offered_capabilities: offered,
                desired_capabilities: desired,
                properties,
            }
        })
        .boxed()
}

fn expiry_policy() -> impl Strategy<Value = Option<Symbol>> {
    mode(&["link-detach", "session-end", "connection-close", "never"]).prop_map(|word| word.map(Symbol::from))
}

fn address() -> impl Strategy<Value = Option<Address>> {
    of(".{0,300}".prop_map(Address::Text))
}

pub(super) fn source() -> BoxedStrategy<Source> {
    let terminus = (address(), 0_u32..3, expiry_policy(), any::<u32>(), any::<bool>(), of(map()));
    let mode = mode(&["move", "copy"]);
    (terminus, mode, of(map()), of(outcome()), symbols(), symbols())
        .prop_map(|(terminus, mode, filter, default_outcome, outcomes, capabilities)| {
            let (address, durable, expiry_policy, timeout, dynamic, dynamic_node_properties) = terminus;
            Source {
                address,
                durable,
                expiry_policy,
                timeout,
                dynamic,
                dynamic_node_properties,
                distribution_mode: mode.map(Symbol::from),
                filter,
                default_outcome,
                outcomes,
                capabilities,
                raw: None,
            }
        })
        .boxed()
}

pub(super) fn target() -> BoxedStrategy<Target> {
    let terminus = (address(), 0_u32..3, expiry_policy(), any::<u32>(), any::<bool>(), of(map()));
    prop_oneof![
        4 => (terminus, symbols()).prop_map(|(terminus, capabilities)| {
            let (address, durable, expiry_policy, timeout, dynamic, dynamic_node_properties) =
                terminus;
            Target::Terminus(TargetTerminus {
                address,
                durable,
                expiry_policy,
                timeout,
                dynamic,
                dynamic_node_properties,
                capabilities,
                raw: None,
            })
        }),
        1 => vec(
            proptest::sample::select(&["amqp:local-transactions", "amqp:multi-txns-per-ssn"][..]),
            0..3,
        )
        .prop_map(|words| Target::Coordinator {
            capabilities: words.into_iter().map(Symbol::from).collect(),
        }),
    ]
    .boxed()
}

pub(super) fn attach() -> BoxedStrategy<Attach> {
    let modes = (sender_settle_mode(), receiver_settle_mode());
    let termini = (of(source()), of(target()));
    let numbers = any::<(bool, Option<u32>, Option<u64>)>();
    ((".{0,300}", any::<u32>(), role()), modes, termini, numbers, (symbols(), symbols(), of(map())))
        .prop_map(|((name, handle, role), modes, (source, target), numbers, extensions)| {
            let (incomplete_unsettled, initial_delivery_count, max_message_size) = numbers;
            let (offered_capabilities, desired_capabilities, properties) = extensions;
            Attach {
                name,
                handle,
                role,
                snd_settle_mode: modes.0,
                rcv_settle_mode: modes.1,
                source,
                target,
                unsettled: None,
                incomplete_unsettled,
                initial_delivery_count,
                max_message_size,
                offered_capabilities,
                desired_capabilities,
                properties,
            }
        })
        .boxed()
}

pub(super) fn detach() -> BoxedStrategy<Detach> {
    (any::<u32>(), any::<bool>(), of(error()))
        .prop_map(|(handle, closed, error)| Detach { handle, closed, error })
        .boxed()
}

pub(super) fn performative() -> BoxedStrategy<Performative> {
    prop_oneof![
        open().prop_map(|it| Performative::Open(Box::new(it))),
        begin().prop_map(|it| Performative::Begin(Box::new(it))),
        attach().prop_map(|it| Performative::Attach(Box::new(it))),
        flow().prop_map(Performative::Flow),
        transfer().prop_map(Performative::Transfer),
        disposition().prop_map(Performative::Disposition),
        detach().prop_map(|it| Performative::Detach(Box::new(it))),
        of(error()).prop_map(|error| Performative::End(Box::new(End { error }))),
        of(error()).prop_map(|error| Performative::Close(Box::new(Close { error }))),
    ]
    .boxed()
}
