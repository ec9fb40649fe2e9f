//! Requests of the administration clients, as they write them, and the answers that they read.
//!
//! Each file in `administration/` is a conversation with a broker, or the beginning or the end of one; `recorded.rs` says
//! how to read them.

use std::net::SocketAddr;

use amqp_codec::{message::MessageBuilder, performative::DeliveryState, raw::AnnotationValue};
use broker_auth::{DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME, Secret, sign_token};

use crate::{
    broker::Broker,
    dialect::{Dialect, Sdk},
    http::{connect, whole_answer},
    message::{message, message_of_session},
    recorded::{Exchange, LogIn},
    sdk_dotnet, sdk_go, sdk_java,
    sessions::accept_of,
};

/// How a client says who it is: the text that its token is for, and the order of the token's parts.
pub(crate) struct Client {
    audience: fn(host: &str, target: &str) -> String,
    order: [&'static str; 4],
    line_end: &'static str,
}

const SR_FIRST: [&str; 4] = ["sr", "sig", "se", "skn"];

/// The URL up to its path; bodies in lines that end as on Windows.
pub(crate) const DOTNET: Client = Client {
    audience: |host, target| format!("http://{host}{}", target.split('?').next().unwrap()),
    order: SR_FIRST,
    line_end: "\r\n",
};
/// The whole URL.
const GO: Client =
    Client { audience: |host, target| format!("https://{host}{target}"), order: SR_FIRST, line_end: "" };
/// The host alone.
const PYTHON: Client =
    Client { audience: |host, _| format!("https://{host}"), order: SR_FIRST, line_end: "" };
/// The whole URL in lower case.
const JAVASCRIPT: Client = Client {
    audience: |host, target| format!("https://{host}{target}").to_lowercase(),
    order: ["sig", "se", "skn", "sr"],
    line_end: "",
};
/// The host, as a resource of messaging.
pub(crate) const JAVA: Client =
    Client { audience: |host, _| format!("amqp://{host}/"), order: SR_FIRST, line_end: "" };

/// `Microsoft.Azure.ServiceBus` 3.4.0: the URL up to its path, with a slash behind it.
const DOTNET_3_4_0: Client = Client {
    audience: |host, target| format!("https://{host}{}/", target.split('?').next().unwrap()),
    order: SR_FIRST,
    line_end: "\n",
};

/// The end of tokens that are good: long after now.
const LATE: u64 = u32::MAX as u64;

impl Client {
    fn token(&self, audience: &str, key: &str, until: u64) -> String {
        let token = sign_token(audience, DEVELOPMENT_KEY_NAME, &Secret::new(key), until);
        let parts = token.strip_prefix("SharedAccessSignature ").unwrap();
        let part = |name: &&str| parts.split('&').find(|part| part.starts_with(&format!("{name}="))).unwrap();
        format!("SharedAccessSignature {}", self.order.iter().map(part).collect::<Vec<_>>().join("&"))
    }

    /// A conversation with a fresh broker.
    fn replay(&self, conversation: &str) {
        self.talk(&fresh(), conversation);
    }

    /// A conversation with this one.
    fn talk(&self, broker: &Broker, conversation: &str) {
        let host = host_of(broker);
        let mut problems = Vec::new();
        let exchanges: Vec<Exchange> =
            conversation.split("### ").skip(1).map(|text| Exchange::read(text, &host)).collect();
        assert!(exchanges.len() > 3, "{}", exchanges.len());
        for exchange in &exchanges {
            let found = self.play(broker.http_address(), &host, exchange);
            problems.extend(found.into_iter().map(|problem| format!("{}: {problem}", exchange.what)));
        }
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }

    /// What is wrong with the answer to one request.
    fn play(&self, address: SocketAddr, host: &str, exchange: &Exchange) -> Vec<String> {
        let (_, target) = exchange.line.split_once(' ').unwrap();
        let own = (self.audience)(host, target);
        let login = match &exchange.login {
            LogIn::Own => Some(self.token(&own, DEVELOPMENT_KEY, LATE)),
            LogIn::WrongKey => Some(self.token(&own, "wrong", LATE)),
            LogIn::Expired => Some(self.token(&own, DEVELOPMENT_KEY, 1)),
            LogIn::For(audience) => Some(self.token(audience, DEVELOPMENT_KEY, LATE)),
            LogIn::None => None,
        };
        let mut headers: Vec<(&str, String)> =
            login.map(|login| ("Authorization", login)).into_iter().collect();
        for (name, value) in &exchange.headers {
            let value = match value.strip_prefix("token for ") {
                Some(audience) => self.token(audience, DEVELOPMENT_KEY, LATE),
                None => value.clone(),
            };
            headers.push((name, value));
        }
        let body = match self.line_end {
            "" => exchange.body.lines().map(str::trim).collect::<String>(),
            line_end => exchange.body.replace('\n', line_end),
        };
        let (status, head, body) = tell(address, host, &exchange.line, &headers, &body);
        exchange.judge(status, &head, &body)
    }

