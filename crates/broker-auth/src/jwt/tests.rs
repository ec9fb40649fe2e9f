use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
        RsaPublicKeyComponents,
    },
};
use serde_json::json;

use super::*;
use crate::{
    Access, Anonymous, Authority, ClaimGrant, Credentials, IssuerConfig, KeySet, LoginRefusal, PeerFacts,
    RefusedLogin, Right, Rights, SaslError,
};

const NOW: u64 = 1_795_000_000;
const SKEW: u64 = 60;
const OURS: &[u8] = include_bytes!("rsa-for-tests.pk8");
const THEIRS: &[u8] = include_bytes!("rsa-of-others.pk8");

fn rsa(key: &[u8]) -> RsaKeyPair {
    RsaKeyPair::from_pkcs8(key).unwrap()
}

fn ec() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap()
}

fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn signed(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let body = format!("{}.{}", text(header.to_string().as_bytes()), text(claims.to_string().as_bytes()));
    let signature = sign(body.as_bytes());
    format!("{body}.{}", text(&signature))
}

fn by_rsa(key: &[u8], header: &Value, claims: &Value) -> String {
    let key = rsa(key);
    signed(header, claims, |body| {
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), body, &mut signature).unwrap();
        signature
    })
}

fn by_ec(key: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
    signed(header, claims, |body| key.sign(&SystemRandom::new(), body).unwrap().as_ref().to_vec())
}

fn jwk_of_rsa(id: &str, key: &[u8]) -> Value {
    let key = rsa(key);
    let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
    json!({ "kty": "RSA", "kid": id, "use": "sig", "alg": "RS256", "n": text(&n), "e": text(&e) })
}

fn jwk_of_ec(id: &str, key: &EcdsaKeyPair) -> Value {
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": text(x), "y": text(y) })
}

fn issuer(keys: &[Value]) -> Issuer {
    let grant = |claim: &str, value: &str, right: Right, place: Option<&str>| ClaimGrant {
        claim: claim.into(),
        value: value.into(),
        access: Access {
            rights: Rights::NONE.with(right),
            scopes: place.map(Scope::of).into_iter().collect(),
        },
    };
    let config = IssuerConfig {
        issuer: "https://login.test/".into(),
        audiences: vec!["https://servicebus.azure.net".into(), "ferrybus".into()],
        skew_seconds: SKEW,
        grants: vec![
            grant("roles", "sender", Right::Send, Some("orders")),
            grant("roles", "receiver", Right::Listen, None),
            grant("scp", "bus.manage", Right::Manage, Some("audit")),
            grant("vip", "true", Right::Manage, None),
            grant("robot", "", Right::Send, None),
        ],
        refreshable: false,
    };
    Issuer::new(config, KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap())
}

fn claims() -> Value {
    json!({ "iss": "https://login.test/", "aud": "ferrybus", "sub": "till-7", "exp": NOW + 600, "roles": ["sender"] })
}

/// The usual claims with some changed; null takes one away.
fn with(changed: &Value) -> Value {
    let mut all = claims();
    for (name, value) in changed.as_object().unwrap() {
        if value.is_null() {
            all.as_object_mut().unwrap().remove(name);
        } else {
            all[name] = value.clone();
        }
    }
    all
}

fn rs256() -> Value {
    json!({ "alg": "RS256", "typ": "JWT", "kid": "one" })
}

fn judge(token: &str, scope: &str) -> Result<Grant, JwtError> {
    verify(&[issuer(&[jwk_of_rsa("one", OURS)])], token, Some(&Scope::of(scope)), NOW)
}

