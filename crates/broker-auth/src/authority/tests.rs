use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use sha2::Sha256;

use super::*;
use crate::{
    Access, Anonymous, ClientCertificate, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, NamedKey, Rights, User,
};

const SAS: &str = "servicebus.windows.net:sastoken";

fn sign(key: &str, name: &str, resource: &str, expiry: u64) -> String {
    let resource = utf8_percent_encode(resource, NON_ALPHANUMERIC).to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(format!("{resource}\n{expiry}").as_bytes());
    let signature = STANDARD.encode(mac.finalize().into_bytes());
    let signature = utf8_percent_encode(&signature, NON_ALPHANUMERIC);
    format!("SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={name}")
}

fn key(name: &str, primary: &str, rights: Rights, scopes: &[&str]) -> NamedKey {
    NamedKey {
        name: name.into(),
        primary: Secret::new(primary),
        secondary: None,
        access: Access { rights, scopes: scopes.iter().map(|scope| Scope::of(scope)).collect() },
    }
}

fn authority() -> Authority {
    let listen = Rights::NONE.with(Right::Listen);
    let send = Rights::NONE.with(Right::Send);
    Authority::new(Credentials {
        keys: vec![
            NamedKey { secondary: Some(Secret::new("zweite")), ..key("root", "first", Rights::ALL, &[]) },
            key("reader", "r", listen, &["orders"]),
            key("same", "one", listen, &["orders"]),
            key("same", "two", send, &["audit"]),
            key("empty", "", Rights::ALL, &[]),
        ],
        users: vec![
            User {
                name: "anna".into(),
                password: Secret::new("pässword"),
                access: Access { rights: send, scopes: vec![Scope::of("orders")] },
            },
            User { name: "noone".into(), password: Secret::new(""), access: Access::namespace(Rights::ALL) },
        ],
        certificates: vec![ClientCertificate {
            subject: "CN=till,O=Shop".into(),
            access: Access::namespace(listen),
        }],
        ..Credentials::default()
    })
}

const REMOTE: PeerFacts = PeerFacts { tls: false, loopback: false, certificate_subject: None };
const REMOTE_TLS: PeerFacts = PeerFacts { tls: true, ..REMOTE };
const LOCAL: PeerFacts = PeerFacts { loopback: true, ..REMOTE };

fn with_certificate(subject: &str) -> PeerFacts {
    PeerFacts { certificate_subject: Some(subject.into()), ..REMOTE_TLS }
}

#[test]
fn captured_tokens_of_three_clients_are_granted() {
    let development = Authority::new(Credentials::development(Anonymous::Deny));
    let cases = [
        // sr, se, sig, type, audience, place granted: Python, JavaScript, Rust
        (
            "sb%3A%2F%2Flocalhost%3A15672%2Fq1",
            1_795_198_930,
            "J0eFnkNjHZ3Idj9PZc8ysCdJMxwHeHIN4tIbLsD1Dbg%3D",
            "jwt",
            "sb://localhost:15672/q1",
            "q1",
        ),
        (
            "sb%3A%2F%2Flocalhost%3A15672%2Fjq",
            1_795_201_303,
            "Rkey3skqtGxvb%2F0724H9o7L9t8Q04NRM%2FYsJSmTp5Gc%3D",
            SAS,
            "sb://localhost:15672/jq/$management",
            "jq/$management",
        ),
        (
            "amqp%3A%2F%2Flocalhost",
            1_795_200_180,
            "VLVcsKnh%2BfS%2BtXhD%2FYQx4Xm2T4NMCaMmysuGvJ2oVpI%3D",
            SAS,
            "amqp://localhost:5672/RQ",
            "rq",
        ),
    ];
    for (sr, se, sig, kind, audience, place) in cases {
        let token = format!("SharedAccessSignature sr={sr}&sig={sig}&se={se}&skn={DEVELOPMENT_KEY_NAME}");
        let grant = development.verify_token(&token, kind, audience, se - 1).unwrap();
        assert_eq!(
            (grant.scope.as_str(), grant.rights(), grant.expires_at),
            (place, Rights::ALL, se),
            "{token}"
        );
        let expired = development.verify_token(&token, kind, audience, se);
        assert_eq!(expired, Err(TokenError::Expired { expired_at: se, now: se }), "{token}");
        let other = authority().verify_token(&token, kind, audience, 0);
        assert_eq!(other, Err(TokenError::UnknownKey), "{token}");
    }
}

