//! Asks a node (`$cbs`, `$management`) and waits for its answer.
//!
//! Invariant: an answer is taken only for the question whose message-id it carries.

use fe2o3_amqp::{Receiver, Sender, link::receiver::CreditMode, session::SessionHandle};
use fe2o3_amqp_types::{
    messaging::{ApplicationProperties, Body, Message, MessageId, Properties, Target},
    primitives::{SimpleValue, Value},
};
use tokio::time::timeout;

use super::{
    connect::RESPONSE_TIMEOUT,
    fault::{fault, refusal, too_slow},
    wire_address::wire_address,
};
use crate::failure::Failure;

/// A pair of links to one node.
pub(super) struct Requester {
    node: String,
    reply_to: String,
    sender: Sender,
    receiver: Receiver,
    asked: u64,
}

/// Response of a management node.
pub(super) struct ManagementResponse {
    status: i32,
    description: Option<String>,
    /// The body's value; `Value::Null` without one.
    pub(super) body: Value,
}

impl ManagementResponse {
    /// A status from 200 to 299.
    pub(super) const fn is_good(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// There is nothing to show.
    pub(super) const fn is_empty(&self) -> bool {
        self.status == 204
    }

    /// Status and text of a refusal.
    pub(super) fn error_text(&self) -> String {
        match &self.description {
            Some(text) => format!("{text} (status {})", self.status),
            None => format!("status {}", self.status),
        }
    }
}

impl Requester {
    pub(super) async fn open(
        session: &mut SessionHandle<()>,
        node: &str,
        number: u32,
    ) -> Result<Self, Failure> {
        let what = format!("cannot reach `{node}`");
        let reply_to = format!("reply-{number}");
        let attach = async {
            let sender = Sender::builder()
                .name(format!("ask-{number}"))
                .target(&*wire_address(node))
                .attach(session)
                .await
                .map_err(|error| fault(&what, &error))?;
            let mut receiver = Receiver::builder()
                .name(format!("answer-{number}"))
                .source(&*wire_address(node))
                .target(Target::builder().address(reply_to.as_str()).build())
                .credit_mode(CreditMode::Manual)
                .attach(session)
                .await
                .map_err(|error| fault(&what, &error))?;
            let credit = receiver.set_credit(CREDIT).await;
            credit.map_err(|error| Failure::new(format_args!("{what}: {error}")))?;
            Ok((sender, receiver))
        };
        let (sender, receiver) = timeout(RESPONSE_TIMEOUT, attach).await.map_err(|_| too_slow(&what))??;
        Ok(Self { node: node.into(), reply_to, sender, receiver, asked: 0 })
    }

    /// Asks once and waits.
    pub(super) async fn ask(
        &mut self,
        properties: ApplicationProperties,
        body: Value,
    ) -> Result<ManagementResponse, Failure> {
        let what = format!("no answer from `{}`", self.node);
        timeout(RESPONSE_TIMEOUT, self.ask_patiently(properties, body, &what))
            .await
            .map_err(|_| too_slow(&what))?
    }

    async fn ask_patiently(
        &mut self,
        properties: ApplicationProperties,
        body: Value,
        what: &str,
    ) -> Result<ManagementResponse, Failure> {
        self.asked += 1;
        let question = Message::builder()
            .properties(
                Properties::builder()
                    .message_id(self.asked)
                    .to(self.node.as_str())
                    .reply_to(self.reply_to.as_str())
                    .build(),
            )
            .application_properties(properties)
            .value(body)
            .build();
        let outcome = self.sender.send(question).await.map_err(|error| fault(what, &error))?;
        if let Some(reason) = refusal(&outcome) {
            return Err(Failure::new(format_args!("{what}: {reason}")));
        }
        loop {
            let delivery = self.receiver.recv::<Body<Value>>().await.map_err(|error| fault(what, &error))?;
            let accepted = self.receiver.accept(&delivery).await;
            accepted.map_err(|error| Failure::new(format_args!("{what}: {error}")))?;
            let message = delivery.into_message();
            let answers =
                message.properties.as_ref().and_then(|properties| properties.correlation_id.as_ref());
            if answers == Some(&MessageId::Ulong(self.asked)) {
                let credit = self.receiver.set_credit(CREDIT).await;
                credit.map_err(|error| Failure::new(format_args!("{what}: {error}")))?;
                return answer(message, what);
            }
        }
    }

    /// Gives the links back.
    pub(super) async fn close(self) {
        drop(timeout(RESPONSE_TIMEOUT, self.sender.close()).await);
        drop(timeout(RESPONSE_TIMEOUT, self.receiver.close()).await);
    }
}

fn answer(message: Message<Body<Value>>, what: &str) -> Result<ManagementResponse, Failure> {
    let properties = message.application_properties.unwrap_or_default();
    // `$cbs` writes its keys with hyphens, `$management` in camel case.
    let find = |names: [&str; 2]| names.iter().find_map(|name| properties.get(*name));
    let Some(SimpleValue::Int(status)) = find(["statusCode", "status-code"]) else {
        return Err(Failure::new(format_args!("{what}: the answer has no status")));
    };
    let description = match find(["statusDescription", "status-description"]) {
        Some(SimpleValue::String(text)) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    let body = match message.body {
        Body::Value(value) => value.0,
        _ => Value::Null,
    };
    Ok(ManagementResponse { status: *status, description, body })
}

/// One question at a time needs one answer; the rest is room for stray ones.
const CREDIT: u32 = 10;