    /// Sends a request for one path with the client's own log-in, and with tokens for these targets of forwarding: says
    /// the status and the body.
    pub(crate) fn request(
        &self,
        broker: &Broker,
        line: &str,
        (headers, targets): (&[(&str, &str)], &[&str]),
        body: &str,
    ) -> (u16, String) {
        let host = host_of(broker);
        let (_, target) = line.split_once(' ').unwrap();
        let login = self.token(&(self.audience)(&host, target), DEVELOPMENT_KEY, LATE);
        let mut all = vec![("Authorization", login)];
        all.extend(headers.iter().map(|(name, value)| (*name, (*value).to_owned())));
        for (name, target) in
            ["ServiceBusSupplementaryAuthorization", "ServiceBusDlqSupplementaryAuthorization"]
                .iter()
                .zip(targets)
        {
            all.push((name, self.token(target, DEVELOPMENT_KEY, LATE)));
        }
        let (status, _, body) = tell(broker.http_address(), &host, line, &all, body);
        (status, body)
    }
}

/// A broker without entities, that makes none by itself.
pub(crate) fn fresh() -> Broker {
    Broker::with(|config| (config.entities, config.auto_create) = (Vec::new(), false))
}

/// Where clients find a broker's API.
pub(crate) fn host_of(broker: &Broker) -> String {
    format!("localhost:{}", broker.http_address().port())
}

/// Sends one request on a connection of its own: status, what stands above the body, and the body.
fn tell(
    address: SocketAddr,
    host: &str,
    line: &str,
    headers: &[(&str, String)],
    body: &str,
) -> (u16, String, String) {
    let length = body.len();
    let mut request =
        format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n");
    for (name, value) in headers {
        request.extend([name, ": ", value.as_str(), "\r\n"]);
    }
    request.extend(["\r\n", body]);
    let mut stream = connect(address);
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    whole_answer(&mut stream)
}

#[test]
fn scripted_dotnet_administers_as_recorded() {
    DOTNET.replay(include_str!("administration/dotnet.http"));
}

/// All that `ManagementClient` of `Microsoft.Azure.ServiceBus` 3.4.0 asked, in its order, but for a request with a key of another
/// name, and what it reads of the answers. The recorded broker answered 200 for a missing subscription and a missing rule, and
/// gave a `long` back as an `int`.
#[test]
fn replayed_administers() {
    let broker = crate::replayed::broker_with(&["t20", "t20/Subscriptions/one", "t20/Subscriptions/two"]);
    DOTNET_3_4_0.talk(&broker, include_str!("administration/replayed.http"));
}

#[test]
fn scripted_java_administers_as_recorded() {
    JAVA.replay(include_str!("administration/java.http"));
}

#[test]
fn scripted_go_administers_as_recorded() {
    GO.replay(include_str!("administration/go.http"));
}

#[test]
fn scripted_python_administers_as_recorded() {
    PYTHON.replay(include_str!("administration/python.http"));
}

#[test]
fn every_refusal_has_its_status_its_code_and_its_headers() {
    PYTHON.replay(include_str!("administration/refusals.http"));
}

#[test]
fn scripted_javascript_administers_as_recorded() {
    JAVASCRIPT.replay(include_str!("administration/javascript.http"));
}

/// Sends through what a conversation has made, and receives what comes out: every property that says something about
/// messages has its say. `priority` is what the action of the first rule sets, if it has one.
fn uses(broker: &Broker, dialect: &Dialect, priority: Option<&str>) {
    let mut sdk = Sdk::connect(broker, dialect);
    let into = sdk.sender("steps");
    sdk.send(into, 0, &message_of_session("a letter"));
    // The second delivery is the last one.
    let (channel, session) = accept_of(&mut sdk, "steps", 10, None);
    assert_eq!(session, "a");
    for count in 0..2 {
        let delivery = sdk.receive(channel, 10, 1).remove(0);
        assert_eq!((delivery.text().as_str(), delivery.header().delivery_count), ("a letter", count));
        sdk.settle(channel, &delivery, (dialect.abandon)());
    }
    assert!(sdk.client.drain(channel, 10, 1).is_empty(), "it is in the morgue");

    let into = sdk.sender("hall");
    sdk.send(into, 0, &message("through the hall"));
    let into = sdk.sender("events");
    for (text, amount) in [("small", 1), ("large", 101)] {
        let order = MessageBuilder::new()
            .message_id(text)
            .application_property("amount", AnnotationValue::Int(amount))
            .property(amqp_codec::sections::PropertyField::GroupId, AnnotationValue::Str("s"))
            .data(text.as_bytes());
        sdk.send(into, 0, &order.build());
    }
    let channel = sdk.receiver("desk", 11, dialect.locking);
    let mut came: Vec<String> = Vec::new();
    for delivery in sdk.receive(channel, 11, 3) {
        came.push(delivery.text());
        sdk.settle(channel, &delivery, DeliveryState::Accepted);
    }
    came.sort();
    assert_eq!(came, ["large", "small", "through the hall"]);
    let channel = sdk.receiver("events/Subscriptions/all", 12, dialect.locking);
    let large = sdk.receive(channel, 12, 1).remove(0);
    assert_eq!((large.text().as_str(), large.property("priority").as_deref()), ("large", priority));
    sdk.settle(channel, &large, (dialect.abandon)());
    sdk.client.wire.script.detach(channel, 12, true);
    sdk.client.wire.detached().unwrap();
    sdk.client.close();
}

/// Makes one of everything, changes it, sends and receives through it, looks at what it has become, and deletes it.
fn makes_uses_and_ends(
    client: &Client,
    dialect: &Dialect,
    priority: Option<&str>,
    (makes, ends): (&str, &str),
) {
    let broker = fresh();
    client.talk(&broker, makes);
    uses(&broker, dialect, priority);
    client.talk(&broker, ends);
}

#[test]
fn scripted_dotnet_makes_uses_and_deletes_everything() {
    let (makes, ends) =
        (include_str!("administration/dotnet-makes.http"), include_str!("administration/dotnet-ends.http"));
    makes_uses_and_ends(&DOTNET, &sdk_dotnet::DOTNET, Some("high"), (makes, ends));
}

#[test]
fn scripted_java_makes_uses_and_deletes_everything() {
    let (makes, ends) =
        (include_str!("administration/java-makes.http"), include_str!("administration/java-ends.http"));
    makes_uses_and_ends(&JAVA, &sdk_java::JAVA, Some("high"), (makes, ends));
}

/// It writes the first rule of a subscription without an action.
#[test]
fn scripted_go_makes_uses_and_deletes_everything() {
    let (makes, ends) =
        (include_str!("administration/go-makes.http"), include_str!("administration/go-ends.http"));
    makes_uses_and_ends(&GO, &sdk_go::GO, None, (makes, ends));
}