#[test]
fn tokens_are_judged_by_the_rules() {
    let wrong = || Err(TokenError::WrongAudience);
    let elsewhere = || Err(TokenError::NoRights);
    let forged = || Err(TokenError::WrongSignature);
    let cases = [
        // name, key, signed resource, audience, expected rights
        ("root", "first", "sb://h/orders", "sb://h/orders", Ok(Rights::ALL)),
        ("root", "zweite", "sb://h/", "sb://h/orders", Ok(Rights::ALL)),
        ("root", "first", "sb://h/orders", "sb://h/orders/$DeadLetterQueue", Ok(Rights::ALL)),
        ("root", "first", "sb://h/orders", "sb://h/orders2", wrong()),
        ("root", "first", "sb://h/orders", "sb://h", wrong()),
        ("root", "first", "sb://h/orders", "sb://i/orders", Ok(Rights::ALL)),
        ("root", "first", "SB://H:1/Orders/", "amqps://h:2/oRDERS", Ok(Rights::ALL)),
        ("root", "First", "sb://h", "sb://h", forged()),
        ("reader", "r", "sb://h", "sb://h/orders", Ok(Rights::NONE.with(Right::Listen))),
        ("reader", "r", "sb://h", "sb://h/audit", elsewhere()),
        ("reader", "r", "sb://h", "sb://h", elsewhere()),
        ("reader", "r", "sb://h/audit", "sb://h/orders", wrong()),
        ("reader", "first", "sb://h", "sb://h/orders", forged()),
        // Two entities each have a key called `same`: the one that signed counts.
        ("same", "one", "sb://h", "sb://h/orders", Ok(Rights::NONE.with(Right::Listen))),
        ("same", "two", "sb://h", "sb://h/audit", Ok(Rights::NONE.with(Right::Send))),
        ("same", "one", "sb://h", "sb://h/audit", elsewhere()),
        ("ROOT", "first", "sb://h", "sb://h", Err(TokenError::UnknownKey)),
        // An empty key signs nothing.
        ("empty", "", "sb://h", "sb://h", forged()),
    ];
    for (name, key, resource, audience, expected) in cases {
        let token = sign(key, name, resource, 100);
        let granted = authority().verify_token(&token, SAS, audience, 99).map(|grant| grant.rights());
        assert_eq!(granted, expected, "{name} {key} {resource} {audience}");
    }
}

#[test]
fn token_types_decide_only_whether_they_are_known() {
    let token = sign("first", "root", "sb://h", 100);
    for kind in ["", "jwt", "JWT", "amqp:jwt", "amqp:sastoken", SAS] {
        assert!(authority().verify_token(&token, kind, "sb://h/q", 1).is_ok(), "{kind}");
        let jwt = authority().verify_token("eyJhbGciOi.e30.x", kind, "sb://h/q", 1);
        assert_eq!(jwt, Err(TokenError::JwtNotConfigured), "{kind}");
    }
    assert_eq!(authority().verify_token(&token, "kerberos", "sb://h/q", 1), Err(TokenError::UnknownKind));
}

#[test]
fn sizes_are_limited() {
    let token = sign("first", "root", "sb://h", 100);
    let padded = |length: usize| format!("{token}&x={}", "y".repeat(length - token.len() - 3));
    let audience = |length: usize| format!("sb://h/{}", "q".repeat(length - 7));
    let verify = |token: &str, audience: &str| authority().verify_token(token, SAS, audience, 1).map(|_| ());
    assert_eq!(verify(&padded(TOKEN_BYTES_MAX), "sb://h"), Ok(()));
    let one_more = TOKEN_BYTES_MAX + 1;
    assert_eq!(verify(&padded(one_more), "sb://h"), Err(TokenError::TooLong(one_more)));
    assert_eq!(verify(&token, &audience(AUDIENCE_BYTES_MAX)), Ok(()));
    let one_more = AUDIENCE_BYTES_MAX + 1;
    assert_eq!(verify(&token, &audience(one_more)), Err(TokenError::AudienceTooLong(one_more)));
}

#[test]
fn mechanisms_are_offered_in_the_order_of_the_service() {
    let open = Authority::new(Credentials { plain_without_tls: true, ..Credentials::default() });
    let all = vec!["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"];
    assert_eq!(authority().sasl_mechanisms(&with_certificate("CN=x")), all);
    assert_eq!(authority().sasl_mechanisms(&REMOTE_TLS), all[..3]);
    assert_eq!(authority().sasl_mechanisms(&LOCAL), all[..3]);
    assert_eq!(authority().sasl_mechanisms(&REMOTE), ["MSSBCBS", "ANONYMOUS"]);
    assert_eq!(open.sasl_mechanisms(&REMOTE), all[..3]);
}

