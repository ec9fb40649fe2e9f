//! Who may do what, and for how long.

use std::time::Duration;

use amqp_codec::{
    frame::ProtocolHeader, message::MessageBuilder, performative::Performative, types::ReceiverSettleMode,
};
use amqp_gateway::GatewayConfig;
use broker_auth::Anonymous;
use broker_core::{AccessRight, AuthorizationRule, KeyText, Timestamp};
use testkit::Incoming;

use crate::harness::{START, TOKEN, TOKEN_ENDS, World, property, status};

const SECOND: Option<ReceiverSettleMode> = Some(ReceiverSettleMode::Second);

#[test]
fn the_mechanisms_are_offered_in_the_services_order() {
    let mut world = World::new();
    let client = world.accept();
    world.script(client).sasl("MSSBCBS", None);
    world.run();
    let offered = world.received(client).into_iter().find_map(|incoming| match incoming {
        Incoming::Sasl(amqp_codec::performative::SaslFrame::Mechanisms(it)) => Some(it.mechanisms),
        _ => None,
    });
    let offered: Vec<_> = offered.unwrap().iter().map(|word| word.as_str().to_owned()).collect();
    assert_eq!(offered, ["MSSBCBS", "PLAIN", "ANONYMOUS"]);
}

#[test]
fn a_wrong_password_ends_in_outcome_auth() {
    let mut world = World::new();
    let client = world.accept();
    world.script(client).sasl_plain("RootManageSharedAccessKey", "wrong").open("test");
    world.run();
    let outcome = world.received(client).into_iter().find_map(|incoming| match incoming {
        Incoming::Sasl(amqp_codec::performative::SaslFrame::Outcome(it)) => Some(it.code),
        _ => None,
    });
    assert_eq!(outcome, Some(amqp_codec::performative::SaslCode::Auth));
    assert!(world.frames(client).is_empty());
}

#[test]
fn links_without_a_claim_are_refused_and_told_which() {
    let mut world = World::new();
    let client = world.accept();
    world.script(client).sasl("ANONYMOUS", None).open("test").begin(0);
    world.script(client).attach_sender(0, 1, "s", Some("q")).attach_receiver(0, 2, "r", "q", SECOND);
    world.script(client).attach_receiver(0, 3, "m", "q/$management", SECOND);
    world.run();
    let (_, detaches) = world.link_frames(client);
    let errors: Vec<_> = detaches.into_iter().map(|detach| detach.error.unwrap()).collect();
    assert_eq!(errors.len(), 3);
    for (error, claim) in errors.iter().zip(["Send", "Listen", "Listen"]) {
        assert_eq!(error.condition, "amqp:unauthorized-access");
        let text = error.description.as_ref().unwrap();
        assert!(text.starts_with(&format!("Unauthorized access. '{claim}' claim(s) are required")), "{text}");
    }
}

#[test]
fn a_token_that_ends_takes_its_links_along() {
    let mut world = World::new();
    let client = world.service_bus();
    world.script(client).attach_sender(0, 1, "s", Some("q")).attach_receiver(0, 2, "r", "q", SECOND);
    world.run();
    world.received(client);
    let left = Duration::from_millis(TOKEN_ENDS * 1000 - START);
    // Somebody must say something now and then.
    let mut passed = Duration::ZERO;
    while passed + Duration::from_secs(120) < left {
        world.script(client).heartbeat();
        world.pass(Duration::from_secs(120));
        passed += Duration::from_secs(120);
    }
    assert!(world.link_frames(client).1.is_empty());
    world.script(client).heartbeat();
    world.pass(left.checked_sub(passed).unwrap() + Duration::from_secs(1));
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches.len(), 2);
    for detach in detaches {
        assert_eq!(detach.error.unwrap().condition, "amqp:unauthorized-access");
        assert!(detach.closed);
    }
    // `$cbs` stays, so that the client can put a new token; this one is too old.
    world.put_token(client, "amqp://localhost", TOKEN);
    let (_, reply) = world.transfers(client).pop().unwrap();
    assert_eq!(status(&reply, "status-code"), 401);
    assert!(
        property(&reply, "status-description")
            .unwrap()
            .starts_with("ExpiredToken: The token is expired. Expiration time: ")
    );
}

