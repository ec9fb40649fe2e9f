//! Frameworks whose start drives the administration API: what each does, decision by decision, through the .NET client.
//! Every start is played twice, for the second finds what the first has made, and then by two instances at once, which
//! race for it; then messages go through what they made.
//!
//! What they do is read from their sources: `MassTransit.Azure.ServiceBus.Core` (8.x, `ServiceBusConnectionContext`,
//! `ConfigureServiceBusTopologyFilter`), `NServiceBus.Transport.AzureServiceBus` (`QueueCreator`, the topology creators and
//! subscription managers), `Rebus.AzureServiceBus` (`AzureServiceBusTransport`) and the documents of Spring Cloud Azure.

use amqp_codec::performative::DeliveryState;
use bytes::Bytes;

use crate::{
    administration::{self, DOTNET, fresh, host_of},
    broker::Broker,
    dialect::{Dialect, Sdk},
    message::{Delivery, message},
    sdk_dotnet,
};

mod masstransit;
mod nservicebus;
mod rebus;
mod spring;

/// What the .NET client throws, by which frameworks decide.
#[derive(Debug, Eq, PartialEq)]
enum Thrown {
    /// `ServiceBusException` with the reason `MessagingEntityNotFound`.
    NotFound,
    /// `ServiceBusException` with the reason `MessagingEntityAlreadyExists`.
    AlreadyExists,
    /// Anything else ends the start.
    Other(u16, String),
}

const QUEUE: &str = "QueueDescription";
const TOPIC: &str = "TopicDescription";
const SUBSCRIPTION: &str = "SubscriptionDescription";
const RULE: &str = "RuleDescription";

/// An administration client.
#[derive(Clone, Copy)]
struct Admin<'b> {
    broker: &'b Broker,
    client: &'static administration::Client,
}

impl<'b> Admin<'b> {
    fn dotnet(broker: &'b Broker) -> Self {
        Self { broker, client: &DOTNET }
    }

    /// `GetQueueAsync` and its like: what is of another kind is not found either.
    fn get(self, path: &str, kind: &str) -> Result<String, Thrown> {
        let line = format!("GET /{path}?api-version=2024-05&enrich=False");
        match self.client.request(self.broker, &line, (&[], &[]), "") {
            (200, body) if body.contains("<entry") && body.contains(&format!("<{kind} ")) => Ok(body),
            (200 | 404, _) => Err(Thrown::NotFound),
            (status, body) => Err(Thrown::Other(status, body)),
        }
    }

    /// `QueueExistsAsync` and its like.
    fn exists(self, path: &str, kind: &str) -> Result<bool, Thrown> {
        match self.get(path, kind) {
            Ok(_) => Ok(true),
            Err(Thrown::NotFound) => Ok(false),
            Err(thrown) => Err(thrown),
        }
    }

    /// `GetRulesAsync`.
    fn rules(self, subscription: &str) -> String {
        let line = format!("GET /{subscription}/Rules?api-version=2024-05&enrich=False&$skip=0&$top=100");
        let (status, body) = self.client.request(self.broker, &line, (&[], &[]), "");
        assert_eq!(status, 200, "{body}");
        body
    }

    fn put(self, path: &str, kind: &str, inside: &str, update: bool) -> Result<(), Thrown> {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\r\n<entry xmlns=\"http://www.w3.org/2005/Atom\">\r\n  \
             <content type=\"application/xml\">\r\n    <{kind} \
             xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\">{inside}</{kind}>\r\n  \
             </content>\r\n</entry>"
        );
        let mut headers = vec![("Content-Type", "application/atom+xml")];
        headers.extend(update.then_some(("If-Match", "*")));
        let target = text(inside, "ForwardTo");
        let targets: Vec<&str> = target.iter().map(String::as_str).collect();
        let line = format!("PUT /{path}?api-version=2024-05");
        match self.client.request(self.broker, &line, (&headers, &targets), &body) {
            (200 | 201, _) => Ok(()),
            (404, _) => Err(Thrown::NotFound),
            (409, _) if !update => Err(Thrown::AlreadyExists),
            (status, body) => Err(Thrown::Other(status, body)),
        }
    }

    fn create(self, path: &str, kind: &str, inside: &str) -> Result<(), Thrown> {
        self.put(path, kind, inside, false)
    }

    fn update(self, path: &str, kind: &str, inside: &str) {
        assert_eq!(self.put(path, kind, inside, true), Ok(()), "{path}");
    }

    fn delete(self, path: &str) -> Result<(), Thrown> {
        let line = format!("DELETE /{path}?api-version=2024-05");
        match self.client.request(self.broker, &line, (&[], &[]), "") {
            (200, _) => Ok(()),
            (404, _) => Err(Thrown::NotFound),
            (status, body) => Err(Thrown::Other(status, body)),
        }
    }

    /// A forward target as the client writes it: a URI at the address that it was given.
    fn address(self, entity: &str) -> String {
        format!("http://{}/{entity}", host_of(self.broker))
    }
}

