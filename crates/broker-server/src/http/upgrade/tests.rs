use super::*;

fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
    list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
}

/// Headers that every client sends, with some of them changed; empty is absent.
fn asked(changed: &[(HeaderName, &'static str)]) -> HeaderMap {
    let mut all = headers(&[
        (UPGRADE, "websocket"),
        (CONNECTION, "Upgrade"),
        (SEC_WEBSOCKET_VERSION, "13"),
        (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
        (SEC_WEBSOCKET_PROTOCOL, "amqp"),
    ]);
    for (name, value) in changed {
        all.insert(name, HeaderValue::from_static(value));
    }
    all
}

#[test]
fn an_upgrade_needs_its_headers_and_a_subprotocol_that_is_amqp() {
    let cases: [(&str, HeaderMap, Result<&str, u16>); 13] = [
        ("as .NET and Rust ask", asked(&[]), Ok("amqp")),
        ("as Python and JavaScript ask", asked(&[(SEC_WEBSOCKET_PROTOCOL, "AMQPWSB10")]), Ok("AMQPWSB10")),
        (
            "the first that is known",
            asked(&[(SEC_WEBSOCKET_PROTOCOL, "mqtt, AMQPWSB10, amqp")]),
            Ok("AMQPWSB10"),
        ),
        ("several words", asked(&[(CONNECTION, "keep-alive, upgrade")]), Ok("amqp")),
        ("case", asked(&[(UPGRADE, "WebSocket"), (SEC_WEBSOCKET_PROTOCOL, "AMQP")]), Ok("amqp")),
        ("no subprotocol", asked(&[(SEC_WEBSOCKET_PROTOCOL, "")]), Err(400)),
        ("another subprotocol", asked(&[(SEC_WEBSOCKET_PROTOCOL, "mqtt")]), Err(400)),
        ("no key", asked(&[(SEC_WEBSOCKET_KEY, "")]), Err(400)),
        ("a short key", asked(&[(SEC_WEBSOCKET_KEY, "dGhl")]), Err(400)),
        ("another version", asked(&[(SEC_WEBSOCKET_VERSION, "8")]), Err(426)),
        ("no upgrade", asked(&[(UPGRADE, "")]), Err(426)),
        ("another upgrade", asked(&[(UPGRADE, "h2c")]), Err(426)),
        ("a connection that stays", asked(&[(CONNECTION, "keep-alive")]), Err(426)),
    ];
    for (what, headers, expected) in cases {
        let said = wanted(&headers).map(|(_, protocol)| protocol);
        assert_eq!(said.map_err(|refusal| refusal.answer().status().as_u16()), expected, "{what}");
    }
}