#[test]
fn a_link_goes_with_the_right_of_the_key_that_let_it_in() {
    use AccessRight::{Listen, Send};
    let keys = |rights: &[AccessRight]| AuthorizationRule {
        name: "till".into(),
        rights: rights.to_vec(),
        primary: KeyText::new("secret"),
        secondary: None,
        created_at: Timestamp::default(),
        modified_at: Timestamp::default(),
    };
    let mut world = World::new();
    world.give_keys("q", &[keys(&[Send, Listen])]);
    let client = world.accept();
    world.script(client).sasl_plain("till", "secret").open("test").begin(0);
    world.script(client).attach_sender(0, 1, "s", Some("q")).attach_receiver(0, 2, "r", "q", SECOND);
    world.run();
    let (attaches, detaches) = world.link_frames(client);
    assert_eq!((attaches.len(), detaches), (2, vec![]));
    let root = world.plain();
    world.script(root).attach_sender(0, 1, "s", Some("q"));
    world.run();
    world.received(root);
    world.give_keys("q", &[keys(&[Listen])]);
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches.len(), 1);
    let error = detaches[0].error.clone().unwrap();
    assert!(detaches[0].closed);
    assert_eq!(error.condition, "amqp:unauthorized-access");
    assert!(error.description.unwrap().starts_with("Unauthorized access. 'Send' claim(s) are required"));
    world.give_keys("q", &[]);
    assert_eq!(world.link_frames(client).1.len(), 1);
    assert!(world.link_frames(root).1.is_empty(), "let in by a key of the namespace");
}

#[test]
fn a_client_without_sasl_is_anonymous_where_that_is_allowed() {
    let start = |anonymous| {
        let mut world = World::with(GatewayConfig::default(), anonymous);
        let client = world.accept();
        world.script(client).header(ProtocolHeader::Amqp);
        world.run();
        (world, client)
    };
    let (mut world, client) = start(Anonymous::Allow);
    assert_eq!(*world.clients[client].raw, ProtocolHeader::Amqp.to_bytes());
    world.script(client).open("test").begin(0).attach_sender(0, 1, "s", Some("q"));
    world.run();
    let (attaches, detaches) = world.link_frames(client);
    assert_eq!((attaches.len(), detaches), (1, vec![]));

    let (world, client) = start(Anonymous::Deny);
    assert_eq!(*world.clients[client].raw, ProtocolHeader::Sasl.to_bytes());
    assert!(world.clients[client].gateway.is_closed());
}

#[test]
fn plain_without_a_response_is_asked_for_it() {
    let mut world = World::new();
    let client = world.accept();
    world.script(client).sasl("PLAIN", None);
    world.run();
    let challenged = world.received(client).into_iter().any(|incoming| {
        matches!(incoming, Incoming::Sasl(amqp_codec::performative::SaslFrame::Challenge(_)))
    });
    assert!(challenged);
}

#[test]
fn the_anonymous_terminus_checks_the_claim_of_each_message() {
    let mut world = World::new();
    let client = world.accept();
    world.script(client).sasl("ANONYMOUS", None).open("test").begin(0);
    world.script(client).attach_sender(0, 1, "s", None);
    world.run();
    world.received(client);
    let message = MessageBuilder::new().to("q").data(b"x").build();
    world.transfer(client, 1, false, &message);
    world.run();
    let frames = world.frames(client);
    let error = frames.into_iter().find_map(|frame| match frame.performative {
        Performative::Disposition(it) => match it.state {
            Some(amqp_codec::performative::DeliveryState::Rejected(error)) => error,
            _ => None,
        },
        _ => None,
    });
    assert_eq!(error.unwrap().condition, "amqp:unauthorized-access");
}
