//! The management API beyond what its clients were recorded with: tiers, refusals, preconditions.

use std::{net::SocketAddr, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_auth::{
    Access, Anonymous, Authority, Credentials, NamedKey, Right, Rights, Scope, Secret, sign_token,
};
use broker_core::Profile;
use broker_server::MissingRight;

use crate::{
    broker::Broker,
    http::{ask_over, connect, root, whole_answer},
};

/// A broker without entities.
fn broker(profile: Profile) -> Broker {
    Broker::with(|config| {
        (config.entities, config.auto_create) = (Vec::new(), false);
        config.core.profile = profile;
    })
}

/// Asks with the development key; `request` is method and path.
fn ask(address: SocketAddr, request: &str, body: &str) -> (u16, String) {
    ask_over(&mut connect(address), request, Some(&root()), body)
}

/// The same with `If-Match`.
fn update(address: SocketAddr, request: &str, tag: &str, body: &str) -> (u16, String) {
    let login = format!("{}\r\nIf-Match: {tag}", root());
    ask_over(&mut connect(address), request, Some(&login), body)
}

fn description(element: &str, inside: &str) -> String {
    format!(
        "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\">\
         <{element} xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\">{inside}</{element}>\
         </content></entry>"
    )
}

/// What stands between `<name>` and `</name>`.
fn text<'a>(body: &'a str, name: &str) -> &'a str {
    let (_, rest) = body.split_once(&format!("<{name}>")).unwrap_or_else(|| panic!("no {name}: {body}"));
    rest.split_once(&format!("</{name}>")).unwrap().0
}

#[test]
fn every_tier_makes_entities_with_the_sizes_that_clients_ask_for() {
    // What .NET and Java send when nobody set a size, what Python and JavaScript send, and one in between.
    let asked = [
        "<MaxSizeInMegabytes>1024</MaxSizeInMegabytes>",
        "",
        "<MaxSizeInMegabytes>5120</MaxSizeInMegabytes>",
    ];
    let cases = [
        (Profile::STANDARD, ["1024", "1024", "5120"]),
        (Profile::STANDARD_ONLY, ["1024", "1024", "5120"]),
        (Profile::BASIC, ["1024", "1024", "5120"]),
        (Profile::EMULATOR, ["100", "100", "100"]),
    ];
    for (profile, expected) in cases {
        let broker = broker(profile);
        let address = broker.http_address();
        let kinds: &[_] = if profile == Profile::BASIC {
            &["QueueDescription"]
        } else {
            &["QueueDescription", "TopicDescription"]
        };
        for element in kinds {
            for (number, (asked, expected)) in asked.iter().zip(expected).enumerate() {
                let path = format!("PUT /{element}-{number}");
                let body = description(element, asked);
                let (made, text_of_it) = ask(address, &path, &body);
                assert_eq!((made, text(&text_of_it, "MaxSizeInMegabytes")), (201, expected), "{text_of_it}");
                // Set anew, left out, and as it was shown.
                let shown = format!("<MaxSizeInMegabytes>{expected}</MaxSizeInMegabytes>");
                for size in [asked, "", &shown] {
                    let (status, said) = update(address, &path, "*", &description(element, size));
                    assert_eq!(status, 200, "{said}");
                }
                let (_, said) = update(address, &path, "*", &body);
                assert_eq!(text(&said, "MaxSizeInMegabytes"), expected);
            }
        }
    }
}

const PREMIUM: &str = "<MaxMessageSizeInKilobytes>1024</MaxMessageSizeInKilobytes>";

#[test]
fn a_tier_refuses_what_it_does_not_have() {
    let queue = "QueueDescription";
    let cases = [
        (
            Profile::EMULATOR,
            queue,
            "<DefaultMessageTimeToLive>PT2H</DefaultMessageTimeToLive>",
            "at most 1 hour",
        ),
        (Profile::EMULATOR, queue, "<MaxDeliveryCount>11</MaxDeliveryCount>", "1 to 10"),
        (
            Profile::BASIC,
            queue,
            "<DefaultMessageTimeToLive>P15D</DefaultMessageTimeToLive>",
            "at most 14 days",
        ),
        (Profile::BASIC, queue, "<RequiresSession>true</RequiresSession>", "RequiresSession"),
        (Profile::BASIC, "TopicDescription", "", "topics"),
        (Profile::STANDARD_ONLY, queue, "<MaxSizeInMegabytes>6144</MaxSizeInMegabytes>", "at most 5120"),
        (Profile::STANDARD_ONLY, queue, PREMIUM, "MaxMessageSizeInKilobytes"),
        (Profile::STANDARD_ONLY, "TopicDescription", PREMIUM, "MaxMessageSizeInKilobytes"),
    ];
    for (profile, element, inside, expected) in cases {
        let broker = broker(profile);
        let (status, said) = ask(broker.http_address(), "PUT /e", &description(element, inside));
        assert_eq!(status, 400, "{said}");
        assert!(text(&said, "Detail").starts_with("SubCode=40000. ") && said.contains(expected), "{said}");
        let (_, feed) = ask(broker.http_address(), "GET /$Resources/queues", "");
        assert!(!feed.contains("<entry>"), "{feed}");
    }
}

