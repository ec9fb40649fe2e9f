use amqp_codec::{
    performative::{Address, Attach, Source, Target, TargetTerminus},
    raw::{AnnotationValue, RawMap},
    types::{Role, Symbol},
};
use broker_core::NodeKind;

use super::*;

fn asked(
    address: Option<&str>,
    capabilities: &[&'static str],
    is_sender: bool,
) -> Result<Option<NodeKind>, Refusal> {
    let role = if is_sender { Role::Sender } else { Role::Receiver };
    let mut attach = Attach::new("link", 0, role);
    let address = address.map(Address::from);
    let capabilities: Vec<Symbol> = capabilities.iter().map(|&name| Symbol::from(name)).collect();
    if is_sender {
        // What the peer says of its own terminus does not matter.
        attach.source = Some(Source { capabilities: vec!["topic".into()], ..Source::new("x") });
        let target = TargetTerminus { address, capabilities, ..TargetTerminus::default() };
        attach.target = Some(Target::Terminus(target));
    } else {
        attach.source = Some(Source { address, capabilities, ..Source::default() });
    }
    of_attach(&attach, is_sender, AddressSyntax::SERVICE_BUS)
}

#[test]
fn a_kind_is_asked_for_by_capability_or_by_prefix() {
    use NodeKind::{Queue, TemporaryQueue, TemporaryTopic, Topic};
    let cases = [
        // address, capabilities, kind; an error stands for a refusal
        ("a", vec![], Ok(None)),
        ("a", vec!["queue"], Ok(Some(Queue))),
        ("a", vec!["topic"], Ok(Some(Topic))),
        ("a", vec!["temporary-queue"], Ok(Some(TemporaryQueue))),
        ("a", vec!["temporary-topic"], Ok(Some(TemporaryTopic))),
        ("a", vec!["topic", "shared", "global"], Ok(Some(Topic))),
        ("a", vec!["Topic"], Ok(None)),
        ("queue://a", vec![], Ok(Some(Queue))),
        ("topic://a", vec![], Ok(Some(Topic))),
        ("temp-queue://a", vec![], Ok(Some(TemporaryQueue))),
        ("temp-topic://a", vec![], Ok(Some(TemporaryTopic))),
        ("anycast://a", vec![], Ok(Some(Queue))),
        ("multicast://a", vec![], Ok(Some(Topic))),
        ("jms.queue.a", vec![], Ok(Some(Queue))),
        ("jms.topic.a", vec![], Ok(Some(Topic))),
        ("jms.topics.a", vec![], Ok(None)),
        ("amqp://host/topic://a", vec![], Ok(None)),
        ("topic://a", vec!["topic"], Ok(Some(Topic))),
        ("topic://a", vec!["temporary-topic"], Ok(Some(TemporaryTopic))),
        ("topic://a", vec!["queue"], Err(Refusal::TwoKinds)),
        ("a", vec!["queue", "topic"], Err(Refusal::TwoKinds)),
        ("a", vec!["queue", "temporary-topic"], Err(Refusal::TwoKinds)),
    ];
    for (address, capabilities, kind) in cases {
        for is_sender in [false, true] {
            let got = asked(Some(address), &capabilities, is_sender);
            assert_eq!(got, kind, "{address} {capabilities:?} {is_sender}");
        }
    }
    assert_eq!(asked(None, &[], true), Ok(None), "the anonymous terminus");
    let mut coordinator = Attach::new("link", 0, Role::Sender);
    coordinator.target = Some(Target::Coordinator { capabilities: Vec::new() });
    assert!(matches!(of_attach(&coordinator, true, AddressSyntax::SERVICE_BUS), Ok(None)));
}

#[test]
fn a_message_asks_by_its_annotation_or_by_the_prefix_of_to() {
    let cases = [
        ("a", None, Ok(None)),
        ("a", Some(0), Ok(Some(NodeKind::Queue))),
        ("a", Some(1), Ok(Some(NodeKind::Topic))),
        ("a", Some(2), Ok(Some(NodeKind::TemporaryQueue))),
        ("a", Some(3), Ok(Some(NodeKind::TemporaryTopic))),
        ("a", Some(4), Ok(None)),
        ("a", Some(-1), Ok(None)),
        ("topic://a", None, Ok(Some(NodeKind::Topic))),
        ("topic://a", Some(1), Ok(Some(NodeKind::Topic))),
        ("topic://a", Some(0), Err(Refusal::TwoKinds)),
    ];
    for (to, annotation, kind) in cases {
        assert_eq!(of_message(to, annotation, AddressSyntax::SERVICE_BUS), kind, "{to} {annotation:?}");
    }
}

#[test]
fn an_sdk_names_the_kind_by_a_property_of_its_link() {
    use NodeKind::{Queue, Topic};
    let cases = [
        (AnnotationValue::Int(0), Ok(Some(Queue))),
        (AnnotationValue::Int(1), Ok(Some(Topic))),
        (AnnotationValue::Ulong(1), Ok(Some(Topic))),
        (AnnotationValue::Int(2), Ok(None)),
        (AnnotationValue::Int(7), Ok(None)),
        (AnnotationValue::Int(-1), Ok(None)),
        (AnnotationValue::Str("entity-mgmt"), Ok(None)),
        (AnnotationValue::Null, Ok(None)),
    ];
    for (value, kind) in cases {
        for role in [Role::Sender, Role::Receiver] {
            let mut attach = Attach::new("link", 0, role);
            (attach.source, attach.target) = (Some(Source::new("a")), Some(Target::new("a")));
            attach.properties = Some(RawMap::with_symbol_keys(&[("com.microsoft:entity-type", value)]));
            assert_eq!(
                of_attach(&attach, role == Role::Sender, AddressSyntax::SERVICE_BUS),
                kind,
                "{value:?} {role:?}"
            );
        }
    }
}