#[test]
fn claims_are_judged_one_by_one() {
    let expired = |expired_at| Err(JwtError::Expired { expired_at, now: NOW });
    let cases = [
        // changed claims, expected end or refusal
        (json!({}), Ok(NOW + 600 + SKEW)),
        (json!({ "exp": NOW - SKEW + 1 }), Ok(NOW + 1)),
        (json!({ "exp": NOW - SKEW }), expired(NOW - SKEW)),
        (json!({ "exp": null }), Err(JwtError::Time("exp"))),
        (json!({ "exp": "1795000600" }), Err(JwtError::Time("exp"))),
        (json!({ "exp": -1 }), Err(JwtError::Time("exp"))),
        (json!({ "exp": 1_795_000_600.5 }), Ok(NOW + 600 + SKEW)),
        (json!({ "exp": 1e300 }), Err(JwtError::Time("exp"))),
        (json!({ "exp": u64::MAX }), Ok(u64::MAX)),
        (json!({ "nbf": NOW + SKEW }), Ok(NOW + 600 + SKEW)),
        (json!({ "nbf": NOW + SKEW + 1 }), Err(JwtError::NotYet { from: NOW + SKEW + 1, now: NOW })),
        (json!({ "nbf": "soon" }), Err(JwtError::Time("nbf"))),
        (json!({ "aud": "https://servicebus.azure.net/" }), Ok(NOW + 600 + SKEW)),
        (json!({ "aud": ["mail", "ferrybus"] }), Ok(NOW + 600 + SKEW)),
        (json!({ "aud": "mail" }), Err(JwtError::WrongAudience)),
        (json!({ "aud": "" }), Err(JwtError::WrongAudience)),
        (json!({ "aud": null }), Err(JwtError::WrongAudience)),
        (json!({ "aud": 7 }), Err(JwtError::WrongAudience)),
        (json!({ "iss": "https://login.test" }), Err(JwtError::UnknownIssuer)),
        (json!({ "iss": null }), Err(JwtError::UnknownIssuer)),
        (json!({ "roles": ["receivers"] }), Err(JwtError::NoRights)),
        (json!({ "roles": null }), Err(JwtError::NoRights)),
        (json!({ "roles": { "sender": true } }), Err(JwtError::NoRights)),
    ];
    for (changed, expected) in cases {
        let said = judge(&by_rsa(OURS, &rs256(), &with(&changed)), "orders");
        assert_eq!(said.map(|grant| grant.expires_at), expected, "{changed}");
    }
}

#[test]
fn grants_are_added_up_and_hold_at_their_places() {
    let rights = |list: &[Right]| Ok(list.iter().copied().collect::<Rights>());
    let cases = [
        (json!({}), "orders", rights(&[Right::Send])),
        (json!({}), "orders/$management", rights(&[Right::Send])),
        (json!({}), "audit", Err(JwtError::NoRights)),
        (json!({}), "", Err(JwtError::NoRights)),
        (json!({ "roles": ["receiver", "sender"] }), "orders", rights(&[Right::Send, Right::Listen])),
        (json!({ "roles": ["receiver", "sender"] }), "audit", rights(&[Right::Listen])),
        (json!({ "roles": "receiver" }), "", rights(&[Right::Listen])),
        (json!({ "scp": "mail.read bus.manage" }), "audit", rights(&[Right::Manage])),
        (json!({ "scp": "bus.managers" }), "audit", Err(JwtError::NoRights)),
        (json!({ "vip": true }), "audit", rights(&[Right::Manage])),
        (json!({ "vip": false }), "audit", Err(JwtError::NoRights)),
        (json!({ "robot": "r2" }), "audit", rights(&[Right::Send])),
        (json!({ "robot": ["r2"] }), "audit", rights(&[Right::Send])),
        (json!({ "robot": [] }), "audit", Err(JwtError::NoRights)),
    ];
    for (changed, place, expected) in cases {
        let said = judge(&by_rsa(OURS, &rs256(), &with(&changed)), place);
        assert_eq!(said.map(|grant| grant.rights()), expected, "{changed} at {place:?}");
    }
}

