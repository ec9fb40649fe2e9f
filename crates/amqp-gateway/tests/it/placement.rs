//! The namespace that a connection means: what the shell is asked, and what its answers do to log-in, limits and core.

use std::{sync::Arc, time::Duration};

use amqp_codec::{
    frame::{FrameKind, ProtocolHeader},
    message::MessageBuilder,
    performative::{Close, Open, Performative, SaslCode, SaslFrame, SaslInit, SaslResponse},
    raw::{AnnotationValue, RawMap, RawValue},
};
use amqp_gateway::{
    CloseReason, GatewayConfig, GatewayNamespace, Placement, PlacementRefusal, PlacementRequest,
};
use broker_auth::{
    Access, Anonymous, Authority, Credentials, LoginRefusal, NamedKey, Right, Rights, Secret, User,
};
use broker_core::Command;
use bytes::{Bytes, BytesMut};
use testkit::Incoming;

use crate::harness::{TOKEN, World, status};

fn user(name: &str, password: &str, rights: Rights) -> User {
    User { name: name.into(), password: Secret::new(password), access: Access::namespace(rights) }
}

fn namespace(name: &str, credentials: Credentials) -> GatewayNamespace {
    GatewayNamespace {
        name: name.into(),
        authority: Arc::new(Authority::new(credentials)),
        config: Arc::new(GatewayConfig::default()),
    }
}

/// A namespace with the user `ann`, and `both` who may do everything there. The development key signs tokens.
fn a() -> GatewayNamespace {
    let users = vec![user("ann", "of-a", Rights::ALL), user("both", "same", Rights::ALL)];
    namespace("a", Credentials { users, keys: vec![NamedKey::development()], ..Credentials::default() })
}

/// A namespace with the user `bob`, and `both` who may only receive there. It has no keys.
fn b() -> GatewayNamespace {
    let listen = Rights::NONE.with(Right::Listen);
    let users = vec![user("bob", "of-b", Rights::ALL), user("both", "same", listen)];
    namespace("b", Credentials { users, ..Credentials::default() })
}

/// A namespace where clients without credentials may do everything.
fn open_to_all() -> GatewayNamespace {
    namespace("open", Credentials { anonymous: Anonymous::Allow, ..Credentials::default() })
}

fn unknown() -> PlacementRefusal {
    PlacementRefusal::Unknown { hostname: "nowhere.example".into() }
}

/// A broker whose shell answers the first request so, and the open so.
fn world_with(login: Placement, open: Placement) -> World {
    let mut world = World::new();
    world.placements = Some(Box::new(move |request| {
        Some(match request {
            PlacementRequest::Login { .. } => login.clone(),
            PlacementRequest::Open { .. } => open.clone(),
        })
    }));
    world
}

fn say_sasl(world: &mut World, client: usize, frame: &SaslFrame) {
    let mut body = BytesMut::new();
    frame.encode(&mut body);
    world.script(client).frame(FrameKind::Sasl, 0, &body);
}

/// Outcomes of SASL, and performatives, that have come since the last call.
fn heard(world: &mut World, client: usize) -> (Vec<SaslFrame>, Vec<Performative>) {
    let (mut sasl, mut frames) = (Vec::new(), Vec::new());
    for incoming in world.received(client) {
        match incoming {
            Incoming::Sasl(frame) if !matches!(frame, SaslFrame::Mechanisms(_)) => sasl.push(frame),
            Incoming::Frame(frame) => frames.push(frame.performative),
            _ => {}
        }
    }
    (sasl, frames)
}

fn code(sasl: &[SaslFrame]) -> Option<SaslCode> {
    match sasl.last() {
        Some(SaslFrame::Outcome(outcome)) => Some(outcome.code),
        _ => None,
    }
}

