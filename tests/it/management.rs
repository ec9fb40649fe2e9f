//! The management API beyond what its clients were recorded with: tiers, refusals, preconditions.

use std::net::SocketAddr;

use broker_core::Profile;

use crate::{
    broker::Broker,
    http::{ask_over, connect, root},
};

/// A broker without entities.
fn broker(profile: Profile) -> Broker {
    Broker::with(|config| {
        (config.entities, config.auto_create) = (Vec::new(), false);
        config.quotas.profile = profile;
    })
}

/// Asks with the development key; `request` is method and path.
fn ask(address: SocketAddr, request: &str, body: &str) -> (u16, String) {
    ask_over(&mut connect(address), request, Some(&root()), body)
}

/// The same with `If-Match`.
fn update(address: SocketAddr, request: &str, tag: &str, body: &str) -> (u16, String) {
    // The first line of headers stands where the version does: the second one is the request's own.
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
    let asked = ["<MaxSizeInMegabytes>1024</MaxSizeInMegabytes>", "", "<MaxSizeInMegabytes>5120</MaxSizeInMegabytes>"];
    let cases = [
        (Profile::STANDARD, ["1024", "1024", "5120"]),
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

#[test]
fn a_tier_refuses_what_it_does_not_have() {
    let queue = "QueueDescription";
    let cases = [
        (Profile::EMULATOR, queue, "<DefaultMessageTimeToLive>PT2H</DefaultMessageTimeToLive>", "at most 1 hour"),
        (Profile::EMULATOR, queue, "<MaxDeliveryCount>11</MaxDeliveryCount>", "1 to 10"),
        (Profile::BASIC, queue, "<DefaultMessageTimeToLive>P15D</DefaultMessageTimeToLive>", "at most 14 days"),
        (Profile::BASIC, queue, "<RequiresSession>true</RequiresSession>", "RequiresSession"),
        (Profile::BASIC, "TopicDescription", "", "topics"),
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
