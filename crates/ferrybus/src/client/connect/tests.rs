use clap::Parser as _;

use super::*;
use crate::arguments::{Arguments, Command};

fn endpoint(words: &[&str]) -> Result<BrokerEndpoint, String> {
    let string = "Endpoint=sb://127.0.0.1:7;UseDevelopmentEmulator=true";
    let all = ["ferrybus", "peek", "q", "--connection-string", string].into_iter();
    let arguments = match Arguments::try_parse_from(all.chain(words.iter().copied())).unwrap().command {
        Some(Command::Peek(arguments)) => arguments,
        other => panic!("{other:?}"),
    };
    BrokerEndpoint::new(&arguments.connect).map_err(|failure| failure.to_string())
}

fn open_host(endpoint: &BrokerEndpoint) -> String {
    amqp_host(&endpoint.string.host, endpoint.namespace.as_deref())
}

#[test]
fn the_named_namespace_is_the_host_of_requests_and_connections_but_not_where_they_go() {
    let plain = endpoint(&[]).unwrap();
    assert_eq!((plain.http_host(), open_host(&plain)), ("127.0.0.1:7".to_owned(), "127.0.0.1".to_owned()));
    let named = endpoint(&["--namespace", "Team-A"]).unwrap();
    assert_eq!((named.http_host(), open_host(&named)), ("team-a".to_owned(), "vhost:team-a".to_owned()));
    assert_eq!(named.place(), "127.0.0.1:7");
    let refused = endpoint(&["--namespace", "a.b"]).unwrap_err();
    assert!(refused.contains("`a.b` cannot be the name of a namespace"), "{refused}");
}

#[test]
fn the_password_of_an_administrator_goes_to_another_machine_with_tls_or_where_a_string_asks_for_none() {
    let login = || Some(Login::Password { name: "operator".into(), password: "hush".into() });
    let cases = [
        (&["--server", "bus.example"][..], false),
        (&["--server", "10.0.0.7:5672"], false),
        (&["--server", "bus.example", "--address", "127.0.0.1"], true),
        (&["--server", "localhost", "--address", "10.0.0.7"], false),
        (&[], true),
        (&["--server", "team-a.localhost"], true),
        (&["--server", "[::1]:7"], true),
        (&["--connection-string", "Endpoint=sb://bus.example"], true),
        (&["--connection-string", "Endpoint=sb://bus.example;UseDevelopmentEmulator=true"], true),
    ];
    for (words, is_sent) in cases {
        let all = ["ferrybus", "clock", "show"].into_iter().chain(words.iter().copied());
        let command = Arguments::try_parse_from(all).unwrap().command;
        let Some(Command::Clock(crate::arguments::ClockCommand::Show { operator })) = command else {
            panic!("{command:?}")
        };
        let endpoint = BrokerEndpoint::new(&operator.connect).unwrap();
        match endpoint.clone().with_admin_login(login()) {
            Ok(endpoint) => assert!(is_sent && Some(endpoint.string.login) == login(), "{words:?}"),
            Err(failure) => {
                let text = failure.to_string();
                assert!(!is_sent && text.contains("without encryption") && !text.contains("hush"), "{text}");
            }
        }
        assert!(endpoint.with_admin_login(None).is_ok(), "{words:?}");
    }
}