/// Condition and text of the close among the frames.
fn close_of(frames: &[Performative]) -> Option<(String, String)> {
    frames.iter().find_map(|frame| match frame {
        Performative::Close(close) => {
            let Close { error: Some(error) } = &**close else { panic!("a close without an error") };
            Some((error.condition.to_string(), error.description.clone().unwrap_or_default()))
        }
        _ => None,
    })
}

fn reason(world: &mut World, client: usize) -> Option<&'static str> {
    world.clients[client].gateway.record().ending().map(|ending| ending.reason)
}

fn named_open(hostname: Option<&str>) -> Open {
    Open { hostname: hostname.map(str::to_owned), ..Open::new("test") }
}

#[test]
fn the_shell_is_asked_with_the_host_names_as_the_client_wrote_them() {
    let long = "n".repeat(5_000);
    let cases = [
        // of sasl-init, of the open
        (None, None),
        (None, Some("localhost")),
        (Some("localhost"), None),
        (Some("team-a.example"), Some("vhost:team-b")),
        (Some("vhost:/"), Some("[::1]:5672")),
        (Some(""), Some("")),
        (Some("B\u{fc}ro.example"), Some("host/$servicebus/websocket")),
        (Some("x"), Some(&*long)),
    ];
    for (sasl, open) in cases {
        let mut world = world_with(Placement::To(a()), Placement::To(a()));
        let client = world.accept();
        let response = Some(Bytes::from_static(b"\0ann\0of-a"));
        let hostname = sasl.map(str::to_owned);
        let init = SaslInit { mechanism: "PLAIN".into(), initial_response: response, hostname };
        world.script(client).header(ProtocolHeader::Sasl);
        say_sasl(&mut world, client, &SaslFrame::Init(init));
        world.script(client).header(ProtocolHeader::Amqp).open_with(named_open(open));
        world.run();
        let expected = [
            PlacementRequest::Login { hostname: sasl.map(Box::from) },
            PlacementRequest::Open { hostname: open.map(Box::from), sasl_hostname: sasl.map(Box::from) },
        ];
        assert_eq!(world.asked, expected, "{sasl:?} {open:?}");
        assert_eq!(&*world.clients[client].gateway.about().namespace, "a");
    }
}

#[test]
fn a_client_without_sasl_is_placed_by_its_open_alone() {
    let namespace = open_to_all();
    let mut world = World::with(GatewayConfig::default(), Anonymous::Allow);
    world.placements = Some(Box::new(move |_| Some(Placement::To(namespace.clone()))));
    let client = world.accept();
    world.script(client).raw(b"AMQP\x00\x01\x00\x00").open_with(named_open(Some("open.example"))).begin(0);
    world.run();
    let expected = PlacementRequest::Open { hostname: Some("open.example".into()), sasl_hostname: None };
    assert_eq!(world.asked, [expected]);
    world.script(client).attach_sender(0, 1, "s", Some("q"));
    world.run();
    let (attaches, detaches) = world.link_frames(client);
    assert_eq!((attaches.len(), detaches.len()), (1, 0), "an anonymous client may do everything there");
}

/// All that a client can say without waiting for anything, ending with a message to `q`.
fn say_everything(world: &mut World, client: usize) {
    let message = MessageBuilder::new().data(b"early").build();
    let script = world.script(client);
    script.sasl_plain("ann", "of-a").open("test").begin(0).attach_sender(0, 1, "s", Some("q"));
    script.transfer(0, 1, 0, false, &message);
}

