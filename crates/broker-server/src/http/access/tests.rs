use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker_auth::{
    Access, Anonymous, ClientCertificate, Credentials, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, Issuer,
    IssuerConfig, KeySet, NamedKey, Rights, Secret, sign_token,
};

use super::*;

const NOW: u64 = 1_795_000_000;

fn authority(anonymous: Anonymous) -> Authority {
    let mut credentials = Credentials::development(anonymous);
    credentials.keys.push(NamedKey {
        name: "till".into(),
        primary: Secret::new("till key"),
        secondary: None,
        access: Access::namespace(Rights::from_iter([Right::Send])),
    });
    credentials.keys.push(NamedKey {
        name: "keeper".into(),
        primary: Secret::new("a:b:"),
        secondary: None,
        access: Access::namespace(Rights::ALL),
    });
    credentials.keys.push(NamedKey {
        name: "clerk".into(),
        primary: Secret::new("clerk key"),
        secondary: None,
        access: Access { rights: Rights::ALL, scopes: vec![Scope::of("orders")] },
    });
    Authority::new(credentials)
}

/// The status, and of a 401 its code.
fn ask(anonymous: Anonymous, login: Option<&str>) -> (u16, u32) {
    let mut headers = HeaderMap::new();
    if let Some(login) = login {
        headers.insert(AUTHORIZATION, login.parse().unwrap());
    }
    let peer = PeerFacts { loopback: true, ..PeerFacts::default() };
    let wanted = (Right::Manage, &Scope::namespace());
    match judge(&authority(anonymous), &peer, &headers, wanted, NOW, &mut Work(0)) {
        Ok(_) => (200, 0),
        Err(refusal @ Refusal::Unauthorized(_, code, _)) => (refusal.status().as_u16(), code as u32),
        Err(refusal) => (refusal.status().as_u16(), 0),
    }
}

#[test]
fn without_a_log_in_the_client_certificate_of_the_connection_counts() {
    let certificate = |subject: &str, rights| ClientCertificate {
        subject: subject.to_owned(),
        access: Access::namespace(rights),
    };
    let all = vec![
        certificate("CN=operator", Rights::ALL),
        certificate("CN=till", Rights::from_iter([Right::Send])),
    ];
    let authority = Authority::new(Credentials { certificates: all, ..Credentials::default() });
    let status = |subject: Option<&str>, login: Option<&str>| {
        let certificate_subject = subject.map(str::to_owned);
        let peer = PeerFacts { tls: true, loopback: false, certificate_subject };
        let mut headers = HeaderMap::new();
        if let Some(login) = login {
            headers.insert(AUTHORIZATION, login.parse().unwrap());
        }
        let wanted = (Right::Manage, &Scope::namespace());
        judge(&authority, &peer, &headers, wanted, NOW, &mut Work(0))
            .map_err(|refusal| refusal.status().as_u16())
    };
    assert_eq!(status(Some("CN=operator"), None), Ok("CN=operator".into()));
    assert_eq!(status(Some("CN=till"), None), Err(403));
    assert_eq!(status(Some("CN=stranger"), None), Err(401));
    assert_eq!(status(None, None), Err(401));
    // A log-in that is shown is the one that counts.
    assert_eq!(status(Some("CN=operator"), Some("Basic eDp5")), Err(401));
}