#[test]
fn paths_of_nothing_are_refused_in_xml_to_those_who_may_ask() {
    let broker = broker(Profile::STANDARD);
    let address = broker.http_address();
    ask(address, "PUT /q", &description("QueueDescription", ""));
    let paths = [
        "/q/$DeadLetterQueue",
        "/q/%24deadletterqueue",
        "/",
        "/$Resources",
        "/a//b",
        "/q/$management",
        "/%ff",
    ];
    for path in paths {
        for method in ["GET", "PUT", "DELETE"] {
            let request = format!("{method} {path}");
            let (status, said) = ask(address, &request, "");
            assert_eq!((status, text(&said, "Code")), (400, "400"), "{request}: {said}");
            assert!(text(&said, "Detail").starts_with("SubCode=40000. Bad Request. "), "{said}");
            let (status, said) = ask_over(&mut connect(address), &request, None, "");
            assert_eq!((status, text(&said, "Code")), (401, "401"), "{request}: {said}");
            assert!(text(&said, "Detail").starts_with("SubCode=40102. "), "{said}");
        }
    }
    let (_, kept) = ask(address, "GET /q", "");
    assert!(kept.contains("<QueueDescription"), "{kept}");
    // The broker's own paths speak JSON.
    assert_eq!(ask(address, "GET /$ferrybus/nothing", "").0, 404);
}

#[test]
fn who_is_known_and_may_not_is_told_so_whatever_the_log_in() {
    let mut credentials = Credentials::development(Anonymous::Deny);
    let key = |name: &str, rights, scopes| NamedKey {
        name: name.into(),
        primary: Secret::new("word"),
        secondary: None,
        access: Access { rights, scopes },
    };
    credentials.keys.push(key("clerk", Rights::ALL, vec![Scope::of("mine")]));
    credentials.keys.push(key("till", Rights::NONE.with(Right::Send), Vec::new()));
    let authority = Arc::new(Authority::new(credentials));
    let broker = Broker::with(|config| config.authority = Arc::clone(&authority));
    let as_the_service = Broker::with(|config| {
        config.authority = Arc::clone(&authority);
        config.missing_right = MissingRight::Unauthorized;
    });
    let sas = |name: &str, word: &str, place: &str| {
        sign_token(place, name, &Secret::new(word), u64::from(u32::MAX))
    };
    let basic = |name: &str, word: &str| format!("Basic {}", STANDARD.encode(format!("{name}:{word}")));
    let everywhere = "http://localhost/";
    let cases = [
        ("GET /mine", sas("clerk", "word", everywhere), 200, ""),
        ("GET /mine", basic("clerk", "word"), 200, ""),
        ("GET /other", sas("clerk", "word", everywhere), 403, "SubCode=40301. "),
        ("GET /other", basic("clerk", "word"), 403, "SubCode=40301. "),
        ("GET /$namespaceinfo", sas("clerk", "word", everywhere), 403, "SubCode=40301. "),
        ("GET /orders", sas("till", "word", everywhere), 403, "SubCode=40301. "),
        ("GET /orders", basic("till", "word"), 403, "SubCode=40301. "),
        // Who may send or receive at a place is told that no queue and no topic is there.
        ("GET /missing", sas("till", "word", everywhere), 200, ""),
        ("GET /missing", basic("till", "word"), 200, ""),
        ("GET /missing", sas("clerk", "word", everywhere), 403, "SubCode=40301. "),
        // NServiceBus asks so whether it may manage.
        ("GET /$nservicebus-verification-queue", sas("till", "word", everywhere), 403, "SubCode=40301. "),
        ("PUT /missing", sas("till", "word", everywhere), 403, "SubCode=40301. "),
        ("DELETE /orders", sas("till", "word", everywhere), 403, "SubCode=40301. "),
        // The token itself is for another place.
        ("GET /other", sas("clerk", "word", "http://localhost/mine"), 401, "SubCode=40104. "),
        ("GET /mine", sas("clerk", "wrong", everywhere), 401, "SubCode=40103. "),
        ("GET /mine", basic("clerk", "wrong"), 401, "SubCode=40100. "),
    ];
    for (request, login, expected, code) in cases {
        // The service answers 401 to both.
        let lacking = match request.split(' ').next() {
            Some("GET") => "Manage,EntityRead claims required for this operation.",
            Some("PUT") => "Authorization failed for specified action: Manage,EntityWrite.",
            _ => "Authorization failed for specified action: Manage,EntityDelete.",
        };
        let others = if expected == 403 { (401, lacking) } else { (expected, code) };
        for (broker, (expected, code)) in [(&broker, (expected, code)), (&as_the_service, others)] {
            let (status, said) = ask_over(&mut connect(broker.http_address()), request, Some(&login), "");
            assert_eq!(status, expected, "{request} {login}: {said}");
            assert!(code.is_empty() || text(&said, "Detail").starts_with(code), "{said}");
            let is_told = expected == 200 || text(&said, "Code") == expected.to_string();
            assert!(is_told, "{request} {login}: {said}");
        }
    }
    // What is no part of the service's API is answered as ever.
    let till = sas("till", "word", everywhere);
    let (status, _) =
        ask_over(&mut connect(as_the_service.http_address()), "GET /$ferrybus/limits", Some(&till), "");
    assert_eq!(status, 403);
    // To forward somewhere needs the right there, too.
    let forwards = description("QueueDescription", "<ForwardTo>orders</ForwardTo>");
    let own = sas("clerk", "word", everywhere);
    let put = |more: &str| {
        let login = format!("{own}{more}");
        ask_over(&mut connect(broker.http_address()), "PUT /mine", Some(&login), &forwards)
    };
    let (status, said) = put("");
    assert_eq!(status, 403, "{said}");
    let (status, said) = put(&format!("\r\nServiceBusSupplementaryAuthorization: {}", root()));
    assert_eq!(status, 201, "{said}");
}