/// Peer, mechanism, initial response, name expected.
type LogIn<'c> = (&'c PeerFacts, &'c str, Option<&'c [u8]>, Result<&'c str, SaslError>);

#[test]
fn log_ins_are_judged_by_the_rules() {
    let wrong = SaslError::WrongCredentials;
    let till = with_certificate("CN=till,O=Shop");
    let cases: [LogIn<'_>; 26] = [
        (&LOCAL, "ANONYMOUS", None, Ok("anonymous")),
        (&LOCAL, "ANONYMOUS", Some(b""), Ok("anonymous")),
        (&REMOTE, "ANONYMOUS", Some(b"\0RootManageSharedAccessKey"), Ok("anonymous")),
        (&REMOTE, "MSSBCBS", None, Ok("anonymous")),
        (&REMOTE, "MSSBCBS", Some(b"\xff"), Ok("anonymous")),
        (&LOCAL, "PLAIN", Some(b"\0root\0first"), Ok("root")),
        (&LOCAL, "PLAIN", Some(b"\0root\0zweite"), Ok("root")),
        (&LOCAL, "PLAIN", Some(b"root\0root\0first"), Ok("root")),
        (&LOCAL, "PLAIN", Some("\0anna\0pässword".as_bytes()), Ok("anna")),
        (&REMOTE_TLS, "PLAIN", Some(b"\0root\0first"), Ok("root")),
        (&REMOTE, "PLAIN", Some(b"\0root\0first"), Err(SaslError::NotOffered)),
        (&LOCAL, "PLAIN", None, Err(SaslError::MissingResponse)),
        (&LOCAL, "PLAIN", Some(b""), Err(SaslError::Malformed)),
        (&LOCAL, "PLAIN", Some(b"\0root"), Err(SaslError::Malformed)),
        (&LOCAL, "PLAIN", Some(b"\0root\0first\0"), Err(SaslError::Malformed)),
        (&LOCAL, "PLAIN", Some(b"\0root\0\xff"), Err(SaslError::Malformed)),
        (&LOCAL, "PLAIN", Some(b"anna\0root\0first"), Err(wrong)),
        (&LOCAL, "PLAIN", Some(b"\0root\0third"), Err(wrong)),
        (&LOCAL, "PLAIN", Some(b"\0nobody\0first"), Err(wrong)),
        (&LOCAL, "PLAIN", Some(b"\0noone\0"), Err(wrong)),
        (&LOCAL, "PLAIN", Some(b"\0empty\0"), Err(wrong)),
        (&till, "EXTERNAL", None, Ok("CN=till,O=Shop")),
        (&till, "EXTERNAL", Some(b""), Ok("CN=till,O=Shop")),
        (&till, "EXTERNAL", Some(b"root"), Err(wrong)),
        (&REMOTE_TLS, "EXTERNAL", Some(b""), Err(SaslError::NotOffered)),
        (&LOCAL, "SCRAM-SHA-256", None, Err(SaslError::NotOffered)),
    ];
    for case @ (peer, mechanism, response, ref expected) in cases {
        let found = authority().sasl(peer, mechanism, response, 0);
        assert_eq!(found.as_ref().map(Identity::name), expected.as_ref().copied(), "{case:?}");
    }
    let stranger = authority().sasl(&with_certificate("CN=till"), "EXTERNAL", None, 0);
    assert_eq!(stranger, Err(SaslError::UnknownCertificate));
}

#[test]
fn log_ins_give_the_rights_that_are_configured() {
    let orders = Scope::of("orders/x");
    let audit = Scope::of("audit");
    let may = |identity: &Identity| {
        [(&orders, Right::Send), (&orders, Right::Listen), (&audit, Right::Send)]
            .map(|(scope, right)| identity.allows(scope, right))
    };
    let log_in = |peer: &PeerFacts, mechanism, response: &[u8]| {
        may(&authority().sasl(peer, mechanism, Some(response), 0).unwrap())
    };
    assert_eq!(log_in(&LOCAL, "PLAIN", b"\0root\0first"), [true, true, true]);
    assert_eq!(log_in(&LOCAL, "PLAIN", "\0anna\0pässword".as_bytes()), [true, false, false]);
    assert_eq!(log_in(&with_certificate("CN=till,O=Shop"), "EXTERNAL", b""), [false, true, false]);
    assert_eq!(log_in(&LOCAL, "ANONYMOUS", b""), [false, false, false]);
    assert_eq!(log_in(&LOCAL, "MSSBCBS", b""), [false, false, false]);
}

