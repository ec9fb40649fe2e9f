//! Bad input at the management API: the right status in a body that clients can read, and nothing is changed by it.

use std::time::{SystemTime, UNIX_EPOCH};

use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, Secret, sign_token};

use crate::{
    broker::{Broker, QUEUE},
    http::{ask, ask_over, connect},
};

/// All that there is.
fn everything(broker: &Broker) -> String {
    let lists = ["queues", "topics"].map(|kind| ask(broker.address, &format!("GET /$Resources/{kind}"), ""));
    let texts = lists.map(|(status, text)| {
        assert_eq!(status, 200, "{text}");
        // When it was asked is not what there is.
        let (_, entries) = text.split_once("<entry").unwrap_or_default();
        entries.to_owned()
    });
    texts.concat()
}

/// Demands that a refusal is one that clients can read.
fn is_told(status: u16, text: &str, case: &str) {
    let begin = format!("<Error><Code>{status}</Code><Detail>");
    assert!(text.starts_with(&begin) && text.ends_with("</Detail></Error>"), "{case}: {text}");
}

fn described(element: &str, inside: &str) -> String {
    format!(
        "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><{element} \
         xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\">{inside}</{element}></content></entry>"
    )
}

fn queue(inside: &str) -> String {
    described("QueueDescription", inside)
}

#[test]
fn bodies_that_are_no_descriptions_are_refused_and_change_nothing() {
    let broker = Broker::start();
    let before = everything(&broker);
    let entity = |name: char| {
        format!("<!ENTITY {name} \"{}\">", format!("&{};", char::from(name as u8 - 1)).repeat(10))
    };
    let laughs = ('b'..='j').map(entity).collect::<Vec<_>>().concat();
    let laughs =
        format!("<!DOCTYPE entry [<!ENTITY a \"ha\">{laughs}]>{}", queue("<UserMetadata>&j;</UserMetadata>"));
    let outside = "<!DOCTYPE entry [<!ENTITY a SYSTEM \"file:///etc/passwd\">]>".to_owned()
        + &queue("<UserMetadata>&a;</UserMetadata>");
    let deep = queue(&("<a>".repeat(10_000) + &"</a>".repeat(10_000)));
    let wide = queue(&"<a/>".repeat(100_000));
    let attributes: String =
        (0..20_000).flat_map(|at| [" a".to_owned(), at.to_string(), "=\"\"".into()]).collect();
    let cases: [(&str, String, u16); 18] = [
        ("nothing", String::new(), 400),
        ("no XML", "{\"name\":\"made\"}".into(), 400),
        ("half a document", queue("")[..150].into(), 400),
        ("two documents", queue("").repeat(2), 400),
        ("tags that cross", queue("<a><b></a></b>"), 400),
        ("an unknown reference", queue("<UserMetadata>&nothing;</UserMetadata>"), 400),
        ("a character that XML has not", queue("<UserMetadata>&#0;</UserMetadata>"), 400),
        ("entities that grow", laughs, 400),
        ("an entity of a file", outside, 400),
        ("too deep", deep, 400),
        ("too many elements", wide, 400),
        ("too many attributes", queue(&format!("<a{attributes}/>")), 400),
        ("too large", queue(&format!("<UserMetadata>{}</UserMetadata>", "x".repeat(1 << 20))), 413),
        ("no content", "<entry xmlns=\"http://www.w3.org/2005/Atom\"/>".into(), 400),
        ("another namespace", queue("").replace("servicebus/connect", "servicebus/other"), 400),
        ("another description", described("NamespaceInfo", ""), 400),
        ("a value out of range", queue("<LockDuration>PT6M</LockDuration>"), 400),
        ("a value of another type", queue("<MaxDeliveryCount>many</MaxDeliveryCount>"), 400),
    ];
    for (case, body, expected) in &cases {
        // An update is told by a header, behind the version.
        for request in ["PUT /made", "PUT /orders HTTP/1.1\r\nIf-Match: *\r\nX: "] {
            let (status, text) = ask(broker.address, request, body);
            assert_eq!(status, *expected, "{case}, {request}: {text}");
            is_told(status, &text, case);
        }
        assert_eq!(everything(&broker), before, "{case}");
    }
    // What is not known is overlooked, wherever it stands.
    let (status, text) = ask(
        broker.address,
        "PUT /made",
        &queue("<Colour>red</Colour><!-- so --><LockDuration>PT5S</LockDuration>"),
    );
    assert!(status == 201 && text.contains("<LockDuration>PT5S</LockDuration>"), "{status} {text}");
}

