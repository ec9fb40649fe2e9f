//! Users, keys, certificates and issuers of one namespace and of several, in those that have them and in those that have not.

use std::sync::Arc;

use amqp_codec::{
    frame::{FrameKind, ProtocolHeader},
    performative::{
        Attach, Detach, Open, Performative, SaslCode, SaslFrame, SaslInit, SaslOutcome, Source, Target,
    },
    types::{Role, Symbol},
};
use broker_auth::{
    Access, Authority, ClaimGrant, ClientCertificate, Credentials, Issuer, IssuerConfig, KeySet, NamedKey,
    Right, Rights, Secret, User, sign_token,
};
use broker_server::{KeySource, NamespacePlan, ReloadableConfig, ServerConfig};
use bytes::BytesMut;
use serde_json::Value;
use testkit::{Incoming, Wire};

use crate::{
    broker::{Broker, QUEUE},
    client::Client,
    dialect::Sdk,
    http::{ask_host, connect},
    sdk_go::GO,
    team::{self, ROOT, basic, plain_response},
    tls::Certificates,
    token_hosts::plan,
    tokens::{AUDIENCE, ISSUER, Provider},
};

const NAMESPACES: [&str; 3] = ["default", "team-a", "team-b"];

/// A principal's name, and the namespaces that know its key, its user, its certificate and its role.
type Principal = (&'static str, &'static [&'static str]);

const PRINCIPALS: [Principal; 6] = [
    ("only-default", &["default"]),
    ("only-a", &["team-a"]),
    ("only-b", &["team-b"]),
    ("a-and-b", &["team-a", "team-b"]),
    ("default-and-a", &["default", "team-a"]),
    ("everywhere", &["default", "team-a", "team-b"]),
];

fn key_of(principal: &str) -> String {
    format!("key of {principal}")
}

fn user_of(principal: &str) -> String {
    format!("user-{principal}")
}

fn password_of(principal: &str) -> String {
    format!("password of {principal}")
}

/// The credentials of a namespace: those of the principals that it knows.
fn authority(namespace: &str, principals: &[Principal]) -> Authority {
    let known = principals.iter().filter(|(_, namespaces)| namespaces.contains(&namespace));
    let mut credentials = Credentials::default();
    let mut grants = Vec::new();
    let access = Access::namespace(Rights::ALL);
    for (name, _) in known {
        credentials.keys.push(NamedKey {
            name: (*name).to_owned(),
            primary: Secret::new(key_of(name)),
            secondary: None,
            access: access.clone(),
        });
        credentials.users.push(User {
            name: user_of(name),
            password: Secret::new(password_of(name)),
            access: access.clone(),
        });
        credentials
            .certificates
            .push(ClientCertificate { subject: format!("CN={name}"), access: access.clone() });
        grants.push(ClaimGrant { claim: "roles".into(), value: (*name).to_owned(), access: access.clone() });
    }
    let config = IssuerConfig {
        issuer: ISSUER.into(),
        audiences: vec![AUDIENCE.into()],
        skew_seconds: 0,
        grants,
        refreshable: true,
    };
    Authority::new(credentials).with_issuers(vec![Issuer::new(config, KeySet::default())])
}

fn sources(url: &str) -> Vec<KeySource> {
    vec![KeySource { issuer: 0, url: url.to_owned(), authorities: None }]
}

fn plans(url: &str, principals: &[Principal]) -> Vec<NamespacePlan> {
    let of = |name: &&str| NamespacePlan {
        authority: Arc::new(authority(name, principals)),
        key_sources: sources(url),
        ..plan(name)
    };
    NAMESPACES[1..].iter().map(of).collect()
}

/// The broker has the namespaces, and the principals in them.
fn configure(config: &mut ServerConfig, url: &str) {
    config.authority = Arc::new(authority("default", &PRINCIPALS));
    config.key_sources = sources(url);
    config.namespaces = plans(url, &PRINCIPALS);
}

/// A broker with all principals, and what they log in with.
struct World {
    certificates: Certificates,
    provider: Arc<Provider>,
    broker: Broker,
}

impl World {
    fn start() -> (Self, String) {
        let certificates = Certificates::new();
        let (provider, url) = Provider::start();
        let broker = certificates.broker_with(|config| configure(config, &url));
        (Self { certificates, provider, broker }, url)
    }

    /// Logs in by SASL; `hosts` are those of `sasl-init` and of the open.
    fn by_sasl(
        &self,
        (mechanism, response): (&'static str, &[u8]),
        hosts: (Option<&str>, &str),
    ) -> Result<(), String> {
        enter(Wire::connect(self.broker.address).unwrap(), (mechanism, response), hosts).map(drop)
    }

    /// Puts a token at `$cbs`, and attaches.
    fn by_token(&self, kind: &str, token: String, namespace: &str) -> Result<(), String> {
        let open = Open { hostname: Some(host(namespace)), ..(GO.open)() };
        let mut sdk = Sdk::open_over(Wire::connect(self.broker.address).unwrap(), &GO, open);
        let (status, text) = sdk.put_for(kind, &sdk.audience(QUEUE), token);
        let channel = sdk.session();
        match attached(&mut sdk.client, channel) {
            Ok(()) if status == 202 => Ok(()),
            Err(condition) if status == 401 => Err(condition),
            other => panic!("{status} {text} {other:?}"),
        }
    }

    fn by_http(&self, login: &str, namespace: &str) -> Result<(), String> {
        let mut stream = connect(self.broker.address);
        asked(ask_host(&mut stream, &host(namespace), GET, Some(login), ""))
    }
}

const GET: &str = "GET /orders?api-version=2021-05";

fn asked((status, text): (u16, String)) -> Result<(), String> {
    if status == 200 { Ok(()) } else { Err(format!("{status} {text}")) }
}

fn host(namespace: &str) -> String {
    format!("{namespace}.localhost")
}

/// Attaches a sender to the queue, or says the condition of the refusal.
fn attached<S: std::io::Read + std::io::Write>(client: &mut Client<S>, channel: u16) -> Result<(), String> {
    let mut attach = Attach::new("link", 9, Role::Sender);
    (attach.source, attach.target) = (Some(Source::new("here")), Some(Target::new(QUEUE)));
    attach.initial_delivery_count = Some(0);
    client.wire.script.attach(channel, attach);
    if client.wire.attached().unwrap().target.is_some() {
        return Ok(());
    }
    Err(client.wire.detached().unwrap().error.unwrap().condition.to_string())
}

/// Logs in, opens and attaches a sender to the queue, or says how that was refused.
fn enter<S: std::io::Read + std::io::Write>(
    mut wire: Wire<S>,
    (mechanism, response): (&'static str, &[u8]),
    (sasl_host, open_host): (Option<&str>, &str),
) -> Result<Client<S>, String> {
    let init = SaslInit {
        mechanism: Symbol::from(mechanism),
        initial_response: Some(response.to_vec().into()),
        hostname: sasl_host.map(str::to_owned),
    };
    let mut body = BytesMut::new();
    SaslFrame::Init(init).encode(&mut body);
    wire.script.header(ProtocolHeader::Sasl).frame(FrameKind::Sasl, 0, &body).header(ProtocolHeader::Amqp);
    wire.script.open_with(Open { hostname: Some(open_host.to_owned()), ..Open::new("client") }).begin(0);
    loop {
        match wire.next_incoming().unwrap() {
            Incoming::Sasl(SaslFrame::Outcome(SaslOutcome { code, .. })) if code != SaslCode::Ok => {
                return Err(format!("{code:?}"));
            }
            Incoming::Frame(frame) => match frame.performative {
                Performative::Close(close) => return Err(close.error.unwrap().condition.to_string()),
                Performative::Begin(_) => break,
                _ => {}
            },
            _ => {}
        }
    }
    let mut client = Client::on(wire);
    attached(&mut client, 0).map(|()| client)
}

/// Logs in to a namespace with what this principal has, or says how that was refused.
type Way = fn(&World, &str, &str) -> Result<(), String>;

const WAYS: [(&str, Way, &str); 12] = [
    (
        "a key by PLAIN",
        |world, name, to| world.by_sasl(("PLAIN", &plain_response(name, &key_of(name))), (None, &host(to))),
        UNAUTHORIZED,
    ),
    (
        "a key by PLAIN, where the log-in names the host",
        |world, name, to| {
            let host = host(to);
            world.by_sasl(("PLAIN", &plain_response(name, &key_of(name))), (Some(&host), &host))
        },
        "Auth",
    ),
    (
        "a user by PLAIN",
        |world, name, to| {
            let response = plain_response(&user_of(name), &password_of(name));
            world.by_sasl(("PLAIN", &response), (None, &format!("vhost:{to}")))
        },
        UNAUTHORIZED,
    ),
    (
        "a user by PLAIN, where the log-in names the host",
        |world, name, to| {
            let response = plain_response(&user_of(name), &password_of(name));
            world.by_sasl(("PLAIN", &response), (Some(&host(to)), &host(to)))
        },
        "Auth",
    ),
    (
        "a certificate by EXTERNAL",
        |world, name, to| {
            let stream = world.certificates.stream(world.broker.tls_address(), Some(name));
            enter(Wire::over(stream), ("EXTERNAL", b""), (None, &host(to))).map(drop)
        },
        UNAUTHORIZED,
    ),
    (
        "a certificate over HTTPS",
        |world, name, to| {
            let mut stream = world.certificates.stream(world.broker.tls_address(), Some(name));
            asked(ask_host(&mut stream, &host(to), GET, None, ""))
        },
        "401",
    ),
    (
        "a key's token at $cbs",
        |world, name, to| world.by_token("servicebus.windows.net:sastoken", signed(name, to), to),
        UNAUTHORIZED,
    ),
    ("a key's token over HTTP", |world, name, to| world.by_http(&signed(name, to), to), "401"),
    ("a key over HTTP", |world, name, to| world.by_http(&basic(name, &key_of(name)), to), "401"),
    (
        "a user over HTTP",
        |world, name, to| world.by_http(&basic(&user_of(name), &password_of(name)), to),
        "401",
    ),
    (
        "a role at $cbs",
        |world, name, to| world.by_token("jwt", world.provider.token(&[name], 600), to),
        UNAUTHORIZED,
    ),
    // The keys of the provider are there by now.
    (
        "a role by OAUTHBEARER",
        |world, name, to| {
            let response = format!("n,,\x01auth=Bearer {}\x01\x01", world.provider.token(&[name], 600));
            world.by_sasl(("OAUTHBEARER", response.as_bytes()), (None, &host(to)))
        },
        UNAUTHORIZED,
    ),
];

const UNAUTHORIZED: &str = "amqp:unauthorized-access";

fn signed(name: &str, namespace: &str) -> String {
    let until = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() + 600;
    sign_token(&format!("amqps://{}/", host(namespace)), name, &Secret::new(key_of(name)), until)
}

#[test]
fn each_log_in_opens_the_namespaces_that_know_it_and_no_other() {
    let (world, _) = World::start();
    for (way, log_in, refusal) in WAYS {
        for (name, known) in PRINCIPALS {
            for namespace in NAMESPACES {
                let case = format!("{way}: {name} in {namespace}");
                match log_in(&world, name, namespace) {
                    Ok(()) => assert!(known.contains(&namespace), "{case}"),
                    Err(told) => {
                        assert!(!known.contains(&namespace), "{case}: {told}");
                        assert!(told.starts_with(refusal), "{case}: {told}");
                    }
                }
            }
        }
    }
    // The keys of the provider are there by now, and so is HTTP's answer: who it is, is known.
    for (name, known) in PRINCIPALS {
        for namespace in NAMESPACES {
            let login = format!("Bearer {}", world.provider.token(&[name], 600));
            let told = world.by_http(&login, namespace);
            let case = format!("{name} in {namespace}: {told:?}");
            assert_eq!(told.is_ok(), known.contains(&namespace), "{case}");
            assert!(told.is_ok() || told.is_err_and(|told| told.starts_with("403")), "{case}");
        }
    }
}

#[test]
fn a_log_in_that_is_good_where_sasl_leads_is_judged_again_where_the_open_leads() {
    let (world, _) = World::start();
    for (name, known) in PRINCIPALS {
        for at in NAMESPACES {
            for to in NAMESPACES {
                let response = plain_response(&user_of(name), &password_of(name));
                let told = world.by_sasl(("PLAIN", &response), (Some(&host(at)), &host(to)));
                let expected = match (known.contains(&at), known.contains(&to)) {
                    (true, true) => Ok(()),
                    (true, false) => Err(UNAUTHORIZED.to_owned()),
                    (false, _) => Err("Auth".to_owned()),
                };
                assert_eq!(told, expected, "{name} at {at} to {to}");
            }
        }
    }
}

#[test]
fn one_name_in_two_namespaces_has_in_each_the_key_and_the_rights_of_that_one() {
    let rights = |right: Right| Access::namespace(Rights::from_iter([right]));
    let of = |name: &str, text: &str, right: Right| {
        let mut credentials = Credentials::default();
        credentials.keys.push(NamedKey {
            name: "till".into(),
            primary: Secret::new(text),
            secondary: None,
            access: rights(right),
        });
        credentials.users.push(User {
            name: "user-till".into(),
            password: Secret::new(text),
            access: rights(right),
        });
        NamespacePlan { authority: Arc::new(Authority::new(credentials)), ..plan(name) }
    };
    let broker = Broker::with(|config| {
        config.namespaces = vec![of("team-a", "a", Right::Send), of("team-b", "b", Right::Listen)];
    });
    for name in ["till", "user-till"] {
        for (namespace, text, opens) in [
            ("team-a", "a", Some(Role::Sender)),
            ("team-b", "b", Some(Role::Receiver)),
            ("team-a", "b", None),
            ("team-b", "a", None),
            ("default", "a", None),
            ("default", "b", None),
        ] {
            let case = format!("{name} with {text} in {namespace}");
            let open = Open { hostname: Some(host(namespace)), ..Open::new("c") };
            let entered = team::enter(&broker, ("PLAIN", Some(&plain_response(name, text))), open);
            let Some(opens) = opens else {
                assert_eq!(entered.err().expect(&case).condition, UNAUTHORIZED, "{case}");
                continue;
            };
            let mut client = entered.unwrap();
            for (handle, role) in [(1, Role::Sender), (2, Role::Receiver)] {
                let mut attach = Attach::new(format!("link-{handle}"), handle, role);
                let (source, target) = if role == Role::Sender { ("c", QUEUE) } else { (QUEUE, "c") };
                (attach.source, attach.target) = (Some(Source::new(source)), Some(Target::new(target)));
                attach.initial_delivery_count = (role == Role::Sender).then_some(0);
                if role == opens {
                    client.attach(0, attach);
                } else {
                    assert_eq!(client.refused(0, attach).condition, UNAUTHORIZED, "{case}");
                }
            }
        }
    }
}

/// The error with which the broker detaches a link.
fn lost<S: std::io::Read + std::io::Write>(client: &mut Client<S>) -> String {
    let Detach { error, .. } = client.wire.detached().unwrap();
    error.unwrap().condition.to_string()
}

#[test]
fn a_log_in_that_a_reload_takes_from_one_namespace_goes_on_in_the_other() {
    let (mut world, url) = World::start();
    let user = plain_response(&user_of("a-and-b"), &password_of("a-and-b"));
    let certificate = |world: &World, to: &str| {
        let stream = world.certificates.stream(world.broker.tls_address(), Some("a-and-b"));
        enter(Wire::over(stream), ("EXTERNAL", b""), (None, &host(to)))
    };
    let by_user = |world: &World, to: &str| {
        enter(Wire::connect(world.broker.address).unwrap(), ("PLAIN", &user), (None, &host(to)))
    };
    let mut users = ["team-a", "team-b"].map(|to| by_user(&world, to).unwrap());
    let mut owners = ["team-a", "team-b"].map(|to| certificate(&world, to).unwrap());
    let roles = |world: &World, to: &str| {
        let open = Open { hostname: Some(host(to)), ..(GO.open)() };
        let mut sdk = Sdk::open_over(Wire::connect(world.broker.address).unwrap(), &GO, open);
        let token = world.provider.token(&["a-and-b"], 600);
        assert_eq!(sdk.put("jwt", QUEUE, token), 202);
        let channel = sdk.session();
        assert_eq!(attached(&mut sdk.client, channel), Ok(()));
        sdk
    };
    let mut tokens = ["team-a", "team-b"].map(|to| roles(&world, to));

    let fewer = PRINCIPALS.map(
        |(name, namespaces)| {
            if name == "a-and-b" { (name, &["team-b"][..]) } else { (name, namespaces) }
        },
    );
    world.broker.reload(ReloadableConfig {
        namespaces: plans(&url, &fewer),
        key_sources: sources(&url),
        ..ReloadableConfig::new(authority("default", &fewer))
    });
    assert_eq!(lost(&mut users[0]), UNAUTHORIZED);
    assert_eq!(lost(&mut owners[0]), UNAUTHORIZED);
    assert_eq!(lost(&mut tokens[0].client), UNAUTHORIZED);
    // Open links of the others are as they were, and new ones are let in to that namespace alone.
    users[1].accepted(9, &["by the user"]);
    owners[1].accepted(9, &["by the owner"]);
    let token = world.provider.token(&["a-and-b"], 600);
    assert_eq!(tokens[1].put("jwt", QUEUE, token), 202);
    assert_eq!(tokens[0].put("jwt", QUEUE, world.provider.token(&["a-and-b"], 600)), 401);
    for (way, log_in, refusal) in WAYS {
        for (namespace, may) in [("team-a", false), ("team-b", true)] {
            let told = log_in(&world, "a-and-b", namespace);
            assert_eq!(told.is_ok(), may, "{way} in {namespace}: {told:?}");
            assert!(may || told.is_err_and(|told| told.starts_with(refusal)), "{way} in {namespace}");
        }
    }
}

/// The text of a key that the interface makes.
fn made(broker: &Broker, namespace: &str) -> String {
    let path = format!("PUT {ROOT}/{namespace}/keys/app");
    let (status, text) = administer(broker, &path, r#"{"rights":["manage"]}"#);
    assert_eq!(status, 201, "{text}");
    let shown: Value = serde_json::from_str(&text).unwrap();
    shown["primary"].as_str().unwrap().to_owned()
}

fn administer(broker: &Broker, request: &str, body: &str) -> (u16, String) {
    let login = basic("only-default", &key_of("only-default"));
    ask_host(&mut connect(broker.address), "localhost", request, Some(&login), body)
}

#[test]
fn a_key_that_the_interface_makes_opens_its_namespace_until_it_is_deleted() {
    let (world, _) = World::start();
    let broker = &world.broker;
    let keys = NAMESPACES.map(|namespace| made(broker, namespace));
    for (at, key) in keys.iter().enumerate() {
        let response = plain_response("app", key);
        for (index, namespace) in NAMESPACES.into_iter().enumerate() {
            let own = index == at;
            let case = format!("the key of {} in {namespace}", NAMESPACES[at]);
            let by_plain = world.by_sasl(("PLAIN", &response), (None, &host(namespace)));
            let by_http = world.by_http(&basic("app", key), namespace);
            let until = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() + 600;
            let resource = format!("http://{}/", host(namespace));
            let token = sign_token(&resource, "app", &Secret::new(key.as_str()), until);
            let by_token = world.by_http(&token, namespace);
            for told in [&by_plain, &by_http, &by_token] {
                assert_eq!(told.is_ok(), own, "{case}: {told:?}");
            }
            assert!(own || by_plain == Err(UNAUTHORIZED.to_owned()), "{case}: {by_plain:?}");
            assert!(own || by_http.is_err_and(|told| told.starts_with("401")), "{case}");
            assert!(own || by_token.is_err_and(|told| told.starts_with("401")), "{case}");
        }
        // It manages its namespace, and no namespaces, but where nobody else is named as administrator.
        let login = basic("app", key);
        let list =
            ask_host(&mut connect(broker.address), "localhost", &format!("GET {ROOT}"), Some(&login), "");
        assert_eq!(list.0, if at == 0 { 200 } else { 401 }, "{}: {}", NAMESPACES[at], list.1);
    }
    let mut clients = [1, 2].map(|at: usize| {
        let response = plain_response("app", &keys[at]);
        let wire = Wire::connect(broker.address).unwrap();
        enter(wire, ("PLAIN", &response), (None, &host(NAMESPACES[at]))).unwrap()
    });
    assert_eq!(administer(broker, &format!("DELETE {ROOT}/team-a/keys/app"), "").0, 200);
    assert_eq!(lost(&mut clients[0]), UNAUTHORIZED);
    clients[1].accepted(9, &["still here"]);
    assert!(world.by_http(&basic("app", &keys[1]), "team-a").is_err());
    assert_eq!(world.by_http(&basic("app", &keys[2]), "team-b"), Ok(()));
}
