use broker_auth::{Access, ClientCertificate, Credentials, Rights, Secret, User};

use super::*;

/// Knows the user `ann` and the certificate of `CN=ann`. PLAIN needs TLS or the same machine.
fn authority() -> Authority {
    let access = Access::namespace(Rights::ALL);
    let user = User { name: "ann".into(), password: Secret::new("pw"), access: access.clone() };
    let certificate = ClientCertificate { subject: "CN=ann".into(), access };
    Authority::new(Credentials {
        users: vec![user],
        certificates: vec![certificate],
        ..Credentials::default()
    })
}

fn certified(subject: &str) -> PeerFacts {
    PeerFacts { tls: true, loopback: false, certificate_subject: Some(subject.into()) }
}

const FAR: PeerFacts = PeerFacts { tls: false, loopback: false, certificate_subject: None };

#[test]
fn an_uncertain_log_in_is_refused_at_once_only_where_every_authority_would() {
    let near = PeerFacts { loopback: true, ..FAR };
    let cases = [
        // mechanism, response, peer, the authority's decision, whether it is postponed where the namespace is uncertain
        ("PLAIN", Some("\0ann\0pw"), &near, None, false),
        ("PLAIN", Some("\0ann\0no"), &near, Some(SaslError::WrongCredentials), true),
        ("PLAIN", Some("\0bob\0pw"), &near, Some(SaslError::WrongCredentials), true),
        // Another namespace may permit it without TLS.
        ("PLAIN", Some("\0ann\0pw"), &FAR, Some(SaslError::NotOffered), true),
        ("PLAIN", Some("ann"), &near, Some(SaslError::Malformed), false),
        ("EXTERNAL", Some(""), &certified("CN=ann"), None, false),
        ("EXTERNAL", None, &certified("CN=ann"), None, false),
        ("EXTERNAL", Some(""), &certified("CN=bob"), Some(SaslError::UnknownCertificate), true),
        ("ANONYMOUS", None, &FAR, None, false),
    ];
    for (mechanism, response, peer, error, is_postponed) in cases {
        for is_tentative in [false, true] {
            let mut exchange = SaslExchange::new(mechanism.into(), response.map(str::as_bytes));
            if is_tentative {
                exchange.set_tentative();
            }
            let case = format!("{mechanism} {response:?} {peer:?} {is_tentative}");
            let found = exchange.judge((&authority(), peer), &mut TurnWork::unbounded(), 0);
            match error {
                None => assert!(matches!(found, LoginDecision::Accepted(_)), "{case}: {found:?}"),
                Some(_) if is_tentative && is_postponed => {
                    assert_eq!(found, LoginDecision::Postponed, "{case}");
                    // The authority of the open has the last word.
                    assert_eq!(
                        exchange.judge_finally((&authority(), peer), &mut TurnWork::unbounded(), 0).err(),
                        error,
                        "{case}"
                    );
                }
                Some(error) => assert_eq!(found, LoginDecision::Refused(error), "{case}"),
            }
            assert_eq!(exchange.is_accepted(), error.is_none(), "{case}");
        }
    }
}

#[test]
fn a_missing_response_is_asked_for_once_and_one_that_was_not_asked_for_is_not_taken() {
    let near = PeerFacts { loopback: true, ..FAR };
    let mut exchange = SaslExchange::new("PLAIN".into(), None);
    assert!(!exchange.respond(b"\0ann\0pw"), "nothing was asked");
    assert_eq!(
        exchange.judge((&authority(), &near), &mut TurnWork::unbounded(), 0),
        LoginDecision::Challenge
    );
    assert_eq!(
        exchange.judge((&authority(), &near), &mut TurnWork::unbounded(), 0),
        LoginDecision::Refused(SaslError::MissingResponse)
    );
    assert!(exchange.respond(b"\0ann\0pw"));
    assert!(matches!(
        exchange.judge((&authority(), &near), &mut TurnWork::unbounded(), 0),
        LoginDecision::Accepted(_)
    ));
}

#[test]
fn no_text_shows_the_response() {
    let exchange = SaslExchange::new("PLAIN".into(), Some(b"\0ann\0hunter2"));
    let text = format!("{exchange:?}");
    assert!(text.contains("PLAIN") && !text.contains("hunter2") && !text.contains("104, 117"), "{text}");
}