/// What stands in the first element of this name.
fn text(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0.to_owned())
}

/// What a start has found and made, in its order.
#[derive(Debug, Default, Eq, PartialEq)]
struct Start {
    made: Vec<String>,
    found: Vec<String>,
    updated: Vec<String>,
    /// Others were faster.
    lost: Vec<String>,
}

impl Start {
    /// Looks first, makes what is missing, and looks again where somebody else was faster.
    fn look_and_make(&mut self, admin: Admin<'_>, path: &str, kind: &str, inside: &str) {
        if admin.get(path, kind) != Err(Thrown::NotFound) {
            return self.found.push(path.to_owned());
        }
        match admin.create(path, kind, inside) {
            Ok(()) => self.made.push(path.to_owned()),
            Err(Thrown::AlreadyExists) => {
                assert!(admin.get(path, kind).is_ok(), "{path} exists");
                self.lost.push(path.to_owned());
            }
            Err(thrown) => panic!("{path}: {thrown:?}"),
        }
    }

    /// Makes at once; what exists already is as good.
    fn make(&mut self, admin: Admin<'_>, path: &str, kind: &str, inside: &str) {
        match admin.create(path, kind, inside) {
            Ok(()) => self.made.push(path.to_owned()),
            Err(Thrown::AlreadyExists) => self.found.push(path.to_owned()),
            Err(thrown) => panic!("{path}: {thrown:?}"),
        }
    }
}

/// The properties of a queue that every .NET client sends.
struct Options {
    lock: &'static str,
    time_to_live: Option<&'static str>,
    dead_letter: bool,
    deliveries: u32,
    megabytes: u32,
    idle: Option<&'static str>,
}

/// What .NET sends where a framework sets nothing.
const DEFAULTS: Options = Options {
    lock: "PT1M",
    time_to_live: None,
    dead_letter: false,
    deliveries: 10,
    megabytes: 1024,
    idle: None,
};

fn element(name: &str, text: Option<&str>) -> String {
    text.map(|text| format!("<{name}>{text}</{name}>")).unwrap_or_default()
}

impl Options {
    fn queue(&self) -> String {
        let Self { lock, dead_letter, deliveries, megabytes, .. } = self;
        let (live, idle) =
            (element("DefaultMessageTimeToLive", self.time_to_live), element("AutoDeleteOnIdle", self.idle));
        format!(
            "<LockDuration>{lock}</LockDuration><MaxSizeInMegabytes>{megabytes}</MaxSizeInMegabytes>\
             <RequiresDuplicateDetection>false</RequiresDuplicateDetection><RequiresSession>false</RequiresSession>{live}\
             <DeadLetteringOnMessageExpiration>{dead_letter}</DeadLetteringOnMessageExpiration>\
             <MaxDeliveryCount>{deliveries}</MaxDeliveryCount><EnableBatchedOperations>true</EnableBatchedOperations>\
             <IsAnonymousAccessible>false</IsAnonymousAccessible><AuthorizationRules /><Status>Active</Status>{idle}\
             <EnablePartitioning>false</EnablePartitioning><EnableExpress>false</EnableExpress>"
        )
    }