/// The SDK for Go prints the status line.
#[test]
fn the_status_line_says_which_operation_with_subscriptions_and_rules_was_refused() {
    let mut credentials = Credentials::development(Anonymous::Deny);
    credentials.keys.push(NamedKey {
        name: "till".into(),
        primary: Secret::new("word"),
        secondary: None,
        access: Access { rights: Rights::NONE.with(Right::Send), scopes: Vec::new() },
    });
    let broker = Broker::with(|config| {
        config.authority = Arc::new(Authority::new(credentials));
        config.missing_right = MissingRight::Unauthorized;
    });
    let till = sign_token("http://localhost/", "till", &Secret::new("word"), u64::from(u32::MAX));
    for (request, operation) in [
        ("GET /t/Subscriptions/s", "GetSubscription"),
        ("GET /t/Subscriptions", "EnumerateSubscriptions"),
        ("PUT /t/Subscriptions/s", "CreateOrUpdateSubscription"),
        ("DELETE /t/Subscriptions/s", "DeleteSubscription"),
        ("GET /t/Subscriptions/s/Rules/r", "GetRule"),
        ("GET /t/Subscriptions/s/Rules", "EnumerateRules"),
        ("PUT /t/Subscriptions/s/Rules/r", "CreateOrUpdateRule"),
        ("DELETE /t/Subscriptions/s/Rules/r", "DeleteRule"),
    ] {
        let mut stream = connect(broker.http_address());
        let asked = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {till}\r\nConnection: close\r\n\r\n"
        );
        std::io::Write::write_all(&mut stream, asked.as_bytes()).unwrap();
        let (status, head, said) = whole_answer(&mut stream);
        let words = format!("SubCode=40100: Unauthorized : Unauthorized access for '{operation}' operation");
        assert_eq!(status, 401, "{request}: {said}");
        assert!(head.starts_with(&format!("HTTP/1.1 401 {words}\r\n")), "{head}");
        assert!(text(&said, "Detail").starts_with(&words), "{said}");
    }
}

#[test]
fn an_etag_names_the_state_that_an_update_is_for() {
    let broker = broker(Profile::STANDARD);
    let address = broker.http_address();
    let request = |login: &str, body: &str| {
        let mut stream = connect(address);
        let length = body.len();
        let text = format!(
            "PUT /q HTTP/1.1\r\nHost: localhost\r\nAuthorization: {login}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        std::io::Write::write_all(&mut stream, text.as_bytes()).unwrap();
        whole_answer(&mut stream)
    };
    let header = |head: &str, name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    let body = description("QueueDescription", "");
    let named = "x-ms-client-request-id: my-own";
    let (status, head, _) =
        request(&format!("{}\r\n{named}\r\nx-ms-return-client-request-id: true", root()), &body);
    assert_eq!(status, 201);
    assert_eq!(header(&head, "x-ms-client-request-id").as_deref(), Some("my-own"));
    // Ticks of 100 ns since the year 1, as in the service: in this century.
    let tag = header(&head, "etag").unwrap();
    assert!(
        (630_000_000_000_000_000..662_000_000_000_000_000).contains(&tag.parse::<u64>().unwrap()),
        "{tag}"
    );
    let (status, head, _) = request(&format!("{}\r\n{named}\r\nIf-Match: {tag}", root()), &body);
    assert_eq!((status, header(&head, "x-ms-client-request-id")), (200, None));
    let (status, said) = update(address, "PUT /q", &tag, &body);
    assert_eq!((status, text(&said, "Code")), (412, "412"), "{said}");
    assert_eq!(update(address, "PUT /q", "*", &body).0, 200);
}

#[test]
fn the_namespace_says_its_tier() {
    for (profile, tier) in
        [(Profile::STANDARD, "Standard"), (Profile::BASIC, "Basic"), (Profile::EMULATOR, "Standard")]
    {
        let broker = broker(profile);
        let (status, said) = ask(broker.http_address(), "GET /$namespaceinfo", "");
        assert_eq!((status, text(&said, "MessagingSKU")), (200, tier), "{said}");
        assert_eq!(text(&said, "Name"), "localhost");
        assert!(text(&said, "CreatedTime") > "2020", "{said}");
    }
}
