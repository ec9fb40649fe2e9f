use broker_auth::{
    Access, Anonymous, Credentials, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, NamedKey, Rights, Secret,
    sign_token,
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
    Authority::new(credentials)
}

fn ask(anonymous: Anonymous, login: Option<&str>) -> u16 {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, "localhost:5300".parse().unwrap());
    if let Some(login) = login {
        headers.insert(AUTHORIZATION, login.parse().unwrap());
    }
    let peer = PeerFacts { loopback: true, ..PeerFacts::default() };
    let wanted = (Right::Manage, &Scope::namespace());
    match claim(&authority(anonymous), &peer, &headers, wanted, NOW) {
        Ok(_) => 200,
        Err(refusal) => refusal.answer().status().as_u16(),
    }
}

#[test]
fn log_ins_are_told_apart_and_judged() {
    let sign = |place: &str, name: &str, key: &str, until| sign_token(place, name, &Secret::new(key), until);
    let root = |place: &str, until| sign(place, DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY, until);
    let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
    let cases = [
        ("a token for the namespace", root("http://localhost:5300/", NOW + 60), 200),
        ("another scheme and no port", root("sb://localhost/", NOW + 60), 200),
        ("an expired one", root("http://localhost:5300/", NOW), 401),
        ("for one queue", root("http://localhost:5300/orders", NOW + 60), 401),
        ("for another host", root("http://elsewhere:5300/", NOW + 60), 401),
        ("of a wrong key", sign("http://localhost/", DEVELOPMENT_KEY_NAME, "x", NOW + 60), 401),
        ("of a key that may only send", sign("http://localhost/", "till", "till key", NOW + 60), 403),
        ("a name and a key", basic(&format!("{DEVELOPMENT_KEY_NAME}:{DEVELOPMENT_KEY}")), 200),
        ("a name and another's key", basic(&format!("{DEVELOPMENT_KEY_NAME}:x")), 401),
        ("a name that may only send", basic("till:till key"), 403),
        ("no name at all", basic("till"), 401),
        ("no base64", "Basic %%%".into(), 401),
        ("a bearer token without a provider", "Bearer e30.e30.e30".into(), 401),
        ("a word", "hello".into(), 401),
        ("nothing", String::new(), 401),
    ];
    for (what, login, status) in cases {
        assert_eq!(ask(Anonymous::Deny, Some(&login)), status, "{what}: {login}");
    }
}

#[test]
fn without_a_log_in_anonymous_rights_decide() {
    assert_eq!(ask(Anonymous::Deny, None), 401);
    assert_eq!(ask(Anonymous::Allow, None), 200);
}
