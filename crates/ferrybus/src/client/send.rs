//! `ferrybus send`.
//!
//! Invariant: a message counts as sent when the broker has accepted it (or, pre-settled, when it is on its way); the
//! first refusal ends the command with exit code 1.

use std::{
    collections::VecDeque,
    fs,
    io::{self, IsTerminal as _, Read as _},
    time::{Duration, Instant},
};

use fe2o3_amqp::{
    Sendable, Sender,
    link::{SendError, delivery::DeliveryFut},
};
use fe2o3_amqp_types::{
    messaging::{ApplicationProperties, Data, Header, Message, Outcome, Properties},
    primitives::{Binary, SimpleValue},
};
use serde_json::json;
use tokio::time::timeout;

use super::{
    BrokerEndpoint, address,
    connect::RESPONSE_TIMEOUT,
    fault::{fault, refusal, too_slow},
};
use crate::{
    arguments::SendArguments,
    failure::Failure,
    output::{self, Progress},
};

/// Sends what the arguments say.
pub(crate) async fn send(target: BrokerEndpoint, arguments: &SendArguments) -> Result<(), Failure> {
    let queue = address(&arguments.queue, false);
    let body = body(arguments)?;
    let header = header(arguments)?;
    let mut client = target.connect(&queue).await?;
    let sender = client.sender(&queue, arguments.pre_settled).await?;
    let began = Instant::now();
    let mut window = Window::new(sender, &queue, arguments.window);
    let mut progress = Progress::new("sent", Some(arguments.count));
    for number in 1..=arguments.count {
        window.send(message(arguments, &body, header.as_ref(), number)).await?;
        progress.at(window.accepted);
    }
    let sent = window.finish().await?;
    drop(progress);
    client.close().await;
    report(&queue, sent, arguments, began.elapsed())
}

fn report(queue: &str, sent: u64, arguments: &SendArguments, elapsed: Duration) -> Result<(), Failure> {
    if arguments.connect.json {
        return output::line(json!({ "queue": queue, "sent": sent, "seconds": elapsed.as_secs_f64() }));
    }
    let messages = if sent == 1 { "message" } else { "messages" };
    output::line(format_args!("sent {sent} {messages} to `{queue}`"))
}

fn body(arguments: &SendArguments) -> Result<Vec<u8>, Failure> {
    if let Some(text) = &arguments.body {
        return Ok(text.clone().into_bytes());
    }
    if let Some(size) = arguments.size {
        let size = usize::try_from(size.0).map_err(Failure::misuse)?;
        return Ok(filler(size));
    }
    let stdin = arguments.file.as_ref().is_none_or(|file| file.as_os_str() == "-");
    if let Some(file) = arguments.file.as_ref().filter(|_| !stdin) {
        return fs::read(file)
            .map_err(|error| Failure::misuse(format_args!("cannot read `{}`: {error}", file.display())));
    }
    if arguments.file.is_none() && io::stdin().is_terminal() {
        return Err(Failure::misuse("there is nothing to send")
            .hint("give `--body TEXT`, `--file FILE` or `--size BYTES`, or pipe the body in"));
    }
    let mut bytes = Vec::new();
    io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(format_args!("cannot read standard input: {error}")))?;
    Ok(bytes)
}

/// A body of this many bytes that nobody mistakes for data.
pub(super) fn filler(size: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(size).collect()
}

fn header(arguments: &SendArguments) -> Result<Option<Header>, Failure> {
    let Some(ttl) = arguments.ttl.and_then(crate::size_and_duration::Span::finite) else { return Ok(None) };
    let millis = u32::try_from(ttl.as_millis()).map_err(|_| {
        Failure::misuse(format_args!("`--ttl` is {ttl:?}, the protocol's header carries at most 49 days"))
    })?;
    Ok(Some(Header::builder().ttl(millis).build()))
}

fn message(arguments: &SendArguments, body: &[u8], header: Option<&Header>, number: u64) -> Message<Data> {
    let properties = Properties {
        message_id: arguments
            .message_id
            .as_ref()
            .map(|id| if arguments.count == 1 { id.clone().into() } else { format!("{id}-{number}").into() }),
        correlation_id: arguments.correlation_id.clone().map(Into::into),
        subject: arguments.subject.clone(),
        content_type: arguments.content_type.clone().map(Into::into),
        ..Properties::default()
    };
    let mut application_properties = ApplicationProperties::builder();
    for (key, value) in &arguments.property {
        application_properties =
            application_properties.insert(key.as_str(), SimpleValue::String(value.clone()));
    }
    let builder = Message::builder().header(header.cloned());
    let builder = if properties == Properties::default() { builder } else { builder.properties(properties) };
    let builder = if arguments.property.is_empty() {
        builder
    } else {
        builder.application_properties(application_properties.build())
    };
    builder.data(Binary::from(body.to_vec())).build()
}

/// Sends with at most so many messages waiting for their answer.
pub(super) struct Window {
    sender: Sender,
    what: String,
    size: usize,
    waiting: VecDeque<(Instant, DeliveryFut<Result<Outcome, SendError>>)>,
    /// Messages that were accepted.
    pub(super) accepted: u64,
    /// Latency of each answer, if requested.
    pub(super) latencies: Option<Vec<Duration>>,
}

impl Window {
    pub(super) fn new(sender: Sender, queue: &str, size: usize) -> Self {
        let what = format!("cannot send to `{queue}`");
        Self { sender, what, size: size.max(1), waiting: VecDeque::new(), accepted: 0, latencies: None }
    }

    pub(super) async fn send(&mut self, message: impl Into<Sendable<Data>>) -> Result<(), Failure> {
        while self.waiting.len() >= self.size {
            self.settle_one().await?;
        }
        let sending = self.sender.send_batchable(message.into());
        let sent = timeout(RESPONSE_TIMEOUT, sending).await.map_err(|_| too_slow(&self.what))?;
        let answer = sent.map_err(|error| fault(&self.what, &error))?;
        self.waiting.push_back((Instant::now(), answer));
        Ok(())
    }

    async fn settle_one(&mut self) -> Result<(), Failure> {
        let Some((began, answer)) = self.waiting.pop_front() else { return Ok(()) };
        let outcome = timeout(RESPONSE_TIMEOUT, answer).await.map_err(|_| too_slow(&self.what))?;
        let outcome = outcome.map_err(|error| fault(&self.what, &error))?;
        if let Some(reason) = refusal(&outcome) {
            return Err(Failure::new(format_args!(
                "{} (after {} messages): {reason}",
                self.what, self.accepted
            )));
        }
        self.accepted += 1;
        if let Some(latencies) = &mut self.latencies {
            latencies.push(began.elapsed());
        }
        Ok(())
    }

    /// Waits for all answers; how many messages were accepted.
    pub(super) async fn finish(&mut self) -> Result<u64, Failure> {
        while !self.waiting.is_empty() {
            self.settle_one().await?;
        }
        Ok(self.accepted)
    }

    /// Gives the link back.
    pub(super) async fn close(self) {
        drop(timeout(RESPONSE_TIMEOUT, self.sender.close()).await);
    }
}