#[test]
fn anonymous_clients_may_do_everything_only_when_the_operator_says_so() {
    let scope = Scope::of("orders");
    for (policy, expected) in [(Anonymous::Deny, false), (Anonymous::Allow, true)] {
        let authority = Authority::new(Credentials::development(policy));
        let anonymous = authority.sasl(&REMOTE, "ANONYMOUS", None, 0).unwrap();
        assert_eq!(anonymous.allows(&scope, Right::Manage), expected, "{policy:?}");
        let by_token = authority.sasl(&REMOTE, "MSSBCBS", None, 0).unwrap();
        assert!(!by_token.allows(&scope, Right::Send), "{policy:?}");
    }
}

#[test]
fn the_development_key_logs_in_with_plain() {
    let authority = Authority::new(Credentials::development(Anonymous::Deny));
    let response = format!("\0{DEVELOPMENT_KEY_NAME}\0{DEVELOPMENT_KEY}");
    let identity = authority.sasl(&LOCAL, "PLAIN", Some(response.as_bytes()), 0).unwrap();
    assert!(identity.allows(&Scope::namespace(), Right::Manage));
}

#[test]
fn nothing_configured_lets_nobody_in() {
    assert!(Credentials::default().is_empty());
    let authority = Authority::new(Credentials::default());
    let token = sign(DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, "sb://localhost", 100);
    assert_eq!(authority.verify_token(&token, SAS, "sb://localhost/q", 1), Err(TokenError::UnknownKey));
    let plain = authority.sasl(&LOCAL, "PLAIN", Some(b"\0RootManageSharedAccessKey\0SAS_KEY_VALUE"), 0);
    assert_eq!(plain, Err(SaslError::WrongCredentials));
}

