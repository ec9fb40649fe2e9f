//! The SDKs over TLS, and over WebSocket by the path and the protocol that each asks for, do all that they do over TCP.

use std::io::{Read, Write};

use amqp_codec::{performative::DeliveryState, types::TypeKind};
use testkit::Wire;

use crate::{
    broker::{Broker, QUEUE},
    dialect::{Dialect, RECEIVER, Sdk},
    http::connect,
    message::{message, renewal},
    numbers::outcome,
    sdk_dotnet::DOTNET,
    sdk_go::GO,
    sdk_java::JAVA,
    tls::Certificates,
    websocket::WebSocket,
};

/// Sends, receives, renews, settles in each way, and finds the dead letter.
fn works(dialect: &Dialect, stream: impl Read + Write) {
    let mut sdk = Sdk::connect_over(Wire::over(stream), dialect);
    let sending = sdk.sender(QUEUE);
    for text in ["complete", "abandon", "dead-letter"] {
        sdk.send(sending, 0, &message(text));
    }
    let channel = sdk.receiver(QUEUE, RECEIVER, dialect.locking);
    let received = sdk.receive(channel, RECEIVER, 3);
    for delivery in &received {
        delivery.is_locked_for_service_bus(0);
    }
    let node = sdk.management();
    let renewed = sdk.manage(node, "com.microsoft:renew-lock", &renewal(&[received[0].lock_token()]));
    assert_eq!(outcome(&renewed), (200, None));
    assert_eq!(renewed.body().get("expirations").unwrap().kind(), Some(TypeKind::Array));
    sdk.settle(channel, &received[0], DeliveryState::Accepted);
    sdk.settle(channel, &received[1], (dialect.abandon)());
    sdk.settle(channel, &received[2], (dialect.dead_letter)());
    let again = sdk.receive(channel, RECEIVER, 1).remove(0);
    assert_eq!((again.text().as_str(), again.header().delivery_count), ("abandon", 1));
    sdk.settle(channel, &again, DeliveryState::Accepted);
    assert!(sdk.client.drain(channel, RECEIVER, 1).is_empty());
    let dead = sdk.receiver("orders/$DeadLetterQueue", RECEIVER + 10, dialect.locking);
    let letter = sdk.receive(dead, RECEIVER + 10, 1).remove(0);
    assert_eq!(letter.property("DeadLetterReason").as_deref(), Some("broken"));
    sdk.settle(dead, &letter, DeliveryState::Accepted);
    sdk.client.close();
}

fn works_plain_and_with_tls(dialect: &Dialect, path: &str, protocol: &str) {
    let broker = Broker::start();
    works(dialect, WebSocket::upgrade_at(connect(broker.address), path, protocol, usize::MAX));
    let certificates = Certificates::new();
    let broker = certificates.broker();
    let stream = certificates.stream(broker.tls_address(), None);
    works(dialect, WebSocket::upgrade_at(stream, path, protocol, usize::MAX));
}

#[test]
fn scripted_dotnet_java_and_go_work_over_tls() {
    let certificates = Certificates::new();
    for dialect in [&DOTNET, &JAVA, &GO] {
        // On the port for TLS alone, and on the one for both.
        let broker = certificates.broker();
        for address in [broker.tls_address(), broker.address] {
            works(dialect, certificates.stream(address, None));
        }
    }
}

#[test]
fn scripted_dotnet_works_over_websocket() {
    works_plain_and_with_tls(&DOTNET, "/$servicebus/websocket/", "amqp");
}

#[test]
fn scripted_java_works_over_websocket() {
    works_plain_and_with_tls(&JAVA, "/$servicebus/websocket", "AMQPWSB10");
}

#[test]
fn scripted_go_works_over_a_websocket_that_the_application_opened() {
    works_plain_and_with_tls(&GO, "/$servicebus/websocket", "amqp");
}