#[test]
fn paths_that_are_tricks_lead_nowhere() {
    let broker = Broker::start();
    let before = everything(&broker);
    let body = queue("");
    let cases = [
        ("PUT /%2e%2e", 400),
        ("PUT /%2e%2e/orders", 400),
        ("PUT /..%2f..%2fetc%2fpasswd", 400),
        ("PUT /orders%00", 400),
        ("PUT /%00", 400),
        ("PUT /new%0d%0aX-Injected:%20yes", 400),
        ("PUT /new%20name", 400),
        ("PUT /n%C3%A4me", 400),
        ("PUT /%FF%FE", 400),
        ("PUT /a%2F%2Fb", 400),
        ("PUT /a//b", 400),
        ("PUT /orders/$DeadLetterQueue", 400),
        ("PUT /orders/%24Transfer/%24DeadLetterQueue", 400),
        ("PUT /..%2F$ferrybus/clock", 400),
        ("PUT /$Resources/queues", 405),
        ("DELETE /$Resources/queues", 405),
        ("DELETE /$namespaceinfo", 405),
        ("DELETE /orders/../innocent", 404),
        ("DELETE /innocent%2F..%2Forders", 404),
        ("DELETE /orders%00", 404),
        ("DELETE /orders/.", 404),
        ("DELETE /orders%2500", 404),
        ("DELETE /%252Forders", 404),
        ("DELETE /orders/Subscriptions/all", 404),
        ("DELETE /orders/Subscriptions/all/Rules/$Default", 404),
        ("DELETE /", 400),
        ("DELETE /Subscriptions/orders", 404),
    ];
    for (request, expected) in cases {
        let sent = if request.starts_with("PUT") { &*body } else { "" };
        let (status, text) = ask(broker.address, request, sent);
        assert_eq!(status, expected, "{request}: {text}");
        is_told(status, &text, request);
        assert_eq!(everything(&broker), before, "{request}");
    }
    // Slashes at the ends and escapes name the same entity; so they do for who judges the right.
    let (status, text) = ask(broker.address, "GET /%2F%2Forder%73/", "");
    assert!(status == 200 && text.contains("<title type=\"text\">orders</title>"), "{status} {text}");
}

#[test]
fn a_token_for_one_place_opens_no_other() {
    let broker = Broker::start();
    let before = everything(&broker);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let sign = |place: &str| {
        let place = format!("http://localhost/{place}");
        sign_token(&place, DEVELOPMENT_KEY_NAME, &Secret::new(DEVELOPMENT_KEY), now + 600)
    };
    let good = ask_over(&mut connect(broker.address), &format!("GET /{QUEUE}"), Some(&sign(QUEUE)), "");
    assert_eq!(good.0, 200, "{}", good.1);
    let cases = [
        ("innocent", "orders"),
        ("innocent", "%2Forders"),
        ("innocent", "innocent/../orders"),
        ("innocent", "innocent%2F..%2Forders"),
        ("innocent", "innocent%2f%2e%2e%2forders"),
        ("innocent", "./orders"),
        ("innocent", "$Resources/queues"),
        ("innocent", "%24namespaceinfo"),
        // The beginning of a name is no place above it.
        ("order", "orders"),
        ("orders/more", "orders"),
        ("orders%2F", "ordersx"),
        ("$Resources", "orders"),
    ];
    for (place, path) in cases {
        for method in ["GET", "DELETE"] {
            let request = format!("{method} /{path}");
            let (status, text) = ask_over(&mut connect(broker.address), &request, Some(&sign(place)), "");
            // What lies below a place is opened by it, and there is nothing.
            let is_below = path.starts_with("innocent");
            let expected = if !is_below {
                [401, 401]
            } else if method == "GET" {
                [200, 401]
            } else {
                [404, 401]
            };
            assert!(expected.contains(&status), "{place}: {request}: {status} {text}");
            assert!(!text.contains("QueueDescription"), "{place}: {request}: {text}");
        }
        assert_eq!(everything(&broker), before, "{place} {path}");
    }
}