    fn topic(&self) -> String {
        let megabytes = self.megabytes;
        let (live, idle) =
            (element("DefaultMessageTimeToLive", self.time_to_live), element("AutoDeleteOnIdle", self.idle));
        format!(
            "{live}<MaxSizeInMegabytes>{megabytes}</MaxSizeInMegabytes>\
             <RequiresDuplicateDetection>false</RequiresDuplicateDetection>\
             <EnableBatchedOperations>true</EnableBatchedOperations>\
             <FilteringMessagesBeforePublishing>false</FilteringMessagesBeforePublishing>\
             <IsAnonymousAccessible>false</IsAnonymousAccessible><AuthorizationRules /><Status>Active</Status>\
             <SupportOrdering>false</SupportOrdering>{idle}<EnablePartitioning>false</EnablePartitioning>\
             <EnableSubscriptionPartitioning>false</EnableSubscriptionPartitioning><EnableExpress>false</EnableExpress>"
        )
    }

    /// `rule` is a `DefaultRuleDescription` or nothing, `note` the user metadata.
    fn subscription(
        &self,
        forward_to: Option<&str>,
        rule: &str,
        (note, on_error): (Option<&str>, bool),
    ) -> String {
        let Self { lock, dead_letter, deliveries, .. } = self;
        let (live, idle) =
            (element("DefaultMessageTimeToLive", self.time_to_live), element("AutoDeleteOnIdle", self.idle));
        let (target, note) = (element("ForwardTo", forward_to), element("UserMetadata", note));
        format!(
            "<LockDuration>{lock}</LockDuration><RequiresSession>false</RequiresSession>{live}\
             <DeadLetteringOnMessageExpiration>{dead_letter}</DeadLetteringOnMessageExpiration>\
             <DeadLetteringOnFilterEvaluationExceptions>{on_error}</DeadLetteringOnFilterEvaluationExceptions>{rule}\
             <MaxDeliveryCount>{deliveries}</MaxDeliveryCount><EnableBatchedOperations>true</EnableBatchedOperations>\
             <Status>Active</Status>{target}{note}{idle}"
        )
    }
}

/// A rule as .NET writes it, in a description of its own or of a subscription.
fn rule(element: &str, name: &str, kind: &str, expression: &str) -> String {
    let inside = format!(
        "<Filter p5:type=\"{kind}\" xmlns:p5=\"http://www.w3.org/2001/XMLSchema-instance\">\
         <SqlExpression>{expression}</SqlExpression><Parameters /></Filter><Name>{name}</Name>"
    );
    if element == RULE { inside } else { format!("<{element}>{inside}</{element}>") }
}

/// Receives and completes what an entity has.
fn take(sdk: &mut Sdk<'_>, entity: &str, handle: u32, count: u32) -> Vec<String> {
    let channel = sdk.receiver(entity, handle, sdk.dialect.locking);
    let taken = sdk.receive(channel, handle, count);
    for delivery in &taken {
        sdk.settle(channel, delivery, DeliveryState::Accepted);
    }
    assert!(sdk.client.drain(channel, handle, 1).is_empty(), "{entity} has more than {count}");
    taken.iter().map(Delivery::text).collect()
}

fn publish(sdk: &mut Sdk<'_>, entity: &str, payload: &Bytes) {
    let channel = sdk.sender(entity);
    sdk.send(channel, 0, payload);
    sdk.client.wire.script.detach(channel, 2, true);
    sdk.client.wire.detached().unwrap();
}

/// The first start, the second, and two at once on another broker: none of them fails, and nothing is made twice.
fn starts(dialect: &Dialect, start: fn(&Broker) -> Start, through: fn(&mut Sdk<'_>)) -> (Start, Start) {
    let broker = fresh();
    let (first, second) = (start(&broker), start(&broker));
    let mut sdk = Sdk::connect(&broker, dialect);
    through(&mut sdk);
    sdk.client.close();

    let broker = fresh();
    let both = std::thread::scope(|threads| {
        [(); 2].map(|()| threads.spawn(|| start(&broker))).map(|one| one.join().unwrap())
    });
    let mut made: Vec<&String> = both.iter().flat_map(|start| &start.made).collect();
    made.sort();
    let mut alone: Vec<&String> = first.made.iter().collect();
    alone.sort();
    assert_eq!(made, alone, "each was made by one of them");
    let mut sdk = Sdk::connect(&broker, dialect);
    through(&mut sdk);
    sdk.client.close();
    (first, second)
}
