//! Refused log-ins, as the audit log has them, and how connections end.

use amqp_gateway::{GatewayConfig, LoginRecord};
use broker_auth::{Anonymous, LoginRefusal};

use crate::harness::{KEY_NAME, START, TOKEN, TOKEN_ENDS, World};

fn refused(world: &mut World, client: usize) -> Vec<(&'static str, LoginRefusal, String, String)> {
    let taken = world.clients[client].gateway.record().take_refused_logins();
    let entry = |login: LoginRecord| {
        let LoginRecord { namespace, mechanism, refused, entity } = login;
        // The engine refuses a mechanism and a header by itself, before a namespace is known.
        assert!(namespace.is_empty() || &*namespace == "default", "{namespace}");
        (mechanism, refused.reason, refused.key.into(), entity.into())
    };
    taken.into_iter().map(entry).collect()
}

fn entry(
    mechanism: &'static str,
    reason: LoginRefusal,
    key: &str,
    entity: &str,
) -> (&'static str, LoginRefusal, String, String) {
    (mechanism, reason, key.to_owned(), entity.to_owned())
}

#[test]
fn each_refused_choice_of_a_mechanism_is_noted_once() {
    use LoginRefusal::*;
    let cases: [(&str, Option<&[u8]>, _); 5] = [
        ("PLAIN", Some(b"\0RootManageSharedAccessKey\0other"), entry("plain", WrongKey, KEY_NAME, "")),
        ("PLAIN", Some(b"\0nobody\0other"), entry("plain", UnknownKey, "nobody", "")),
        ("PLAIN", Some(b"garbage"), entry("plain", Malformed, "", "")),
        ("EXTERNAL", None, entry("external", MechanismNotOffered, "", "")),
        ("SCRAM-SHA-512", Some(b"n,,n=x,r=y"), entry("other", MechanismNotOffered, "", "")),
    ];
    for (mechanism, response, expected) in cases {
        let mut world = World::new();
        let client = world.accept();
        world.script(client).sasl(mechanism, response);
        world.run();
        assert_eq!(refused(&mut world, client), [expected], "{mechanism}");
        assert_eq!(refused(&mut world, client), [], "it was taken");
    }
}

#[test]
fn each_refused_token_is_noted_with_the_key_that_it_names() {
    use LoginRefusal::*;
    let mut world = World::new();
    let client = world.accept();
    world.script(client).sasl("ANONYMOUS", None).open("test").begin(0);
    world.cbs_links(client);
    world.put_token(client, "amqp://localhost/q", TOKEN);
    assert_eq!(refused(&mut world, client), [], "a good token is no refusal");
    world.put_token(client, "amqp://localhost/q", &TOKEN.replace("VLVc", "VLVd"));
    world.put_token(client, "amqp://localhost/q", &TOKEN.replace(KEY_NAME, "nobody"));
    let place = "amqp://localhost/q";
    let expected = [entry("cbs", WrongKey, KEY_NAME, place), entry("cbs", UnknownKey, "nobody", place)];
    assert_eq!(refused(&mut world, client), expected);
    world.pass(std::time::Duration::from_millis(TOKEN_ENDS * 1_000 - START));
    let later = world.accept();
    world.script(later).sasl("ANONYMOUS", None).open("test").begin(0);
    world.cbs_links(later);
    world.put_token(later, place, TOKEN);
    assert_eq!(refused(&mut world, later), [entry("cbs", Expired, KEY_NAME, place)]);
}

#[test]
fn a_client_without_credentials_is_noted_once_when_it_asks_for_something() {
    use LoginRefusal::*;
    for (mechanism, name) in [("ANONYMOUS", "anonymous"), ("MSSBCBS", "mssbcbs")] {
        let mut world = World::new();
        let client = world.accept();
        world.script(client).sasl(mechanism, None).open("test").begin(0);
        world.run();
        assert_eq!(refused(&mut world, client), [], "most clients show a token next");
        for handle in 1..4 {
            world.script(client).attach_sender(0, handle, &format!("s{handle}"), Some("q"));
        }
        world.run();
        let [(found, reason, key, entity)] = &refused(&mut world, client)[..] else { panic!("{mechanism}") };
        assert_eq!((*found, *reason, &**key), (name, NoCredentials, ""));
        assert!(entity.ends_with('q'), "{entity}");
    }
    // AMQP without SASL, which is taken only where anonymous clients may do everything.
    let mut world = World::new();
    let client = world.accept();
    world.script(client).raw(b"AMQP\x00\x01\x00\x00");
    world.run();
    assert_eq!(refused(&mut world, client), [entry("none", NoCredentials, "", "")]);
}

#[test]
fn a_key_that_lacks_a_right_is_no_refused_log_in() {
    let (mut world, client) = World::limited(broker_auth::Right::Listen);
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    assert_eq!(refused(&mut world, client), []);
}

#[test]
fn each_end_of_a_connection_has_its_reason() {
    let reason = |world: &mut World, client: usize| {
        world.clients[client].gateway.record().ending().map(|it| it.reason)
    };
    let mut world = World::with(GatewayConfig::default(), Anonymous::Deny);
    let clients: Vec<usize> = (0..5).map(|_| world.plain()).collect();
    assert!(clients.iter().all(|client| reason(&mut world, *client).is_none()));
    world.script(clients[0]).close(None);
    world.run();
    let now = world.now;
    world.clients[clients[1]].gateway.handle_eof(now);
    world.clients[clients[2]].gateway.close(now, amqp_gateway::CloseReason::Shutdown);
    world.clients[clients[3]].gateway.close(now, amqp_gateway::CloseReason::Operator);
    world.script(clients[4]).transfer(9, 77, 0, false, b"");
    world.run();
    let found: Vec<_> = clients.iter().map(|client| reason(&mut world, *client)).collect();
    let expected =
        ["closed by the client", "connection lost", "shutdown", "closed by an operator", "protocol error"];
    assert_eq!(found, expected.map(Some));
    // What follows changes nothing.
    world.clients[clients[3]].gateway.handle_eof(now);
    assert_eq!(reason(&mut world, clients[3]), Some("closed by an operator"));
    let silent = world.plain();
    let limit = GatewayConfig::default().idle_time_out * 2;
    world.pass(limit);
    let ending = world.clients[silent].gateway.record().ending().unwrap();
    assert_eq!((ending.reason, &*ending.condition), ("idle time-out", "amqp:resource-limit-exceeded"));
    assert!(ending.description.contains("nothing received for"), "{ending:?}");
}
