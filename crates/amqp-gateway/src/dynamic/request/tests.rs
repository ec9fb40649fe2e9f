use amqp_codec::types::write_str;
use broker_core::EntityKind;

use super::*;

const LIFETIME: &str = "lifetime-policy";

/// A map of properties with one value, as its bytes.
fn properties(key: &'static str, value: &[u8]) -> RawMap {
    let mut out = BytesMut::new();
    write_map(&mut out, 2, |out| {
        write_symbol(out, &Symbol::from_static(key));
        out.extend_from_slice(value);
    });
    RawMap::new(out.freeze()).unwrap()
}

/// A policy under its name, as some clients write it.
fn named(policy: &str) -> Vec<u8> {
    let length = u8::try_from(policy.len()).unwrap();
    [&[0x00, 0xa3, length], policy.as_bytes(), &[0x45]].concat()
}

/// An attach of either direction that asks for a dynamic node.
fn attach(
    role: Role,
    address: Option<&str>,
    dynamic_node_properties: Option<RawMap>,
    capabilities: &[&'static str],
) -> Attach {
    let (address, dynamic) = (address.map(Address::from), true);
    let capabilities = capabilities.iter().map(|name| Symbol::from_static(name)).collect();
    let mut attach = Attach::new("link", 0, role);
    match role {
        Role::Receiver => {
            let source =
                Source { address, dynamic, dynamic_node_properties, capabilities, ..Source::default() };
            attach.source = Some(source);
            attach.target = Some(Target::new("mine"));
        }
        Role::Sender => {
            let target = TargetTerminus {
                address,
                dynamic,
                dynamic_node_properties,
                capabilities,
                ..TargetTerminus::default()
            };
            attach.target = Some(Target::Terminus(target));
            attach.source = Some(Source::new("mine"));
        }
    }
    attach
}

/// Properties and capabilities that are asked for; the policy and the capabilities that are granted.
type Answered<'a> = (Option<RawMap>, &'a [&'static str], &'a [u8], &'a [&'a str]);

const ROLES: [Role; 2] = [Role::Sender, Role::Receiver];

#[test]
fn the_lifetime_policy_is_read_by_code_and_by_name() {
    use LifetimePolicy::{OnClose, OnNoLinks, OnNoLinksOrMessages, OnNoMessages};
    let mut text = BytesMut::new();
    write_str(&mut text, "delete-on-close");
    let table: Vec<(Option<RawMap>, Option<LifetimePolicy>)> = vec![
        (None, Some(OnClose)),
        (Some(RawMap::empty()), Some(OnClose)),
        (Some(properties("x-opt-other", &[0x41])), Some(OnClose)),
        (Some(properties(LIFETIME, &[0x40])), Some(OnClose)),
        (Some(properties(LIFETIME, &[0x00, 0x53, 0x2b, 0x45])), Some(OnClose)),
        (Some(properties(LIFETIME, &[0x00, 0x53, 0x2c, 0x45])), Some(OnNoLinks)),
        (Some(properties(LIFETIME, &[0x00, 0x53, 0x2d, 0xc0, 1, 0])), Some(OnNoMessages)),
        (
            Some(properties(LIFETIME, &[0x00, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x2e, 0x45])),
            Some(OnNoLinksOrMessages),
        ),
        (Some(properties(LIFETIME, &named("amqp:delete-on-close:list"))), Some(OnClose)),
        (Some(properties(LIFETIME, &named("amqp:delete-on-no-links:list"))), Some(OnNoLinks)),
        (Some(properties(LIFETIME, &named("amqp:delete-on-no-messages:list"))), Some(OnNoMessages)),
        (
            Some(properties(LIFETIME, &named("amqp:delete-on-no-links-or-messages:list"))),
            Some(OnNoLinksOrMessages),
        ),
        (Some(properties(LIFETIME, &[0x00, 0x53, 0x2f, 0x45])), None),
        (Some(properties(LIFETIME, &named("amqp:delete-never:list"))), None),
        (Some(properties(LIFETIME, &text)), None),
        (Some(properties(LIFETIME, &[0x45])), None),
    ];
    for (asked, lifetime) in table {
        for role in ROLES {
            let read = DynamicRequest::of(&attach(role, None, asked.clone(), &[])).map(|it| it.lifetime);
            let expected = lifetime.ok_or(Refusal::Dynamic(DynamicRefusal::Lifetime));
            assert_eq!(read, expected, "{asked:?}");
        }
    }
}

