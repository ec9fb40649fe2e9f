use super::*;
use crate::{Access, Anonymous, Credentials, NamedKey, Rights, Secret, User, sign_token};

const PLACE: &str = "sb://localhost/orders";

fn authority() -> Authority {
    let secret = || Secret::new("s3cret");
    let key = NamedKey {
        name: "root".into(),
        primary: secret(),
        secondary: None,
        access: Access::namespace(Rights::ALL),
    };
    let user = User { name: "anna".into(), password: secret(), access: Access::namespace(Rights::ALL) };
    Authority::new(Credentials {
        keys: vec![key],
        users: vec![user],
        anonymous: Anonymous::Deny,
        ..Credentials::default()
    })
}

#[test]
fn a_refused_mechanism_says_why_and_whom_it_named() {
    type Case<'a> = (&'a PeerFacts, &'a str, Option<&'a [u8]>, LoginRefusal, &'a str);
    use LoginRefusal::*;
    let local = PeerFacts { loopback: true, ..PeerFacts::default() };
    let remote = PeerFacts::default();
    let certified = PeerFacts { tls: true, certificate_subject: Some("CN=till".into()), ..remote.clone() };
    let cases: [Case<'_>; 9] = [
        (&local, "PLAIN", Some(b"\0root\0other"), WrongKey, "root"),
        (&local, "PLAIN", Some(b"\0anna\0other"), WrongKey, "anna"),
        (&local, "PLAIN", Some(b"\0nobody\0s3cret"), UnknownKey, "nobody"),
        (&local, "PLAIN", Some(b"s3cret"), Malformed, ""),
        (&local, "PLAIN", None, Malformed, ""),
        (&remote, "PLAIN", Some(b"\0root\0s3cret"), MechanismNotOffered, "root"),
        (&remote, "EXTERNAL", None, MechanismNotOffered, ""),
        (&certified, "EXTERNAL", None, UnknownCertificate, "CN=till"),
        (&certified, "EXTERNAL", Some(b"CN=root"), WrongKey, "CN=till"),
    ];
    let authority = authority();
    for (peer, mechanism, response, reason, key) in cases {
        let error = authority.sasl(peer, mechanism, response, 0).unwrap_err();
        let refused = RefusedLogin::of_sasl(&authority, peer, error, (mechanism, response));
        assert_eq!((refused.reason, &*refused.key), (reason, key), "{mechanism} {response:?}");
        assert!(!format!("{refused:?}").contains("s3cret"), "{refused:?}");
    }
}

#[test]
fn a_refused_token_says_why_and_whom_it_named() {
    use LoginRefusal::*;
    const NOW: u64 = 1_795_000_000;
    let sas =
        |place: &str, name: &str, key: &str, until: u64| sign_token(place, name, &Secret::new(key), until);
    // {"alg":"RS256"} and {"iss":"https://login","sub":"app","secret":"s3cret"}
    let jwt =
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2xvZ2luIiwic3ViIjoiYXBwIiwic2VjcmV0IjoiczNjcmV0In0.AAAA";
    let later = NOW + 60;
    let cases = [
        (sas(PLACE, "root", "other", later), WrongKey, "root"),
        (sas(PLACE, "nobody", "s3cret", later), UnknownKey, "nobody"),
        (sas(PLACE, "root", "s3cret", NOW), Expired, "root"),
        (sas("sb://localhost/invoices", "root", "s3cret", later), WrongAudience, "root"),
        (jwt.to_owned(), UnknownIssuer, "https://login app"),
        ("s3cret".to_owned(), Malformed, ""),
        ("SharedAccessSignature s3cret".to_owned(), Malformed, ""),
        ("x".repeat(crate::TOKEN_BYTES_MAX + 1), Malformed, ""),
    ];
    let authority = authority();
    for (token, reason, key) in cases {
        let error = authority.verify_token(&token, "", PLACE, NOW).unwrap_err();
        let refused = RefusedLogin::of_token(&error, &token);
        assert_eq!((refused.reason, &*refused.key), (reason, key), "{token}");
        assert!(!format!("{refused:?}").contains("s3cret"), "{refused:?}");
    }
}
