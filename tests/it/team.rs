//! A namespace that an administrator makes while the broker runs, and clients of it.

use std::time::{Duration, Instant};

use amqp_codec::performative::{Error, Open, Performative};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use broker_auth::{Anonymous, Credentials, DEVELOPMENT_KEY, DEVELOPMENT_KEY_NAME};
use broker_server::ServerConfig;
use serde_json::{Value, json};
use testkit::Wire;

use crate::{
    broker::Broker,
    client::Client,
    dialect::{Dialect, Sdk},
    http::{ask, ask_host, connect},
};

/// The interface of namespaces.
pub(crate) const ROOT: &str = "/$ferrybus/namespaces";

/// A broker whose new namespaces are opened by the development key.
pub(crate) fn broker() -> Broker {
    broker_with(|_| {})
}

/// The same with changed settings.
pub(crate) fn broker_with(change: impl FnOnce(&mut ServerConfig)) -> Broker {
    Broker::with(|config| {
        config.created_namespace = Credentials::development(Anonymous::Deny);
        change(config);
    })
}

/// The log-in of a user or key at HTTP.
pub(crate) fn basic(name: &str, text: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{text}")))
}

/// The response of PLAIN.
pub(crate) fn plain_response(name: &str, text: &str) -> Vec<u8> {
    format!("\0{name}\0{text}").into_bytes()
}

/// A description of an entity with defaults, in the management API's XML.
pub(crate) fn description(element: &str) -> String {
    format!(
        "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><{element} \
         xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\"/></content></entry>"
    )
}

/// Asks until it holds.
pub(crate) fn until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(20), "it does not come to hold");
    }
}

/// A namespace.
pub(crate) struct Team<'b> {
    broker: &'b Broker,
    pub(crate) name: &'static str,
}

impl<'b> Team<'b> {
    /// A new one without limits.
    pub(crate) fn create(broker: &'b Broker, name: &'static str) -> Self {
        let team = Self { broker, name };
        assert_eq!(team.put(&json!({})).0, 201);
        team
    }

    fn put(&self, limits: &Value) -> (u16, String) {
        let body = json!({ "limits": limits }).to_string();
        ask(self.broker.address, &format!("PUT {ROOT}/{}", self.name), &body)
    }

    /// It has these limits and no others from now on.
    pub(crate) fn limit(&self, limits: &Value) {
        let (status, text) = self.put(limits);
        assert_eq!(status, 200, "{text}");
    }

    /// A figure of what it uses, from the interface of namespaces.
    pub(crate) fn usage(&self, figure: &str) -> u64 {
        let (status, text) = ask(self.broker.address, &format!("GET {ROOT}/{}", self.name), "");
        assert_eq!(status, 200, "{text}");
        let shown: Value = serde_json::from_str(&text).unwrap();
        shown["usage"][figure].as_u64().unwrap()
    }

    /// Asks until a figure is this number: a connection leaves its place a moment after its client has gone.
    pub(crate) fn uses_at_last(&self, figure: &str, expected: u64) {
        until(|| self.usage(figure) == expected);
    }

    /// A sample of it in `/metrics`: the name behind `ferrybus_namespace_`.
    pub(crate) fn metric(&self, name: &str) -> Option<u64> {
        self.sample(&format!("ferrybus_namespace_{name}{{namespace=\"{}\"}} ", self.name))
    }

    /// One of its limits in `/metrics`.
    pub(crate) fn limit_metric(&self, limit: &str) -> Option<u64> {
        self.sample(&format!("ferrybus_namespace_limit{{namespace=\"{}\",limit=\"{limit}\"}} ", self.name))
    }

    fn sample(&self, head: &str) -> Option<u64> {
        let (status, text) = ask(self.broker.address, "GET /metrics", "");
        assert_eq!(status, 200, "{text}");
        let number = text.lines().find_map(|line| line.strip_prefix(head))?;
        Some(number.parse().unwrap())
    }

    /// A host name that leads to it.
    pub(crate) fn host(&self) -> String {
        format!("{}.localhost", self.name)
    }

    /// Asks the management API at its host, with the development key.
    pub(crate) fn ask(&self, request: &str, body: &str) -> (u16, String) {
        let login = basic(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY);
        ask_host(&mut connect(self.broker.address), &self.host(), request, Some(&login), body)
    }

    /// Creates an entity through the management API.
    pub(crate) fn create_entity(&self, path: &str, element: &str) -> (u16, String) {
        self.ask(&format!("PUT /{path}?api-version=2021-05"), &description(element))
    }

    /// A client of plain AMQP with a session on channel 0.
    pub(crate) fn plain(&self) -> Client {
        let open = Open { hostname: Some(self.host()), ..Open::new("client") };
        let response = plain_response(DEVELOPMENT_KEY_NAME, DEVELOPMENT_KEY);
        let mut client = Client::connect(self.broker.address, "PLAIN", Some(&response), open);
        client.begin(0);
        client
    }

    /// A client of Service Bus.
    pub(crate) fn sdk<'d>(&self, dialect: &'d Dialect) -> Sdk<'d> {
        let open = Open { hostname: Some(self.host()), ..(dialect.open)() };
        Sdk::open_over(Wire::connect(self.broker.address).unwrap(), dialect, open)
    }

    /// The error of the close with which a client is answered that connects with this log-in and this open.
    pub(crate) fn closed_with(&self, sasl: (&'static str, Option<&[u8]>), open: Open) -> Error {
        let open = Open { hostname: Some(self.host()), ..open };
        enter(self.broker, sasl, open).err().expect("the connection is refused")
    }
}

/// A client with a session on channel 0, or the error with which the broker closes its connection.
pub(crate) fn enter(
    broker: &Broker,
    (mechanism, response): (&'static str, Option<&[u8]>),
    open: Open,
) -> Result<Client, Error> {
    let mut wire = Wire::connect(broker.address).unwrap();
    wire.script.sasl(mechanism, response).open_with(open).begin(0);
    let ends =
        |performative: &Performative| matches!(performative, Performative::Begin(_) | Performative::Close(_));
    match wire.until(ends).unwrap().performative {
        Performative::Close(close) => Err(close.error.unwrap()),
        _ => Ok(Client::on(wire)),
    }
}