#[test]
fn distribution_modes_are_symbols() {
    let listed = |count: u8| [&[0xc0, 1 + 3 * count, count][..], &b"\xa3\x01m".repeat(count.into())].concat();
    let (most, beyond) = (listed(16), listed(17));
    let table: [(&[u8], bool); 11] = [
        (&most, true),
        (&beyond, false),
        (b"\xe0\x13\x11\xa3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", false),
        (b"\xe0\x0b\x01\x00\xa3\x01d\xa3\x04move", false),
        (&[0x40], true),
        (b"\xa3\x04move", true),
        (b"\xe0\x0c\x02\xa3\x04move\x04copy", true),
        (b"\xc0\x07\x01\xa3\x04move", true),
        (b"\xa1\x04move", false),
        (&[0x54, 1], false),
        (&[0xc0, 3, 1, 0x54, 1], false),
    ];
    for (value, taken) in table {
        let asked = properties("supported-dist-modes", value);
        let read = DynamicRequest::of(&attach(Role::Receiver, None, Some(asked), &[]));
        assert_eq!(read.is_ok(), taken, "{value:?}: {read:?}");
    }
}

#[test]
fn the_kind_follows_the_capabilities_and_the_address_is_null() {
    let table: [(&[&'static str], Result<EntityKind, Refusal>); 7] = [
        (&[], Ok(EntityKind::Queue)),
        (&["temporary-queue"], Ok(EntityKind::Queue)),
        (&["queue"], Ok(EntityKind::Queue)),
        (&["temporary-topic"], Ok(EntityKind::Topic)),
        (&["topic", "x"], Ok(EntityKind::Topic)),
        (&["x"], Ok(EntityKind::Queue)),
        (&["temporary-queue", "temporary-topic"], Err(Refusal::TwoKinds)),
    ];
    for role in ROLES {
        for (capabilities, kind) in &table {
            let read = DynamicRequest::of(&attach(role, None, None, capabilities)).map(|it| it.kind);
            assert_eq!(read, *kind, "{capabilities:?}");
        }
        assert!(DynamicRequest::of(&attach(role, Some(""), None, &[])).is_ok());
        let named = DynamicRequest::of(&attach(role, Some("q"), None, &[])).map(|it| it.kind);
        assert_eq!(named, Err(Refusal::Dynamic(DynamicRefusal::Address)));
    }
}

#[test]
fn the_answer_names_what_is_granted_and_nothing_else() {
    let by_name = named("amqp:delete-on-no-links:list");
    let table: [Answered<'_>; 4] = [
        (None, &[], &ON_CLOSE, &["temporary-queue"]),
        (
            Some(properties("x-opt-other", &[0x41])),
            &["temporary-topic", "x"],
            &ON_CLOSE,
            &["temporary-topic"],
        ),
        (
            Some(properties(LIFETIME, &[0x00, 0x53, 0x2e, 0x45])),
            &["queue"],
            &[0x00, 0x53, 0x2e, 0x45],
            &["queue"],
        ),
        (Some(properties(LIFETIME, &by_name)), &["x"], &by_name, &["temporary-queue"]),
    ];
    for role in ROLES {
        for (asked, capabilities, policy, granted) in &table {
            let mut attach = attach(role, None, asked.clone(), capabilities);
            if let Some(source) = attach.source.as_mut().filter(|_| role == Role::Receiver) {
                (source.durable, source.expiry_policy) = (2, Some(Symbol::from_static("never")));
            }
            DynamicRequest::of(&attach).unwrap().grant(&mut attach, "$dynamic/1");
            let (address, dynamic, durable, expiry, properties, capabilities, other) = match role {
                Role::Receiver => {
                    let it = attach.source.unwrap();
                    let other = attach.target.as_ref().and_then(|it| it.address()).cloned();
                    (
                        it.address,
                        it.dynamic,
                        it.durable,
                        it.expiry_policy,
                        it.dynamic_node_properties,
                        it.capabilities,
                        other,
                    )
                }
                Role::Sender => {
                    let Some(Target::Terminus(it)) = attach.target else { panic!("the target stays one") };
                    let other = attach.source.and_then(|it| it.address);
                    (
                        it.address,
                        it.dynamic,
                        it.durable,
                        it.expiry_policy,
                        it.dynamic_node_properties,
                        it.capabilities,
                        other,
                    )
                }
            };
            assert_eq!(address, Some(Address::from("$dynamic/1")));
            assert!(dynamic);
            assert_eq!((durable, expiry), (0, Some(Symbol::from_static("link-detach"))));
            let properties = properties.unwrap();
            assert_eq!(properties.iter().count(), 1);
            assert_eq!(properties.get(LIFETIME).unwrap().bytes(), *policy);
            assert_eq!(capabilities.iter().map(Symbol::as_str).collect::<Vec<_>>(), *granted);
            assert_eq!(other, Some(Address::from("mine")), "the peer's own end stays as it came");
        }
    }
}
