//! Tokens for entities that are missing, and the order of the answers of `$cbs` (decision 34).

use amqp_codec::{
    message::MessageBuilder,
    performative::Open,
    raw::{AnnotationValue, RawMap},
    sections::PropertyField,
    types::ReceiverSettleMode,
    value::Value,
};
use amqp_gateway::GatewayConfig;
use broker_auth::{Anonymous, ForeignHost};
use broker_core::{EntityKind, EntitySettings};

use crate::{
    harness::{TOKEN, World, property, status},
    token_logins::JWT,
};

const DOT_NET: &str = "Messaging.ServiceBus";
const OLDER_DOT_NET: &str = "Microsoft.Azure.ServiceBus";
const GO: &str = "MSGolangClient";
const JAVASCRIPT: &str = "MSJSClient";
const MISSING: &str = "sb://localhost/missing";

fn world(auto_create: bool) -> World {
    let config = GatewayConfig { auto_create, ..GatewayConfig::default() };
    let mut world = World::with(config, Anonymous::Deny);
    world.create_kind("t", EntityKind::Topic, EntitySettings::default());
    world.create_kind("t/Subscriptions/s", EntityKind::Subscription, EntitySettings::default());
    world.create("shop/orders", EntitySettings::default());
    world
}

/// A client whose open names this product, with `$cbs` links.
fn client_of(world: &mut World, product: &str) -> usize {
    let client = world.accept();
    let mut open = Open::new("test");
    open.properties = Some(RawMap::with_symbol_keys(&[("product", AnnotationValue::Str(product))]));
    world.script(client).sasl("ANONYMOUS", None).open_with(open).begin(0);
    world.cbs_links(client);
    client
}

/// Status and text of the answer to a token for this audience.
fn put(world: &mut World, client: usize, audience: &str) -> (i64, String) {
    world.put_token(client, audience, TOKEN);
    let (_, answer) = world.transfers(client).pop().unwrap();
    (status(&answer, "status-code"), property(&answer, "status-description").unwrap())
}

#[test]
fn a_token_for_an_entity_that_is_missing_is_404_for_clients_that_learn_by_it() {
    let cases = [
        // path of the audience, found
        ("", true),
        ("/", true),
        ("q", true),
        ("Q/$management", true),
        ("q/$DeadLetterQueue", true),
        ("q/$DeadLetterQueue/$management", true),
        ("t/Subscriptions/s", true),
        ("t/subscriptions/s/$Transfer/$DeadLetterQueue", true),
        ("t/Subscriptions/missing", false),
        ("t/Subscriptions/missing/$management", false),
        ("missing", false),
        ("missing/$management", false),
        ("missing/$DeadLetterQueue", false),
        ("missing/$DeadLetterQueue/$management", false),
        // Entities lie below it, but none is there to be managed.
        ("shop", true),
        ("shop/", true),
        ("t/Subscriptions", true),
        ("shop/$management", false),
        ("sho", false),
        ("$cbs", true),
    ];
    for product in [DOT_NET, OLDER_DOT_NET, GO, JAVASCRIPT] {
        let mut world = world(false);
        let client = client_of(&mut world, product);
        for (path, found) in cases {
            let audience = format!("amqps://localhost/{path}");
            let expected = if found || product == JAVASCRIPT { 202 } else { 404 };
            let (status, text) = put(&mut world, client, &audience);
            assert_eq!(status, expected, "{product} {path}: {text}");
            if status == 404 {
                let entity = path.split("/$").next().unwrap();
                let entity = entity.replace("subscriptions", "Subscriptions");
                let sentence = format!("The messaging entity '{entity}' could not be found.");
                assert!(text.starts_with(&sentence), "{product} {path}: {text}");
            }
        }
    }
}

#[test]
fn what_auto_create_could_make_is_taken_as_there() {
    let cases = [
        // path of the audience, status
        ("missing", 202),
        ("missing/$DeadLetterQueue", 202),
        ("missing/$management", 202),
        ("t/Subscriptions/missing", 404),
        ("not a name", 404),
    ];
    for (path, expected) in cases {
        let mut world = world(true);
        let client = client_of(&mut world, GO);
        let before = world.entities();
        let (status, text) = put(&mut world, client, &format!("amqps://localhost/{path}"));
        assert_eq!(status, expected, "{path}: {text}");
        assert_eq!(world.entities(), before, "{path}: a token makes nothing");
    }
}

#[test]
fn a_token_that_is_no_good_is_401_and_tells_nothing_of_entities() {
    let mut world = world(false);
    let client = client_of(&mut world, DOT_NET);
    for path in ["q", "missing"] {
        world.put_token(client, &format!("sb://localhost/{path}"), &TOKEN.replace("sig=", "sig=x"));
        let (_, answer) = world.transfers(client).pop().unwrap();
        assert_eq!(status(&answer, "status-code"), 401, "{path}");
    }
}