#[test]
fn nothing_reaches_the_core_before_the_open_is_placed_however_long_the_answer_takes() {
    for wait in [Duration::ZERO, Duration::from_secs(10)] {
        let mut world = World::new();
        let client = world.accept();
        say_everything(&mut world, client);
        let input = world.script(client).take_output();
        world.clients[client].gateway.handle_input(world.now, input);
        for _ in 0..2 {
            // As a shell that looks the namespace up elsewhere: deadlines and writing go on.
            world.now.instant += wait;
            let (now, gateway) = (world.now, &mut world.clients[client].gateway);
            gateway.handle_deadline(now);
            assert!(!gateway.wants_input(), "further input stays in the socket");
            assert!(gateway.take_placement_request().is_some());
            assert!(gateway.take_placement_request().is_none(), "each is asked once");
            assert_eq!(gateway.take_commands().len(), 0);
            gateway.handle_placement(now, Placement::To(a()));
        }
        let commands = world.clients[client].gateway.take_commands();
        assert!(matches!(commands.first(), Some(Command::Connect)), "{commands:?}");
        assert!(
            commands.iter().any(|command| matches!(command, Command::OpenProducer { .. })),
            "{commands:?}"
        );
        assert!(world.clients[client].gateway.take_placement_request().is_none());
    }
    // And all of it is done.
    let mut world = world_with(Placement::To(a()), Placement::To(a()));
    let client = world.accept();
    say_everything(&mut world, client);
    world.run();
    assert_eq!(world.active("q"), 1);
    assert_eq!(world.dispositions(client).len(), 1, "the message is answered");
}