#[test]
fn both_algorithms_verify_and_none_is_confused_with_another() {
    let ec = ec();
    let keys = [jwk_of_rsa("one", OURS), jwk_of_ec("two", &ec)];
    let es256 = json!({ "alg": "ES256", "kid": "two" });
    let public = rsa(OURS).public().as_ref().to_vec();
    let hs256 = |key: &[u8], header: &Value| {
        signed(header, &claims(), |body| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), body).as_ref().to_vec()
        })
    };
    let named = |alg: &str| json!({ "alg": alg, "kid": "one" });
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(&public));
    let no_key = Err(JwtError::UnknownKey { refreshable: false });
    let cases = [
        ("RS256", by_rsa(OURS, &rs256(), &claims()), Ok(())),
        ("ES256", by_ec(&ec, &es256, &claims()), Ok(())),
        ("no name of a key", by_rsa(OURS, &json!({ "alg": "RS256" }), &claims()), Ok(())),
        ("not signed", signed(&named("none"), &claims(), |_| Vec::new()), Err(JwtError::Algorithm)),
        (
            "not signed, in capitals",
            signed(&named("NONE"), &claims(), |_| Vec::new()),
            Err(JwtError::Algorithm),
        ),
        (
            "RS256 without a signature",
            signed(&rs256(), &claims(), |_| Vec::new()),
            Err(JwtError::WrongSignature),
        ),
        ("the public key as a secret", hs256(&public, &named("HS256")), Err(JwtError::Algorithm)),
        ("the same in PEM", hs256(pem.as_bytes(), &named("HS256")), Err(JwtError::Algorithm)),
        ("the same called RS256", hs256(&public, &rs256()), Err(JwtError::WrongSignature)),
        ("ES256 with the name of the other key", by_ec(&ec, &named("ES256"), &claims()), no_key),
        ("RS256 called ES256", by_rsa(OURS, &es256, &claims()), Err(JwtError::WrongSignature)),
        ("a stranger's key", by_rsa(THEIRS, &rs256(), &claims()), Err(JwtError::WrongSignature)),
        ("a key that is not there", by_rsa(OURS, &json!({ "alg": "RS256", "kid": "x" }), &claims()), no_key),
        ("a longer hash", by_rsa(OURS, &named("RS384"), &claims()), Err(JwtError::Algorithm)),
        ("no algorithm", by_rsa(OURS, &json!({ "kid": "one" }), &claims()), Err(JwtError::Algorithm)),
        ("a list of them", by_rsa(OURS, &json!({ "alg": ["RS256"] }), &claims()), Err(JwtError::Algorithm)),
        (
            "an extension",
            by_rsa(OURS, &json!({ "alg": "RS256", "kid": "one", "crit": ["b64"], "b64": false }), &claims()),
            Err(JwtError::Extension),
        ),
        (
            "a key that it brings along",
            by_rsa(
                THEIRS,
                &json!({ "alg": "RS256", "kid": "one", "jwk": jwk_of_rsa("one", THEIRS) }),
                &claims(),
            ),
            Err(JwtError::WrongSignature),
        ),
    ];
    for (what, token, expected) in cases {
        let said = verify(&[issuer(&keys)], &token, Some(&Scope::of("orders")), NOW);
        assert_eq!(said.map(drop), expected, "{what}");
    }
}

#[test]
fn what_is_no_token_is_told_so() {
    let good = by_rsa(OURS, &rs256(), &claims());
    let [header, body, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!() };
    let cases = [
        (String::new(), JwtError::Malformed("the form")),
        ("a".into(), JwtError::Malformed("the form")),
        (format!("{header}.{body}"), JwtError::Malformed("the form")),
        ("..".into(), JwtError::Malformed("the header")),
        (format!("{header}.{body}.{signature}."), JwtError::Malformed("the text")),
        (format!("{header}.{body}.%"), JwtError::Malformed("the signature")),
        (format!("{header}.%.{signature}"), JwtError::Malformed("the text")),
        (format!("{header}.{}.{signature}", text(b"[]")), JwtError::Malformed("the text")),
        (format!("{}.{body}.{signature}", text(b"{\"alg\"")), JwtError::Malformed("the header")),
    ];
    for (token, expected) in cases {
        assert_eq!(judge(&token, "orders").unwrap_err(), expected, "{token}");
    }
}