#[test]
fn log_ins_are_told_apart_and_judged() {
    let sign = |place: &str, name: &str, key: &str, until| sign_token(place, name, &Secret::new(key), until);
    let root = |place: &str, until| sign(place, DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY, until);
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    let token = |parts: &str| format!("SharedAccessSignature {parts}");
    let good = (200, 0);
    let cases = [
        ("a token for the namespace", root("http://localhost:5300/", NOW + 60), good),
        ("another scheme and no port", root("sb://localhost/", NOW + 60), good),
        ("an expired one", root("http://localhost:5300/", NOW), (401, 40106)),
        ("for one queue", root("http://localhost:5300/orders", NOW + 60), (401, 40104)),
        ("for another host", root("http://elsewhere:5300/", NOW + 60), good),
        ("for no host", root("http://", NOW + 60), (401, 40105)),
        ("of a wrong key", sign("http://localhost/", DEVELOPMENT_KEY_NAME, "x", NOW + 60), (401, 40103)),
        ("of nobody", sign("http://localhost/", "nobody", "x", NOW + 60), (401, 40103)),
        ("of a key that may only send", sign("http://localhost/", "till", "till key", NOW + 60), (403, 0)),
        ("of a queue's own key", sign("http://localhost/", "clerk", "clerk key", NOW + 60), (403, 0)),
        ("a name and a key", basic(&format!("{DEVELOPMENT_KEY_NAME}:{DEVELOPMENT_KEY}")), good),
        ("a name and another's key", basic(&format!("{DEVELOPMENT_KEY_NAME}:x")), (401, 40100)),
        ("a name that may only send", basic("till:till key"), (403, 0)),
        ("a password with colons", basic("keeper:a:b:"), good),
        ("a part of it", basic("keeper:a"), (401, 40100)),
        ("a queue's own key as a password", basic("clerk:clerk key"), (403, 0)),
        ("no name at all", basic("till"), (401, 40105)),
        ("no base64", "Basic %%%".into(), (401, 40105)),
        ("no place", token("sig=YQ%3d%3d&se=1&skn=k"), (401, 40107)),
        ("no end", token("sr=a&sig=YQ%3d%3d&skn=k"), (401, 40108)),
        ("no name of a key", token("sr=a&sig=YQ%3d%3d&se=1"), (401, 40109)),
        ("no signature", token("sr=a&se=1&skn=k"), (401, 40110)),
        ("an end that is no number", token("sr=a&sig=YQ%3d%3d&se=x&skn=k"), (401, 40105)),
        ("a bearer token without a provider", "Bearer e30.e30.e30".into(), (401, 40100)),
        ("a word", "hello".into(), (401, 40100)),
        ("nothing", String::new(), (401, 40100)),
    ];
    for (what, login, expected) in cases {
        assert_eq!(ask(Anonymous::Deny, Some(&login)), expected, "{what}: {login}");
    }
}

#[test]
fn without_a_log_in_anonymous_rights_decide() {
    assert_eq!(ask(Anonymous::Deny, None), (401, 40102));
    assert_eq!(ask(Anonymous::Allow, None), (200, 0));
}

/// Work of judging a request with this log-in.
fn work_of(authority: &Authority, login: Option<&str>) -> Work {
    let mut headers = HeaderMap::new();
    if let Some(login) = login {
        headers.insert(AUTHORIZATION, login.parse().unwrap());
    }
    let peer = PeerFacts { loopback: true, ..PeerFacts::default() };
    let mut work = Work(0);
    drop(judge(authority, &peer, &headers, (Right::Manage, &Scope::namespace()), NOW, &mut work));
    work
}

#[test]
fn a_log_in_counts_by_what_its_check_costs_whether_it_is_good_or_not() {
    // The example of RFC 7517, appendix A.1.
    let keys = br#"{"keys":[{"kty":"EC","crv":"P-256","kid":"1",
        "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;
    let config = IssuerConfig { issuer: "https://issuer.test".into(), ..IssuerConfig::default() };
    let issuer = Issuer::new(config, KeySet::parse(keys).unwrap());
    let authority = authority(Anonymous::Deny).with_issuers(vec![issuer]);
    let sas = |name: &str, key: &str, until| sign_token("http://localhost/", name, &Secret::new(key), until);
    let jwt = |key: &str| {
        let texts =
            [format!(r#"{{"alg":"ES256","kid":"{key}"}}"#), r#"{"iss":"https://issuer.test"}"#.into()];
        let [header, claims] = texts.map(|text| URL_SAFE_NO_PAD.encode(text));
        format!("Bearer {header}.{claims}.{}", URL_SAFE_NO_PAD.encode([7; 64]))
    };
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    let nothing = Work(0);
    let cases = [
        ("a password", basic("till:till key"), LOGIN_WORK),
        ("a wrong password", basic("till:x"), LOGIN_WORK),
        ("the password of nobody", basic("nobody:x"), LOGIN_WORK),
        ("no base64", "Basic %%%".into(), nothing),
        ("a token", sas(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY, NOW + 60), Work::HMAC_CHECK),
        ("an expired token", sas(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY, NOW), Work::HMAC_CHECK),
        ("a token of a wrong key", sas(DEVELOPMENT_KEY_NAME, "x", NOW + 60), Work::HMAC_CHECK),
        ("a token of nobody", sas("nobody", "x", NOW + 60), nothing),
        ("a token that cannot be read", "SharedAccessSignature sr=a".into(), nothing),
        ("a forged JWT", jwt("1"), Work::SIGNATURE_CHECK),
        ("a JWT of an unknown key", jwt("2"), nothing),
        ("a JWT that cannot be read", "Bearer e30.e30.e30".into(), nothing),
    ];
    for (what, login, expected) in cases {
        assert_eq!(work_of(&authority, Some(&login)), expected, "{what}: {login}");
    }
    assert_eq!(work_of(&authority, None), LOGIN_WORK);
}
