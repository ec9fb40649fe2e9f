//! Keys of single entities: given over HTTP, used over AMQP and HTTP, taken back while links are open.

use std::{
    net::SocketAddr,
    time::{SystemTime, UNIX_EPOCH},
};

use amqp_codec::{
    performative::{Attach, Open, Source, Target},
    types::Role,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_auth::{Secret, sign_token};

use crate::{
    broker::{Broker, Folder, durable},
    client::Client,
    dialect::Sdk,
    http::{ask, ask_over, connect},
    message::message,
    sdk_go::GO,
};

fn key(letter: char) -> String {
    format!("{}=", letter.to_string().repeat(43))
}

/// A rule as the administration clients send it.
fn rule(name: &str, keys: [char; 2], rights: &[&str]) -> String {
    let rights: Vec<String> =
        rights.iter().map(|right| format!("<AccessRights>{right}</AccessRights>")).collect();
    let rights = rights.concat();
    let [primary, secondary] = keys.map(key);
    format!(
        "<AuthorizationRule i:type=\"SharedAccessAuthorizationRule\"><ClaimType>SharedAccessKey</ClaimType>\
         <ClaimValue>None</ClaimValue><Rights>{rights}</Rights><KeyName>{name}</KeyName>\
         <PrimaryKey>{primary}</PrimaryKey><SecondaryKey>{secondary}</SecondaryKey></AuthorizationRule>"
    )
}

fn body(element: &str, rules: &[String]) -> String {
    let rules = rules.concat();
    format!(
        "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><{element} \
         xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\" \
         xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\"><AuthorizationRules>{rules}</AuthorizationRules>\
         </{element}></content></entry>"
    )
}

fn create(address: SocketAddr, name: &str, element: &str, rules: &[String]) -> (u16, String) {
    ask(address, &format!("PUT /{name}?api-version=2021-05"), &body(element, rules))
}

fn update(address: SocketAddr, name: &str, rules: &[String]) {
    let request = format!("PUT /{name}?api-version=2021-05 HTTP/1.1\r\nIf-Match: *\r\nX-Rest:");
    let (status, text) = ask(address, &request, &body("QueueDescription", rules));
    assert_eq!(status, 200, "{text}");
}

/// A token of `name` for the namespace, as the Python administration client makes it, or for an entity.
fn token(name: &str, letter: char, path: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    sign_token(&format!("amqps://localhost/{path}"), name, &Secret::new(key(letter)), now + 600)
}

fn sender(entity: &str) -> Attach {
    let mut attach = Attach::new(format!("to-{entity}"), 7, Role::Sender);
    attach.source = Some(Source::new("identifier"));
    attach.target = Some(Target::new((GO.address)(entity)));
    attach.initial_delivery_count = Some(0);
    attach
}

fn receiver(entity: &str) -> Attach {
    let mut attach = Attach::new(format!("from-{entity}"), 8, Role::Receiver);
    attach.source = Some(Source::new((GO.address)(entity)));
    attach.target = Some(Target::new("identifier"));
    attach
}

const SAS: &str = "servicebus.windows.net:sastoken";

#[test]
fn a_key_opens_its_entity_with_its_rights_over_amqp() {
    let broker = Broker::start();
    let rules = [rule("till", ['a', 'b'], &["Send"]), rule("cook", ['c', 'd'], &["Listen"])];
    let (status, text) = create(broker.address, "kitchen", "QueueDescription", &rules);
    assert_eq!(status, 201, "{text}");
    let mut sdk = Sdk::connect(&broker, &GO);
    for (what, entity, token, status) in [
        ("its entity", "kitchen", token("till", 'a', "kitchen"), 202),
        ("the second key", "kitchen", token("till", 'b', "kitchen"), 202),
        ("a sub-queue", "kitchen/$DeadLetterQueue", token("till", 'a', "kitchen"), 202),
        ("another entity", "orders", token("till", 'a', ""), 401),
        ("signed for another", "kitchen", token("till", 'a', "orders"), 401),
        ("another rule's key", "kitchen", token("till", 'c', "kitchen"), 401),
        ("no such rule", "kitchen", token("cellar", 'a', "kitchen"), 401),
        ("the namespace", "", token("till", 'a', ""), 401),
    ] {
        assert_eq!(sdk.put(SAS, entity, token), status, "{what}");
    }
    let channel = sdk.session();
    sdk.client.attach(channel, sender("kitchen"));
    let channel = sdk.session();
    let refused = sdk.client.refused(channel, receiver("kitchen"));
    assert_eq!(refused.condition, "amqp:unauthorized-access");
    assert!(refused.description.unwrap().contains("'Listen' claim(s) are required"));
    assert_eq!(sdk.put(SAS, "kitchen", token("cook", 'c', "kitchen")), 202);
    let channel = sdk.session();
    sdk.client.attach(channel, receiver("kitchen"));
    sdk.client.close();
}

#[test]
fn a_topics_key_opens_its_subscriptions() {
    let broker = Broker::start();
    let rules = [rule("ear", ['a', 'b'], &["Listen"])];
    assert_eq!(create(broker.address, "news", "TopicDescription", &rules).0, 201);
    assert_eq!(create(broker.address, "news/Subscriptions/all", "SubscriptionDescription", &[]).0, 201);
    assert_eq!(create(broker.address, "news/today", "QueueDescription", &[]).0, 201);
    let mut sdk = Sdk::connect(&broker, &GO);
    let token = || token("ear", 'a', "");
    assert_eq!(sdk.put(SAS, "news/today", token()), 401, "its name only begins like the topic's");
    assert_eq!(sdk.put(SAS, "news", token()), 202);
    let channel = sdk.session();
    sdk.client.attach(channel, receiver("news/Subscriptions/all"));
    let channel = sdk.session();
    assert_eq!(sdk.client.refused(channel, receiver("news/today")).condition, "amqp:unauthorized-access");
    sdk.client.close();
}

#[test]
fn a_link_goes_when_its_key_is_taken_back_and_no_other_does() {
    let broker = Broker::start();
    let both = [rule("till", ['a', 'b'], &["Send"]), rule("cook", ['c', 'd'], &["Listen"])];
    assert_eq!(create(broker.address, "kitchen", "QueueDescription", &both).0, 201);
    let connect = |name: &str, letter| {
        let mut sdk = Sdk::connect(&broker, &GO);
        assert_eq!(sdk.put(SAS, "kitchen", token(name, letter, "kitchen")), 202);
        sdk
    };
    let (mut first, mut second, mut cook) =
        (connect("till", 'a'), connect("till", 'b'), connect("cook", 'c'));
    let [_, sending] = [&mut first, &mut second].map(|sdk| {
        let channel = sdk.session();
        sdk.sender_on(channel, "kitchen", 2, None);
        channel
    });
    let receiving = cook.session();
    cook.client.attach(receiving, receiver("kitchen"));
    update(broker.address, "kitchen", &[rule("till", ['x', 'b'], &["Send"]), both[1].clone()]);
    let mut late = Sdk::connect(&broker, &GO);
    assert_eq!(late.put(SAS, "kitchen", token("till", 'a', "kitchen")), 401, "at once");
    let detach = first.client.wire.detached().unwrap();
    assert_eq!(detach.error.unwrap().condition, "amqp:unauthorized-access");
    assert!(detach.closed);
    assert_eq!(first.put(SAS, "kitchen", token("till", 'x', "kitchen")), 202);
    // The others are where they were.
    second.send(sending, 0, &message("soup"));
    assert_eq!(cook.receive(receiving, 8, 1).remove(0).text(), "soup");
    // Nothing opens it but the namespace's keys once it has no rules.
    update(broker.address, "kitchen", &[]);
    for sdk in [&mut second, &mut cook] {
        let error = sdk.client.wire.detached().unwrap().error.unwrap();
        assert_eq!(error.condition, "amqp:unauthorized-access");
    }
}

#[test]
fn name_and_key_log_in_by_plain() {
    let broker = Broker::start();
    let rules = [rule("till", ['a', 'b'], &["Send"])];
    assert_eq!(create(broker.address, "kitchen", "QueueDescription", &rules).0, 201);
    let response = format!("\0till\0{}", key('b'));
    let mut client = Client::connect(broker.address, "PLAIN", Some(response.as_bytes()), Open::new("till"));
    client.begin(0);
    client.sender(0, "kitchen");
    client.accepted(0, &["soup"]);
    assert_eq!(client.refused(0, sender("orders")).condition, "amqp:unauthorized-access");
    assert_eq!(client.refused(0, receiver("kitchen")).condition, "amqp:unauthorized-access");
    let (status, _) = ask(broker.address, "DELETE /kitchen?api-version=2021-05", "");
    assert_eq!(status, 200);
}

#[test]
fn a_key_that_may_manage_manages_its_entity_over_http_and_nothing_else() {
    let broker = Broker::start();
    let rules =
        [rule("chef", ['a', 'b'], &["Manage", "Send", "Listen"]), rule("till", ['c', 'd'], &["Send"])];
    assert_eq!(create(broker.address, "kitchen", "QueueDescription", &rules).0, 201);
    let chef = token("chef", 'a', "");
    let till = token("till", 'c', "kitchen");
    let basic = format!("Basic {}", STANDARD.encode(format!("chef:{}", key('b'))));
    for (what, request, login, expected) in [
        ("its entity", "GET /kitchen", &chef, 200),
        ("name and key", "GET /kitchen", &basic, 200),
        ("without the right", "GET /kitchen", &till, 403),
        ("without the right to delete", "DELETE /kitchen", &till, 403),
        ("a list", "GET /$Resources/queues", &chef, 401),
        ("the namespace", "GET /$namespaceinfo", &chef, 401),
        ("another entity", "GET /orders", &chef, 401),
        ("one of its own to come", "PUT /cellar", &chef, 401),
        ("connections", "GET /$ferrybus/connections", &chef, 401),
        ("its entity, to delete it", "DELETE /kitchen", &chef, 200),
        ("what is gone, with its keys", "GET /kitchen", &chef, 401),
    ] {
        let request = format!("{request}?api-version=2021-05");
        let (status, text) = ask_over(&mut connect(broker.address), &request, Some(login), "");
        assert_eq!(status, expected, "{what}: {text}");
        assert!(status == 200 || !text.contains(&key('a')), "{what}: {text}");
    }
}

#[test]
fn keys_survive_a_stop_and_a_crash() {
    let folder = Folder::new();
    let broker = Broker::durable(&folder.0);
    let rules = [rule("till", ['a', 'b'], &["Send"]), rule("cook", ['c', 'd'], &["Listen"])];
    assert_eq!(create(broker.address, "kitchen", "QueueDescription", &rules).0, 201);
    let (_, before) = ask(broker.address, "GET /kitchen?api-version=2021-05", "");
    let image = folder.image();
    broker.stop();
    for folder in [folder, image] {
        let broker = Broker::of(&durable(&folder.0));
        let mut sdk = Sdk::connect(&broker, &GO);
        assert_eq!(sdk.put(SAS, "kitchen", token("till", 'a', "kitchen")), 202);
        assert_eq!(sdk.put(SAS, "kitchen", token("cook", 'd', "kitchen")), 202);
        assert_eq!(sdk.put(SAS, "kitchen", token("cook", 'a', "kitchen")), 401);
        let (_, after) = ask(broker.address, "GET /kitchen?api-version=2021-05", "");
        let rules = |text: &str| {
            let at = text.find("<AuthorizationRules>").unwrap();
            text[at..text.find("</AuthorizationRules>").unwrap()].to_owned()
        };
        assert_eq!(rules(&after), rules(&before), "with the times that they had");
        sdk.client.close();
    }
}

#[test]
fn rules_that_no_entity_may_have_are_refused_and_change_nothing() {
    let broker = Broker::start();
    let twelve: Vec<String> =
        (0..12).map(|number| rule(&format!("k{number}"), ['a', 'b'], &["Send"])).collect();
    let thirteen: Vec<String> =
        (0..13).map(|number| rule(&format!("k{number}"), ['a', 'b'], &["Send"])).collect();
    let one = |name: &str| rule(name, ['a', 'b'], &["Send"]);
    for (what, rules, status, sub_code) in [
        ("one too many", thirteen, 403, "SubCode=40300."),
        ("one twice", vec![one("k"), one("k")], 400, "SubCode=40000."),
        ("no name", vec![one("")], 400, "SubCode=40000."),
        ("a long name", vec![one(&"n".repeat(257))], 400, "SubCode=40000."),
        ("no right", vec![rule("k", ['a', 'b'], &[])], 400, "SubCode=40000."),
        ("an unknown right", vec![rule("k", ['a', 'b'], &["Own"])], 400, "SubCode=40000."),
        ("a short key", vec![one("k").replace(&key('a'), "secret")], 400, "SubCode=40000."),
    ] {
        let (answered, text) = create(broker.address, "kitchen", "QueueDescription", &rules);
        assert_eq!(answered, status, "{what}: {text}");
        assert!(text.contains(sub_code) && !text.contains("secret"), "{what}: {text}");
        let (_, text) = ask(broker.address, "GET /kitchen?api-version=2021-05", "");
        assert!(text.contains("Publicly Listed Services"), "{what}: {text}");
    }
    assert_eq!(create(broker.address, "kitchen", "QueueDescription", &twelve).0, 201);
}