#[test]
fn an_unknown_key_is_worth_asking_for_where_keys_can_be_had() {
    let token = by_rsa(OURS, &json!({ "alg": "RS256", "kid": "new" }), &claims());
    let config = IssuerConfig { refreshable: true, ..issuer(&[jwk_of_rsa("one", OURS)]).config().clone() };
    let issuers = [Issuer::new(config, KeySet::default())];
    let at = Scope::of("orders");
    let refused = verify(&issuers, &token, Some(&at), NOW).unwrap_err();
    assert_eq!(refused, JwtError::UnknownKey { refreshable: true });
    issuers[0]
        .renew(KeySet::parse(json!({ "keys": [jwk_of_rsa("new", OURS)] }).to_string().as_bytes()).unwrap());
    assert!(verify(&issuers, &token, Some(&at), NOW).is_ok());
    issuers[0].renew(
        KeySet::parse(json!({ "keys": [jwk_of_rsa("newer", THEIRS)] }).to_string().as_bytes()).unwrap(),
    );
    assert!(verify(&issuers, &token, Some(&at), NOW).is_err(), "a key that is withdrawn counts no more");
}

#[test]
fn of_two_providers_of_one_name_either_may_take_the_token() {
    let other = Issuer::new(
        IssuerConfig {
            audiences: vec!["mail".into()],
            ..issuer(&[jwk_of_rsa("one", OURS)]).config().clone()
        },
        KeySet::parse(json!({ "keys": [jwk_of_rsa("one", OURS)] }).to_string().as_bytes()).unwrap(),
    );
    let issuers = [other, issuer(&[jwk_of_rsa("one", OURS)])];
    let token = by_rsa(OURS, &rs256(), &claims());
    assert!(verify(&issuers, &token, Some(&Scope::of("orders")), NOW).is_ok());
}

proptest! {
    #[test]
    fn a_changed_token_is_never_taken(at in 0usize..4000, to in any::<char>()) {
        let good = by_rsa(OURS, &rs256(), &claims());
        let at = at % good.len();
        let mut changed: Vec<char> = good.chars().collect();
        prop_assume!(changed[at] != to);
        changed[at] = to;
        let changed: String = changed.into_iter().collect();
        // The last letter of the signature has bits that mean nothing, and those are refused too.
        prop_assert!(judge(&changed, "orders").is_err());
    }

    #[test]
    fn no_text_makes_it_panic(token in ".{0,200}", parts in prop::collection::vec("[A-Za-z0-9_-]{0,80}", 0..5)) {
        prop_assert!(judge(&token, "orders").is_err());
        prop_assert!(judge(&parts.join("."), "orders").is_err());
    }
}