#[test]
fn a_token_that_was_404_is_taken_once_the_entity_is_there_and_gives_its_rights() {
    let second = Some(ReceiverSettleMode::Second);
    let mut world = world(false);
    let client = client_of(&mut world, DOT_NET);
    assert_eq!(put(&mut world, client, MISSING).0, 404);
    world.create("missing", EntitySettings::default());
    world.script(client).attach_receiver(0, 1, "early", "missing", second);
    world.run();
    let (_, detaches) = world.link_frames(client);
    assert_eq!(detaches[0].error.as_ref().unwrap().condition, "amqp:unauthorized-access");
    assert_eq!(put(&mut world, client, MISSING).0, 202);
    world.script(client).attach_receiver(0, 2, "late", "missing", second);
    world.run();
    assert_eq!(world.link_frames(client).1, vec![]);
}

#[test]
fn a_token_for_the_host_of_another_namespace_is_401_and_gives_nothing() {
    let cases = [
        // audience, whether it is of this namespace
        ("amqps://localhost/q", true),
        ("amqps://LOCALHOST:5671/q", true),
        ("q", true),
        ("amqps://team-a.example/q", false),
        ("amqps://TEAM-A.example:5671/q", false),
        ("amqps://xn--mnchen-3ya.example/q", false),
    ];
    for has_others in [true, false] {
        for (audience, is_own) in cases {
            let mut world = world(false);
            if has_others {
                world.namespace().authority.token_hosts.judge_by(|host| {
                    let is_own = host.eq_ignore_ascii_case("localhost");
                    (!is_own).then(|| Box::new(ForeignHost::new(host, Some("team-a"), "default")))
                });
            }
            let client = client_of(&mut world, GO);
            let (status, text) = put(&mut world, client, audience);
            let is_taken = is_own || !has_others;
            assert_eq!(status, if is_taken { 202 } else { 401 }, "{audience}: {text}");
            let names_both = text.contains("`team-a`") && text.contains("`default`");
            assert_eq!(names_both, !is_taken, "{audience}: {text}");
            world.script(client).attach_receiver(0, 1, "r", "q", Some(ReceiverSettleMode::Second));
            world.run();
            assert_eq!(world.link_frames(client).1.is_empty(), is_taken, "{audience}");
        }
    }
}

fn request(operation: &str, audience: &str, token: &str) -> Vec<u8> {
    let request = MessageBuilder::new()
        .property(PropertyField::MessageId, AnnotationValue::Uuid([9; 16]))
        .application_property("operation", AnnotationValue::Str(operation))
        .application_property("name", AnnotationValue::Str(audience))
        .body_value(&Value::String(token.into()))
        .build();
    request.to_vec()
}

#[test]
fn answers_leave_in_the_order_of_their_requests() {
    let mut world = world(false);
    let client = client_of(&mut world, GO);
    let requests = [
        ("put-token", MISSING, TOKEN, 404),
        ("put-token", "sb://localhost/", TOKEN, 202),
        ("put-token", "sb://localhost/", "no token", 401),
        ("put-token", "sb://localhost/q", TOKEN, 202),
        ("make-coffee", "sb://localhost/q", TOKEN, 501),
        ("put-token", MISSING, TOKEN, 404),
    ];
    // All of them in one write: the core is asked when the last has come.
    for (operation, audience, token, _) in requests {
        world.transfer(client, 100, true, &request(operation, audience, token));
    }
    world.run();
    let answers = world.transfers(client).into_iter();
    let answers: Vec<_> = answers.map(|(_, answer)| status(&answer, "status-code")).collect();
    assert_eq!(answers, requests.map(|(.., status)| status));
}

#[test]
fn so_many_answers_wait_for_the_core_and_one_more_detaches() {
    let limit = 4;
    for (count, fits) in [(limit, true), (limit + 1, false)] {
        let config = GatewayConfig { max_waiting_replies: limit, ..GatewayConfig::default() };
        let mut world = World::with(config, Anonymous::Deny);
        let client = client_of(&mut world, GO);
        for _ in 0..count {
            world.transfer(client, 100, true, &request("put-token", MISSING, TOKEN));
        }
        world.run();
        let (_, detaches) = world.link_frames(client);
        let conditions: Vec<_> =
            detaches.into_iter().map(|detach| detach.error.unwrap().condition.to_string()).collect();
        let expected: &[&str] = if fits { &[] } else { &["amqp:resource-limit-exceeded"] };
        assert_eq!(conditions, expected, "{count}");
    }
}

#[test]
fn scripted_python_is_told_of_a_missing_entity_as_of_a_right_only_where_a_principal_asks() {
    let mut world = crate::token_logins::world();
    for (product, token, audience, expected) in [
        ("azsdk-python-servicebus", JWT, MISSING, 401),
        ("azsdk-python-servicebus", JWT, "sb://localhost/q", 202),
        ("azsdk-python-servicebus", TOKEN, MISSING, 202),
        (JAVASCRIPT, JWT, MISSING, 202),
        (GO, JWT, MISSING, 404),
    ] {
        let client = client_of(&mut world, product);
        world.put_token(client, audience, token);
        let (_, answer) = world.transfers(client).pop().unwrap();
        assert_eq!(status(&answer, "status-code"), expected, "{product} {audience}");
        if expected == 401 {
            let text = property(&answer, "status-description").unwrap();
            let begins = "Unauthorized access. The messaging entity 'missing' could not be found.";
            assert!(text.starts_with(begins), "{text}");
        }
    }
}
