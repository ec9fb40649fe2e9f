//! Log-ins with a token of an identity provider: OAUTHBEARER and XOAUTH2.

use std::{sync::Arc, time::Duration};

use amqp_codec::performative::{Error, Performative, SaslCode, SaslFrame};
use amqp_gateway::GatewayConfig;
use broker_auth::{
    Access, Anonymous, Authority, ClaimGrant, Credentials, Issuer, IssuerConfig, KeySet, LoginRefusal, Right,
    Rights,
};
use broker_core::Work;
use testkit::Incoming;

use crate::harness::{START, World};

/// Of `https://login.test/` for `ferrybus`, subject `till-7`, role `till`, signed with the key `one`. Ends 600 s after
/// [`START`].
pub(crate) const JWT: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6Im9uZSJ9.eyJpc3MiOiJodHRwczovL2xvZ2luLnRlc3QvIiwiYXVkIjoiZmVycnlidXMiLCJzdWIiOiJ0aWxsLTciLCJleHAiOjE3OTUwMDA2MDAsInJvbGVzIjpbInRpbGwiXX0.nEKA_Eut_t5takaHLf8mnMul3ErtuWG_sdyQ2XiwdeAbebQhYT4vbwo-ao8qorODkgtOv47Qj-ZX1FELAyLwKEUqX1fse9D9cAFcblUOpjsGPtv0xF4gsYdOA-aeXNlApvV9Ic9WRjCmxgHgTugzukxq8kapu5RiBex_F4MIPYiUmmlkhSW-q-O5Y8zuQsMXbLws_8EvMHPFZp9mPg2KTEc7vlg22Z5_2O6WBYT-nkHp9J7Av5SxsyJh6Oswn2aSJlhj33VNBup5tQ-qj4LRruURLya6dSHwK8MNAELgK5Rbx32SClybkaRD--Td9m7FPG7cDNNBscQ2t2sdo-QH3w";
/// The provider's key.
const KEYS: &str = r#"{"keys":[{"kty":"RSA","kid":"one","n":"1K5Lk_ccf7dgoojv7sQqWkl5NZ8mp9QuY9Rw8b3AoLzypWgjzqUm-0p2TtdjOpDabJcQyy61EufGGjmoAhBm-D6zaLPGaJdIVcyNKrPO_C9QsCagOr_46uhmmhuiWBW2fIRy0z4kOsbaX0Dl7fUYT_f275u7zdEdEPItV4etYgdLIMnmegvcuZIL0u5-9lvJ4fx71VFOtl3g2-NMt5ABU5BPFgZATTH5tEh8EzXmBB7N_4gTIglZLRHwr8TejvgsdIJNlC30hsrYO-Dv2C7_UoDEwIIdqp_Ri8sqMOQNosWg3aU0ROYbs8xtCS3AuZ4Nmz7lpmjCmXFq0ud1f8fXlQ","e":"AQAB"}]}"#;
/// An empty frame.
const HEARTBEAT: &[u8] = &[0, 0, 0, 8, 2, 0, 0, 0];
const ENDS: u64 = START / 1_000 + 600;

fn keys() -> KeySet {
    KeySet::parse(KEYS.as_bytes()).unwrap()
}

fn issuer(keys: KeySet, refreshable: bool) -> Issuer {
    let access = Access { rights: Rights::from_iter([Right::Send, Right::Listen]), scopes: Vec::new() };
    let config = IssuerConfig {
        issuer: "https://login.test/".into(),
        audiences: vec!["ferrybus".into()],
        skew_seconds: 0,
        grants: vec![ClaimGrant { claim: "roles".into(), value: "till".into(), access }],
        refreshable,
    };
    Issuer::new(config, keys)
}

/// A broker that takes tokens of this provider.
fn world_with(issuer: Issuer) -> World {
    let mut world = World::with(GatewayConfig::default(), Anonymous::Deny);
    let authority = Authority::new(Credentials::development(Anonymous::Deny)).with_issuers(vec![issuer]);
    world.authority = Arc::new(authority);
    world
}

pub(crate) fn world() -> World {
    world_with(issuer(keys(), false))
}

fn response(mechanism: &str, token: &str) -> Vec<u8> {
    let text = match mechanism {
        "XOAUTH2" => format!("user=till\u{1}auth=Bearer {token}\u{1}\u{1}"),
        _ => format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}"),
    };
    text.into_bytes()
}

fn outcome(received: &[Incoming]) -> Option<SaslCode> {
    received.iter().find_map(|incoming| match incoming {
        Incoming::Sasl(SaslFrame::Outcome(outcome)) => Some(outcome.code),
        _ => None,
    })
}

fn error_of_close(received: Vec<Incoming>) -> Option<Error> {
    received.into_iter().find_map(|incoming| match incoming {
        Incoming::Frame(frame) => match frame.performative {
            Performative::Close(close) => close.error,
            _ => None,
        },
        _ => None,
    })
}