#[test]
fn secrets_do_not_show_in_debug_texts() {
    let text = format!("{:?}", authority());
    assert!(text.contains("anna"));
    for secret in ["first", "zweite", "pässword", "\"r\"", "two"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn without_other_namespaces_the_host_of_a_token_decides_nothing_and_what_is_no_host_is_no_audience() {
    let cases = [
        // signed, audience, result
        ("sb://one/orders", "amqps://another:5671/orders", Ok(())),
        ("sb://one", "orders", Ok(())),
        ("myhost", "sb://myhost/orders", Ok(())),
        ("myhost", "amqp://localhost/payments", Ok(())),
        ("orders", "sb://orders/payments", Err(TokenError::NoHost)),
        ("otherhost", "sb://otherhost/orders", Err(TokenError::NoHost)),
        ("sb://one/orders", "sb://one", Err(TokenError::WrongAudience)),
        ("sb://one", "sb://", Err(TokenError::WrongAudience)),
        ("sb://one", "sb://one\\orders", Err(TokenError::WrongAudience)),
        ("sb://", "sb://one/orders", Err(TokenError::Malformed(SasError::Unreadable("sr")))),
        ("sb://one\\orders", "sb://one/payments", Err(TokenError::Malformed(SasError::Unreadable("sr")))),
    ];
    let authority = Authority::new(Credentials::development(Anonymous::Deny))
        .with_host_names(HostNames::from_iter(["MyHost"]));
    for (signed, audience, expected) in cases {
        let token = sign(DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, signed, 100);
        let judged = authority.verify_token(&token, SAS, audience, 1).map(drop);
        assert_eq!(judged, expected, "{signed} for {audience}");
    }
}

#[test]
fn a_broker_is_open_where_no_secret_keeps_strangers_out() {
    let key = |name: &str, text: &str| NamedKey {
        name: name.into(),
        primary: Secret::new(text),
        ..NamedKey::development()
    };
    let of =
        |keys, anonymous| Authority::new(Credentials { keys, anonymous, ..Credentials::default() }).is_open();
    assert!(of(vec![NamedKey::development()], Anonymous::Deny));
    assert!(of(vec![key("own", "secret"), key("other", DEVELOPMENT_KEY)], Anonymous::Deny));
    assert!(of(vec![key("own", "secret")], Anonymous::Allow));
    assert!(!of(vec![key(DEVELOPMENT_KEY_NAME, "secret")], Anonymous::Deny));
}

proptest! {
    #[test]
    fn only_the_right_key_verifies(signer in "first|zweite|[a-z]{1,8}", resource in "sb://h/[a-z/]{0,8}") {
        let token = sign(&signer, "root", &resource, 100);
        let granted = authority().verify_token(&token, SAS, &resource, 1);
        prop_assert_eq!(granted.is_ok(), signer == "first" || signer == "zweite");
    }

    #[test]
    fn any_change_to_what_is_signed_is_noticed(at in 0_usize..60, to in "[0-9a-f]") {
        let token = sign("first", "root", "sb://localhost/orders", 1_795_198_930);
        let signed = token.find("sr=").unwrap() + 3;
        let end = token.find("&sig=").unwrap();
        let at = signed + at % (end - signed);
        let mut changed = token.clone();
        changed.replace_range(at..=at, &to);
        let granted = authority().verify_token(&changed, SAS, "sb://localhost/orders", 1);
        prop_assert_eq!(granted.is_ok(), changed == token);
    }

    #[test]
    fn judging_never_panics(
        token in "(SharedAccessSignature )?\\PC{0,80}", kind in "\\PC{0,9}", audience in "\\PC{0,30}",
        mechanism in "MSSBCBS|PLAIN|ANONYMOUS|EXTERNAL|\\PC{0,9}", response in prop::option::of(prop::collection::vec(any::<u8>(), 0..30)),
    ) {
        prop_assert!(authority().verify_token(&token, &kind, &audience, 1).is_err());
        let identity = authority().sasl(&LOCAL, &mechanism, response.as_deref(), 0);
        prop_assert!(identity.is_err() || !identity.unwrap().allows(&Scope::namespace(), Right::Send));
    }
}

#[test]
fn hosts_of_other_namespaces_are_refused_in_a_signed_resource_and_in_an_audience() {
    let authority = authority();
    authority.token_hosts.judge_by(|host| {
        let leads_to = match host {
            "a" | "A" | "::1" => return None,
            "nowhere" => None,
            _ => Some("b"),
        };
        Some(Box::new(ForeignHost::new(host, leads_to, "a")))
    });
    let of_b = |host: &str| {
        format!(
            "InvalidAudience: the token is for the host `{host}` of the namespace `b`, and this is the namespace `a`"
        )
    };
    let cases = [
        // signed resource, audience, refusal
        ("sb://a/orders", "sb://A:5671/orders", None),
        ("orders", "orders", None),
        ("sb://[::1]:5672/", "amqp://[::1]/orders", None),
        ("sb://a/", "orders", None),
        ("sb://b/orders", "sb://a/orders", Some(of_b("b"))),
        ("sb://a/orders", "https://b:5671/orders", Some(of_b("b"))),
        ("sb://b/orders", "orders", Some(of_b("b"))),
        ("orders", "sb://b/orders", Some(of_b("b"))),
        ("localhost/orders", "orders", Some(of_b("localhost"))),
        ("sb://127.0.0.1/", "sb://a/orders", Some(of_b("127.0.0.1"))),
        (
            "sb://nowhere/",
            "sb://a/orders",
            Some(
                "InvalidAudience: the token is for the host `nowhere`, which leads to no namespace, and this is the namespace `a`"
                    .to_owned(),
            ),
        ),
    ];
    for (signed, audience, refusal) in cases {
        let verify = |key: &str| {
            let token = sign(key, "root", signed, 100);
            authority.verify_token(&token, SAS, audience, 99).map(drop)
        };
        assert_eq!(verify("first").err().map(|error| error.to_string()), refusal, "{signed} {audience}");
        // A stranger is not told where a host leads.
        assert_eq!(verify("second"), Err(TokenError::WrongSignature), "{signed} {audience}");
    }
}

#[test]
fn the_refusal_of_a_host_has_no_more_of_it_than_a_host_name_can_have() {
    let authority = authority();
    authority.token_hosts.judge_by(|host| Some(Box::new(ForeignHost::new(host, None, "a"))));
    let token = sign("first", "root", &format!("sb://{}/orders", "h".repeat(10_000)), 100);
    let error = authority.verify_token(&token, SAS, "orders", 99).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&"h".repeat(253)) && !text.contains(&"h".repeat(254)), "{text}");
}