/// End of a handshake: the outcome of SASL, the condition of a close, and the user or the refusal that was noted with
/// mechanism, reason, claimed name and namespace.
type LogIn = (Option<SaslCode>, Option<String>, Result<String, (&'static str, LoginRefusal, String, String)>);

fn log_in(world: &mut World, mechanism: &'static str, response: Option<&[u8]>) -> LogIn {
    let client = world.accept();
    world.script(client).sasl(mechanism, response).open("test").begin(0);
    world.run();
    let (sasl, frames) = heard(world, client);
    let gateway = &mut world.clients[client].gateway;
    let user = String::from(gateway.about().user);
    let noted = gateway.record().take_refused_logins().pop().map(|login| {
        assert_eq!(user, "anonymous", "no rights of another namespace are left");
        (login.mechanism, login.refused.reason, login.refused.key.into(), login.namespace.into())
    });
    (code(&sasl), close_of(&frames).map(|(condition, _)| condition), noted.map_or(Ok(user), Err))
}

/// Moment at which a log-in is refused.
#[derive(Clone, Copy, Debug)]
enum At {
    Sasl,
    Open,
}

#[test]
fn a_log_in_counts_where_the_open_leads() {
    use LoginRefusal::{Malformed, UnknownKey, WrongKey};
    let (a, b, everyone) = (a(), b(), open_to_all());
    let (to_a, to_b, to_open) = (Placement::To(a.clone()), Placement::To(b), Placement::To(everyone));
    let (maybe_a, refused) = (Placement::Uncertain(a), Placement::Refused(unknown()));
    let (ann, bob) = ("\0ann\0of-a", "\0bob\0of-b");
    let (wrong, guest, garbage) = ("\0ann\0guess", "\0guest\0guest", "garbage");
    let cases = [
        // response of PLAIN, namespace of the log-in and of the open, user or moment, reason, name and namespace
        (ann, &to_a, &to_a, Ok("ann")),
        (ann, &to_a, &to_b, Err((At::Open, UnknownKey, "ann", "b"))),
        (bob, &to_a, &to_b, Err((At::Sasl, UnknownKey, "bob", "a"))),
        (bob, &maybe_a, &to_b, Ok("bob")),
        (bob, &maybe_a, &to_a, Err((At::Open, UnknownKey, "bob", "a"))),
        (ann, &maybe_a, &to_a, Ok("ann")),
        (ann, &maybe_a, &to_b, Err((At::Open, UnknownKey, "ann", "b"))),
        (wrong, &to_a, &to_a, Err((At::Sasl, WrongKey, "ann", "a"))),
        (wrong, &maybe_a, &to_a, Err((At::Open, WrongKey, "ann", "a"))),
        (bob, &refused, &to_b, Ok("bob")),
        (guest, &refused, &to_b, Err((At::Open, UnknownKey, "guest", "b"))),
        // A response that cannot be read is refused everywhere.
        (garbage, &maybe_a, &to_b, Err((At::Sasl, Malformed, "", ""))),
    ];
    for (response, login, open, expected) in cases {
        let expected: LogIn = match expected {
            Ok(user) => (Some(SaslCode::Ok), None, Ok(user.to_owned())),
            Err((at, why, key, namespace)) => {
                let noted = Err(("plain", why, key.to_owned(), namespace.to_owned()));
                match at {
                    // A client whose SASL ends badly hears nothing of AMQP.
                    At::Sasl => (Some(SaslCode::Auth), None, noted),
                    At::Open => (Some(SaslCode::Ok), Some("amqp:unauthorized-access".into()), noted),
                }
            }
        };
        let mut world = world_with(login.clone(), open.clone());
        let found = log_in(&mut world, "PLAIN", Some(response.as_bytes()));
        assert_eq!(found, expected, "{response:?} {login:?} {open:?}");
    }
    // Clients that show a token later log in as nobody, wherever they go.
    let cases =
        [("ANONYMOUS", &to_a, &to_b), ("MSSBCBS", &maybe_a, &to_b), ("ANONYMOUS", &maybe_a, &to_open)];
    for (mechanism, login, open) in cases {
        let mut world = world_with(login.clone(), open.clone());
        let expected: LogIn = (Some(SaslCode::Ok), None, Ok("anonymous".to_owned()));
        assert_eq!(log_in(&mut world, mechanism, None), expected, "{mechanism} {login:?} {open:?}");
    }
}

#[test]
fn a_missing_response_is_asked_for_before_an_uncertain_log_in_is_judged() {
    let mut world = world_with(Placement::Uncertain(a()), Placement::To(b()));
    let client = world.accept();
    world.script(client).header(ProtocolHeader::Sasl);
    let init = SaslInit { mechanism: "PLAIN".into(), initial_response: None, hostname: None };
    say_sasl(&mut world, client, &SaslFrame::Init(init));
    world.run();
    let (sasl, _) = heard(&mut world, client);
    assert!(matches!(sasl[..], [SaslFrame::Challenge(_)]), "{sasl:?}");
    let response = SaslResponse { response: Bytes::from_static(b"\0bob\0of-b") };
    say_sasl(&mut world, client, &SaslFrame::Response(response));
    world.script(client).header(ProtocolHeader::Amqp).open("test").begin(0);
    world.run();
    let (sasl, frames) = heard(&mut world, client);
    assert_eq!((code(&sasl), close_of(&frames)), (Some(SaslCode::Ok), None));
    assert_eq!(&*world.clients[client].gateway.about().user, "bob");
    assert_eq!(world.asked.len(), 2, "a response is no second log-in");
}

#[test]
fn rights_are_those_of_the_open_and_not_of_the_log_in() {
    let mut world = world_with(Placement::To(a()), Placement::To(b()));
    let client = world.accept();
    world.script(client).sasl_plain("both", "same").open("test").begin(0);
    world.run();
    world.received(client);
    world.script(client).attach_sender(0, 1, "s", Some("q")).attach_receiver(0, 2, "r", "q", None);
    world.run();
    let (attaches, detaches) = world.link_frames(client);
    assert_eq!(attaches.len(), 2);
    let conditions: Vec<_> =
        detaches.iter().map(|it| it.error.as_ref().unwrap().condition.to_string()).collect();
    assert_eq!(conditions, ["amqp:unauthorized-access"], "only the sender is refused");
}

#[test]
fn tokens_are_verified_by_the_authority_of_the_open() {
    for (login, open, expected) in [(a(), b(), 401), (b(), a(), 202)] {
        let mut world = world_with(Placement::To(login), Placement::To(open));
        let client = world.accept();
        world.script(client).sasl("ANONYMOUS", None).open("test").begin(0);
        world.cbs_links(client);
        world.put_token(client, "amqp://localhost", TOKEN);
        let (_, reply) = world.transfers(client).pop().unwrap();
        assert_eq!(status(&reply, "status-code"), expected);
    }
}

#[test]
fn a_client_without_sasl_is_closed_by_a_namespace_that_demands_a_log_in() {
    let mut world = World::with(GatewayConfig::default(), Anonymous::Allow);
    world.placements = Some(Box::new(|_| Some(Placement::To(b()))));
    let client = world.accept();
    world.script(client).raw(b"AMQP\x00\x01\x00\x00").open("test").begin(0);
    world.run();
    let (_, frames) = heard(&mut world, client);
    let (condition, text) = close_of(&frames).unwrap();
    assert_eq!(condition, "amqp:unauthorized-access");
    assert!(text.contains("The namespace 'b' demands a log-in by SASL."), "{text}");
    let refused = world.clients[client].gateway.record().take_refused_logins();
    let found: Vec<_> = refused.iter().map(|it| (it.mechanism, it.refused.reason, &*it.namespace)).collect();
    assert_eq!(found, [("none", LoginRefusal::NoCredentials, "b")]);
    assert_eq!(reason(&mut world, client), Some("log-in refused"));
}

#[test]
fn each_refusal_of_a_connection_has_its_condition_text_and_reason() {
    let name = || Arc::from("team-a");
    let long = "x".repeat(3_000);
    let cases = [
        // Java and JS take a missing namespace for final only where the text begins so.
        (
            unknown(),
            "amqp:not-found",
            "The messaging entity 'nowhere.example' could not be found: no namespace has this host name.",
            "unknown host name",
        ),
        (
            PlacementRefusal::Unknown { hostname: long.as_str().into() },
            "amqp:not-found",
            "The messaging entity 'xxxxxxxx",
            "unknown host name",
        ),
        (
            PlacementRefusal::Deleted { namespace: name() },
            "amqp:not-found",
            "The messaging entity 'team-a' could not be found: the namespace has been deleted.",
            "namespace deleted",
        ),
        (
            PlacementRefusal::OnHold { namespace: name() },
            "com.microsoft:server-busy",
            "The namespace 'team-a' is held for maintenance.",
            "namespace held",
        ),
        (
            PlacementRefusal::TooManyConnections { namespace: name(), limit: 7 },
            "amqp:resource-limit-exceeded",
            "ConnectionsQuotaExceeded for namespace: 'team-a' has 7 connections, as many as it may.",
            "too many connections",
        ),
        (
            PlacementRefusal::BeyondShare { namespace: name(), connections: 7 },
            "amqp:resource-limit-exceeded",
            "ConnectionsQuotaExceeded for namespace: 'team-a' has 7 connections, and the last ones that the broker takes are kept",
            "too many connections",
        ),
    ];
    for (refusal, condition, text, why) in cases {
        let mut world = world_with(Placement::To(a()), Placement::Refused(refusal.clone()));
        let client = world.accept();
        world.script(client).sasl_plain("ann", "of-a").open("test").begin(0);
        world.run();
        let (sasl, frames) = heard(&mut world, client);
        assert_eq!(code(&sasl), Some(SaslCode::Ok), "{refusal:?}");
        let [Performative::Open(open), Performative::Close(_)] = &frames[..] else { panic!("{frames:?}") };
        let marked = open.properties.as_ref().unwrap().get("amqp:connection-establishment-failed");
        assert_eq!(marked.and_then(RawValue::as_bool), Some(true), "{refusal:?}");
        let (found, description) = close_of(&frames).unwrap();
        assert_eq!(found, condition, "{refusal:?}");
        assert!(description.starts_with(text), "{description}");
        assert!(description.len() < 600, "a long host name is cut: {}", description.len());
        assert_eq!(reason(&mut world, client), Some(why), "{refusal:?}");
        assert!(world.clients[client].gateway.disconnected().is_empty(), "the core never knew it");
    }
}

#[test]
fn a_namespace_that_is_held_or_deleted_closes_its_connections() {
    let cases = [
        (
            CloseReason::NamespaceHeld,
            "com.microsoft:server-busy",
            "The namespace 'a' is held",
            "namespace held",
        ),
        (
            CloseReason::NamespaceDeleted,
            "amqp:not-found",
            "The messaging entity 'a' could not be found: the namespace has been deleted.",
            "namespace deleted",
        ),
    ];
    for (why, condition, text, expected) in cases {
        let mut world = world_with(Placement::To(a()), Placement::To(a()));
        let client = world.accept();
        world.script(client).sasl_plain("ann", "of-a").open("test").begin(0);
        world.run();
        world.received(client);
        let now = world.now;
        world.clients[client].gateway.close(now, why);
        world.run();
        let (_, frames) = heard(&mut world, client);
        let (found, description) = close_of(&frames).unwrap();
        assert_eq!(found, condition);
        assert!(description.starts_with(text), "{description}");
        assert_eq!(reason(&mut world, client), Some(expected));
    }
}

/// Go and JavaScript use a closed connection on, or wait on it, where its condition is another one.
#[test]
fn a_library_that_reconnects_only_after_forced_closes_is_told_the_reason_with_a_forced_close() {
    let held = || PlacementRefusal::OnHold { namespace: "team-a".into() };
    let full = || PlacementRefusal::TooManyConnections { namespace: "team-a".into(), limit: 1 };
    let texts = [
        "The namespace 'team-a' is held for maintenance.",
        "ConnectionsQuotaExceeded for namespace: 'team-a'",
    ];
    let (busy, limit) = ("com.microsoft:server-busy", "amqp:resource-limit-exceeded");
    let forced = "amqp:connection:forced";
    let products = [
        ("MSGolangClient", [forced, forced]),
        ("MSJSClient", [forced, forced]),
        ("azsdk-net-ServiceBus", [busy, limit]),
        ("QpidJMS", [busy, limit]),
    ];
    for (product, conditions) in products {
        for ((refusal, condition), text) in [held(), full()].into_iter().zip(conditions).zip(texts) {
            let mut world = world_with(Placement::To(a()), Placement::Refused(refusal));
            let client = world.accept();
            let mut open = Open::new("c");
            open.properties = Some(RawMap::with_symbol_keys(&[("product", AnnotationValue::Str(product))]));
            world.script(client).sasl_plain("ann", "of-a").open_with(open);
            world.run();
            let (_, frames) = heard(&mut world, client);
            let (found, description) = close_of(&frames).unwrap();
            assert_eq!(found, condition, "{product}");
            assert!(description.starts_with(text), "{product}: {description}");
        }
    }
}

#[test]
fn limits_and_names_are_those_of_the_placed_namespace() {
    let config = |max_message_bytes, max_sessions, auto_create| {
        let container_id = format!("container-{max_sessions}");
        Arc::new(GatewayConfig {
            max_message_bytes,
            max_sessions,
            auto_create,
            container_id,
            ..GatewayConfig::default()
        })
    };
    let placed = GatewayNamespace { config: config(2_000, 3, true), ..a() };
    let mut world = World::with(GatewayConfig::clone(&config(1_000_000, 100, false)), Anonymous::Deny);
    world.placements = Some(Box::new(move |_| Some(Placement::To(placed.clone()))));
    let client = world.accept();
    world.script(client).sasl_plain("ann", "of-a").open("test").begin(0);
    world.script(client).attach_sender(0, 1, "s", Some("made-by-the-client"));
    world.run();
    let frames = world.frames(client);
    let open = frames.iter().find_map(|frame| match &frame.performative {
        Performative::Open(open) => Some((open.container_id.clone(), open.channel_max)),
        _ => None,
    });
    assert_eq!(open, Some(("container-3".to_owned(), 2)));
    let limit = frames.iter().find_map(|frame| match &frame.performative {
        Performative::Attach(attach) => Some(attach.max_message_size),
        _ => None,
    });
    assert_eq!(limit, Some(Some(2_000)), "and the queue was created");
    // Small limits hold for what comes next.
    world.script(client).begin(3);
    world.run();
    let (_, frames) = heard(&mut world, client);
    assert_eq!(close_of(&frames).unwrap().0, "amqp:connection:framing-error");
}

#[test]
fn a_connection_that_ends_before_the_answer_is_placed_nowhere() {
    type End = fn(&mut World, usize);
    let ends: [(&str, End, &str); 3] = [
        (
            "the stream ends",
            |world, client| {
                let now = world.now;
                world.clients[client].gateway.handle_eof(now);
            },
            "connection lost",
        ),
        (
            "the time for the open is over",
            |world, _| world.pass(GatewayConfig::default().open_time_out),
            "idle time-out",
        ),
        (
            "the broker stops",
            |world, client| {
                let now = world.now;
                world.clients[client].gateway.close(now, CloseReason::Shutdown);
            },
            "shutdown",
        ),
    ];
    for (case, end, expected) in ends {
        for waits_at_open in [false, true] {
            let mut world = World::new();
            world.placements = Some(Box::new(move |request| match request {
                PlacementRequest::Login { .. } => waits_at_open.then(|| Placement::To(a())),
                PlacementRequest::Open { .. } => None,
            }));
            let client = world.accept();
            say_everything(&mut world, client);
            world.run();
            assert_eq!(world.asked.len(), 1 + usize::from(waits_at_open), "{case}");
            end(&mut world, client);
            let now = world.now;
            let gateway = &mut world.clients[client].gateway;
            gateway.handle_placement(now, Placement::To(a()));
            assert_eq!(gateway.take_placement_request(), None, "{case}");
            assert_eq!(gateway.take_commands().len(), 0, "{case}");
            assert_eq!(gateway.record().ending().map(|it| it.reason), Some(expected), "{case}");
            assert!(gateway.disconnected().is_empty(), "the core never knew it: {case}");
        }
    }
}

#[test]
fn an_answer_that_nobody_waits_for_changes_nothing() {
    let mut world = world_with(Placement::To(a()), Placement::To(a()));
    let client = world.accept();
    world.script(client).sasl_plain("ann", "of-a").open("test").begin(0);
    world.run();
    world.received(client);
    let now = world.now;
    world.clients[client].gateway.handle_placement(now, Placement::To(b()));
    world.clients[client].gateway.handle_placement(now, Placement::Refused(unknown()));
    world.run();
    let about = world.clients[client].gateway.about();
    assert_eq!((&*about.namespace, &*about.user), ("a", "ann"));
    assert_eq!(world.received(client), []);
}

#[test]
fn a_connection_beyond_the_limit_of_the_broker_is_told_so_wherever_it_leads() {
    let mut world = world_with(Placement::To(a()), Placement::Refused(unknown()));
    let client = world.accept();
    let slot = &mut world.clients[client];
    let (other, authority) = (a(), a().authority);
    let peer = amqp_gateway::Peer { tls: false, certificate_subject: None, loopback: true };
    let gateway =
        amqp_gateway::Gateway::new(other.config, authority, broker_core::ClientId(1), peer, 1, world.now);
    slot.gateway = gateway.refused_over_limit(7);
    world.script(client).sasl_plain("ann", "of-a").open("test").begin(0);
    world.run();
    let (_, frames) = heard(&mut world, client);
    let (condition, text) = close_of(&frames).unwrap();
    assert_eq!(condition, "amqp:resource-limit-exceeded");
    assert!(text.starts_with("ConnectionsQuotaExceeded for namespace: it has 7"), "{text}");
    assert_eq!(world.asked, [PlacementRequest::Login { hostname: None }], "the open is not placed");
}