#[test]
fn a_log_in_costs_the_check_of_its_token_if_one_is_made() {
    let cost = |mechanism: &'static str, token: &str| {
        let mut world = world();
        let client = world.accept();
        world.script(client).sasl(mechanism, Some(&response(mechanism, token))).open("test");
        let before = world.clients[client].gateway.work_done();
        world.run();
        world.clients[client].gateway.work_done().0 - before.0
    };
    for mechanism in ["XOAUTH2", "OAUTHBEARER"] {
        let (checked, malformed) = (cost(mechanism, JWT), cost(mechanism, "no token"));
        assert!(checked >= Work::SIGNATURE_CHECK.0, "{mechanism}: {checked}");
        assert!(malformed < Work::SIGNATURE_CHECK.0, "{mechanism}: {malformed}");
    }
}

#[test]
fn a_token_logs_a_plain_client_in_until_it_ends() {
    for mechanism in ["XOAUTH2", "OAUTHBEARER"] {
        let mut world = world();
        let client = world.accept();
        world.script(client).sasl(mechanism, Some(&response(mechanism, JWT))).open("test").begin(0);
        world.script(client).attach_sender(0, 1, "s", Some("q"));
        world.run();
        assert_eq!(outcome(&world.received(client)), Some(SaslCode::Ok), "{mechanism}");
        let about = world.clients[client].gateway.about();
        assert_eq!(&*about.user, "https://login.test/ till-7");
        assert!(!about.is_service_bus);
        assert_eq!(about.links, 1);
        world.transfer(client, 1, false, b"\x00\x53\x75\xa0\x01x");
        world.run();
        assert_eq!(world.active("q"), 1);
        world.received(client);
        // One second before its end, and at its end.
        for seconds in [60, 60, 60, 60, 60, 60, 60, 60, 60, 59] {
            world.pass(Duration::from_secs(seconds));
            world.script(client).raw(HEARTBEAT);
            world.run();
            assert!(error_of_close(world.received(client)).is_none());
        }
        world.pass(Duration::from_secs(1));
        let error = error_of_close(world.received(client)).expect("the connection is closed");
        assert_eq!(error.condition, "amqp:unauthorized-access");
        let text = error.description.unwrap();
        let start = format!(
            "ExpiredToken: The token of the log-in is expired. Expiration time: {ENDS} (Unix seconds)."
        );
        assert!(text.starts_with(&start), "{text}");
        let ending = world.clients[client].gateway.record().ending().unwrap().clone();
        assert_eq!(ending.reason, "log-in expired");
        // It is too late for a new one.
        let late = world.accept();
        world.script(late).sasl(mechanism, Some(&response(mechanism, JWT)));
        world.run();
        assert_eq!(outcome(&world.received(late)), Some(SaslCode::Auth));
        let refused = world.clients[late].gateway.record().take_refused_logins();
        let [refused] = &refused[..] else { panic!("{refused:?}") };
        assert_eq!(refused.mechanism, mechanism.to_ascii_lowercase());
        assert_eq!(refused.refused.reason, LoginRefusal::Expired);
        assert_eq!(&*refused.refused.key, "https://login.test/ till-7");
    }
}

#[test]
fn a_connection_that_is_closed_by_its_client_has_no_deadline_of_the_token() {
    let mut world = world();
    let client = world.accept();
    world.script(client).sasl("XOAUTH2", Some(&response("XOAUTH2", JWT))).open("test").close(None);
    world.run();
    world.received(client);
    world.pass(Duration::from_secs(700));
    assert!(error_of_close(world.received(client)).is_none());
}

#[test]
fn a_log_in_waits_for_the_keys_of_its_provider() {
    // Whether the provider's keys can be had anew, and whether they come.
    for (refreshable, comes) in [(true, true), (true, false), (false, false)] {
        let mut world = world_with(issuer(KeySet::default(), refreshable));
        let client = world.accept();
        world.script(client).sasl("XOAUTH2", Some(&response("XOAUTH2", JWT))).open("test");
        world.run();
        let at_once = outcome(&world.received(client));
        if !refreshable {
            assert_eq!(at_once, Some(SaslCode::Auth));
            continue;
        }
        assert_eq!(at_once, None);
        world.pass(Duration::from_secs(1));
        assert_eq!(outcome(&world.received(client)), None);
        if comes {
            world.authority.issuers()[0].renew(keys());
            world.pass(Duration::from_millis(200));
            assert_eq!(outcome(&world.received(client)), Some(SaslCode::Ok));
            assert_eq!(&*world.clients[client].gateway.about().user, "https://login.test/ till-7");
        } else {
            world.pass(Duration::from_secs(8));
            assert_eq!(outcome(&world.received(client)), Some(SaslCode::Auth));
            let refused = world.clients[client].gateway.record().take_refused_logins();
            assert_eq!(refused.len(), 1);
            assert_eq!(refused[0].refused.reason, LoginRefusal::UnknownKey);
        }
    }
}