#[test]
fn a_log_in_by_token_is_judged_as_a_token_and_holds_wherever_a_claim_grants_something() {
    let authority = || {
        let credentials = Credentials { anonymous: Anonymous::Deny, ..Credentials::default() };
        Authority::new(credentials).with_issuers(vec![issuer(&[jwk_of_rsa("one", OURS)])])
    };
    let local = PeerFacts { loopback: true, ..PeerFacts::default() };
    let log_in = |mechanism: &str, token: &str, now: u64| {
        let response = match mechanism {
            "XOAUTH2" => format!("user=till\u{1}auth=Bearer {token}\u{1}\u{1}"),
            _ => format!("n,a=till,\u{1}auth=Bearer {token}\u{1}\u{1}"),
        };
        authority().sasl(&local, mechanism, Some(response.as_bytes()), now)
    };
    let token = by_rsa(OURS, &rs256(), &with(&json!({ "roles": ["sender", "receiver"] })));
    for mechanism in ["XOAUTH2", "OAUTHBEARER"] {
        let identity = log_in(mechanism, &token, NOW).unwrap();
        assert_eq!(identity.name(), "https://login.test/ till-7");
        assert_eq!(identity.expires_at(), Some(NOW + 600 + SKEW));
        let allowed = |place: &str, right| identity.allows(&Scope::of(place), right);
        assert!(allowed("orders", Right::Send) && !allowed("audit", Right::Send));
        assert!(allowed("orders", Right::Listen) && allowed("audit", Right::Listen));
        assert!(!allowed("orders", Right::Manage));
        let cases = [
            (by_rsa(THEIRS, &rs256(), &claims()), NOW, JwtError::WrongSignature),
            (
                token.clone(),
                NOW + 600 + SKEW,
                JwtError::Expired { expired_at: NOW + 600, now: NOW + 600 + SKEW },
            ),
            (by_rsa(OURS, &rs256(), &with(&json!({ "aud": "mail" }))), NOW, JwtError::WrongAudience),
            (by_rsa(OURS, &rs256(), &with(&json!({ "roles": ["cook"] }))), NOW, JwtError::NoRights),
        ];
        for (token, now, expected) in cases {
            assert_eq!(log_in(mechanism, &token, now), Err(SaslError::Token(expected)), "{mechanism}");
        }
        assert_eq!(authority().sasl(&local, mechanism, Some(b"user=till"), NOW), Err(SaslError::Malformed));
        assert_eq!(authority().sasl(&local, mechanism, None, NOW), Err(SaslError::MissingResponse));
    }
    // A claim that grants something at one place is enough.
    let audit = by_rsa(OURS, &rs256(), &with(&json!({ "roles": null, "scp": "bus.manage" })));
    let identity = log_in("XOAUTH2", &audit, NOW).unwrap();
    assert!(identity.allows(&Scope::of("audit"), Right::Manage));
    assert!(!identity.allows(&Scope::of("orders"), Right::Send));
}

#[test]
fn log_ins_by_token_are_offered_where_a_provider_is_known_and_passwords_may_be_sent() {
    let far = PeerFacts::default();
    let tls = PeerFacts { tls: true, ..PeerFacts::default() };
    let with_issuer =
        Authority::new(Credentials::default()).with_issuers(vec![issuer(&[jwk_of_rsa("one", OURS)])]);
    assert_eq!(
        with_issuer.sasl_mechanisms(&tls),
        ["MSSBCBS", "PLAIN", "ANONYMOUS", "OAUTHBEARER", "XOAUTH2"]
    );
    assert_eq!(with_issuer.sasl_mechanisms(&far), ["MSSBCBS", "ANONYMOUS"]);
    let without = Authority::new(Credentials::default());
    assert_eq!(without.sasl_mechanisms(&tls), ["MSSBCBS", "PLAIN", "ANONYMOUS"]);
    assert_eq!(without.sasl(&tls, "XOAUTH2", None, NOW), Err(SaslError::NotOffered));
}

#[test]
fn a_refused_log_in_by_token_says_why_and_whom_it_named() {
    let authority =
        Authority::new(Credentials::default()).with_issuers(vec![issuer(&[jwk_of_rsa("one", OURS)])]);
    let local = PeerFacts { loopback: true, ..PeerFacts::default() };
    let forged = by_rsa(THEIRS, &rs256(), &claims());
    let response = format!("user=till\u{1}auth=Bearer {forged}\u{1}\u{1}");
    let chosen = ("XOAUTH2", Some(response.as_bytes()));
    let error = authority.sasl(&local, chosen.0, chosen.1, NOW).unwrap_err();
    let refused = RefusedLogin::of_sasl(&authority, &local, error, chosen);
    let expected = (LoginRefusal::WrongKey, "https://login.test/ till-7");
    assert_eq!((refused.reason, &*refused.key), expected);
}
