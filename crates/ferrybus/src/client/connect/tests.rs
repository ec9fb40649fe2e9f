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
