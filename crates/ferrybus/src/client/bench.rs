//! `ferrybus bench`: sends and receives at the same time and says how fast.
//!
//! Invariant: every message that was accepted is received before the clock stops.

use std::time::{Duration, Instant};

use fe2o3_amqp::Receiver;
use fe2o3_amqp_types::{
    messaging::{Body, Data, Message},
    primitives::{Binary, Value},
};
use serde_json::json;
use tokio::time::timeout;

use super::{
    BrokerEndpoint, address,
    connect::RESPONSE_TIMEOUT,
    fault::{fault, too_slow},
    send::{Window, filler},
};
use crate::{
    arguments::BenchArguments,
    failure::Failure,
    output::{self, Progress},
};

/// Measurement.
struct Measured {
    sending: Duration,
    receiving: Duration,
    latencies: Vec<Duration>,
}

/// Measures through one connection, with one link in each direction.
pub(crate) async fn bench(target: BrokerEndpoint, arguments: &BenchArguments) -> Result<(), Failure> {
    let queue = address(&arguments.queue, false);
    let size = usize::try_from(arguments.size.0).map_err(Failure::misuse)?;
    let mut client = target.connect(&queue).await?;
    let mut window = Window::new(client.sender(&queue, false).await?, &queue, arguments.window);
    window.latencies = Some(Vec::new());
    let receiver = client.receiver(&queue, false).await?;
    let began = Instant::now();
    let sending = async {
        send_all(&mut window, arguments.count, size).await?;
        Ok::<_, Failure>(began.elapsed())
    };
    let receiving = async {
        receive_all(receiver, &queue, arguments).await?;
        Ok::<_, Failure>(began.elapsed())
    };
    let (sending, receiving) = tokio::try_join!(sending, receiving)?;
    let latencies = window.latencies.take().unwrap_or_default();
    window.close().await;
    client.close().await;
    report(&queue, arguments, Measured { sending, receiving, latencies })
}

async fn send_all(window: &mut Window, count: u64, size: usize) -> Result<(), Failure> {
    let body = Binary::from(filler(size));
    for _ in 0..count {
        let message: Message<Data> = Message::builder().data(body.clone()).build();
        window.send(message).await?;
    }
    window.finish().await.map(drop)
}

async fn receive_all(mut receiver: Receiver, queue: &str, arguments: &BenchArguments) -> Result<(), Failure> {
    let what = format!("cannot receive from `{queue}`");
    let full = u32::try_from(arguments.window).unwrap_or(u32::MAX).max(2);
    let mut progress = Progress::new("received", Some(arguments.count));
    let mut credit = 0;
    let mut unsettled = Vec::new();
    for number in 1..=arguments.count {
        if credit <= full / 2 {
            credit = full;
            receiver.set_credit(full).await.map_err(|error| Failure::new(format_args!("{what}: {error}")))?;
        }
        let next =
            timeout(RESPONSE_TIMEOUT, receiver.recv::<Body<Value>>()).await.map_err(|_| too_slow(&what))?;
        unsettled.push(next.map_err(|error| fault(&what, &error))?);
        credit -= 1;
        if unsettled.len() >= SETTLE_TOGETHER || number == arguments.count {
            let settled = receiver.accept_all(unsettled.iter()).await;
            settled.map_err(|error| Failure::new(format_args!("{what}: {error}")))?;
            unsettled.clear();
        }
        progress.at(number);
    }
    drop(timeout(RESPONSE_TIMEOUT, receiver.close()).await);
    Ok(())
}

fn report(queue: &str, arguments: &BenchArguments, mut measured: Measured) -> Result<(), Failure> {
    measured.latencies.sort_unstable();
    let at = |percent: usize| {
        let last = measured.latencies.len().saturating_sub(1);
        measured.latencies.get(last * percent / 100).copied().unwrap_or_default()
    };
    let (p50, p99, max) = (at(50), at(99), at(100));
    let millis = |latency: Duration| latency.as_secs_f64() * 1_000.0;
    let (sent, received) =
        (rate(arguments.count, measured.sending), rate(arguments.count, measured.receiving));
    if arguments.connect.json {
        return output::line(json!({
            "queue": queue,
            "messages": arguments.count,
            "bytes": arguments.size.0,
            "window": arguments.window,
            "sent_per_second": sent,
            "received_per_second": received,
            "accepted_after_ms": { "p50": millis(p50), "p99": millis(p99), "max": millis(max) },
        }));
    }
    let (count, size, window) = (arguments.count, arguments.size.0, arguments.window);
    output::line(format_args!("{count} messages of {size} bytes through `{queue}`, window {window}"))?;
    output::line(format_args!("  sent      {sent:>10.0} messages/s"))?;
    output::line(format_args!("  received  {received:>10.0} messages/s"))?;
    output::line(format_args!(
        "  accepted  after {:.2} ms (p50), {:.2} ms (p99), {:.2} ms (max)",
        millis(p50),
        millis(p99),
        millis(max)
    ))
}

#[expect(clippy::cast_precision_loss, reason = "nobody benches with 2^53 messages")]
fn rate(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
}

const SETTLE_TOGETHER: usize = 100;
