//! `ferrybus receive`.
//!
//! Invariant: a message is printed before it is settled, so what the broker forgets has been seen.

use std::time::Duration;

use fe2o3_amqp::{Delivery, Receiver};
use fe2o3_amqp_types::{
    definitions::{self, ErrorCondition, Fields},
    messaging::{Body, Modified},
    primitives::{Symbol, Value},
};
use tokio::time::timeout;

use super::{BrokerEndpoint, address, fault::fault, message};
use crate::{
    arguments::{Mode, ReceiveArguments, Settle},
    failure::Failure,
    output,
};

/// Receives until the count is reached or nothing more comes in time.
pub(crate) async fn receive(target: BrokerEndpoint, arguments: &ReceiveArguments) -> Result<(), Failure> {
    let queue = address(&arguments.queue, arguments.dead_letter);
    let mut client = target.connect(&queue).await?;
    let delete = arguments.mode == Mode::ReceiveAndDelete;
    let mut link = client.receiver(&queue, delete).await?;
    let received = receive_all(&mut link, &queue, arguments).await;
    // Before the link goes, its settlements have been sent: they are ahead of it on the same connection.
    drop(timeout(GOODBYE, link.close()).await);
    client.close().await;
    if received? == 0 {
        output::note(format_args!("no message in `{queue}`"));
    }
    Ok(())
}

async fn receive_all(link: &mut Receiver, queue: &str, arguments: &ReceiveArguments) -> Result<u64, Failure> {
    let what = format!("cannot receive from `{queue}`");
    let gives_back = matches!(arguments.settle, Settle::Abandon | Settle::Release);
    let hold = arguments.mode == Mode::PeekLock && gives_back;
    let limit = arguments.count.unwrap_or(if hold { HELD } else { u64::MAX });
    // Never more credit than will be used: what arrives after the end would stay locked, or be lost.
    let at_once = if arguments.mode == Mode::PeekLock { CREDIT } else { 1 };
    let mut credit = 0_u32;
    let mut count = 0;
    let mut kept = Vec::new();
    let mut patience = arguments.timeout.finite();
    let mut draining = false;
    while count < limit {
        if credit == 0 {
            if draining {
                break;
            }
            credit = u32::try_from(limit - count).unwrap_or(u32::MAX).min(at_once);
            let granted = link.set_credit(credit).await;
            granted.map_err(|error| Failure::new(format_args!("{what}: {error}")))?;
        }
        let Some(delivery) = next(link, patience).await else {
            if draining {
                break;
            }
            // Take back the credit: what is given back, or comes now, must not be locked for a link that closes.
            link.drain().await.map_err(|error| Failure::new(format_args!("{what}: {error}")))?;
            draining = true;
            patience = Some(DRAIN);
            continue;
        };
        let delivery = delivery.map_err(|error| fault(&what, &error))?;
        credit -= 1;
        count += 1;
        print(&delivery, arguments.connect.json)?;
        if hold {
            kept.push(delivery);
        } else if arguments.mode == Mode::PeekLock {
            settle(link, &delivery, queue, arguments).await?;
        }
    }
    // A released message would come again at once, so all are released at the end.
    for delivery in &kept {
        settle(link, delivery, queue, arguments).await?;
    }
    Ok(count)
}

/// The next message; `None` when none came in time.
async fn next(
    link: &mut Receiver,
    patience: Option<Duration>,
) -> Option<Result<Delivery<Body<Value>>, fe2o3_amqp::link::RecvError>> {
    let next = link.recv::<Body<Value>>();
    match patience {
        Some(patience) => timeout(patience, next).await.ok(),
        None => Some(next.await),
    }
}

fn print(delivery: &Delivery<Body<Value>>, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return output::line(message::json(delivery.message()));
    }
    output::line(message::text(delivery.message()))
}

async fn settle(
    link: &Receiver,
    delivery: &Delivery<Body<Value>>,
    queue: &str,
    arguments: &ReceiveArguments,
) -> Result<(), Failure> {
    let settled = match arguments.settle {
        Settle::Complete => link.accept(delivery).await,
        Settle::Release => link.release(delivery).await,
        Settle::Abandon => {
            let modified = Modified {
                delivery_failed: Some(true),
                undeliverable_here: Some(false),
                message_annotations: None,
            };
            link.modify(delivery, modified).await
        }
        Settle::DeadLetter => link.reject(delivery, dead_letter(arguments.reason.as_deref())).await,
    };
    settled.map_err(|error| Failure::new(format_args!("cannot settle a message of `{queue}`: {error}")))
}

/// As the SDKs ask for it.
fn dead_letter(reason: Option<&str>) -> definitions::Error {
    let mut info = Fields::new();
    if let Some(reason) = reason {
        info.insert(Symbol::from("DeadLetterReason"), Value::String(reason.into()));
    }
    definitions::Error::new(
        ErrorCondition::Custom(Symbol::from("com.microsoft:dead-letter")),
        None,
        Some(info),
    )
}

/// Messages locked at the same time to be given back together.
const HELD: u64 = 1_000;
const CREDIT: u32 = 100;
/// Time for what was on its way when the credit was taken back.
const DRAIN: Duration = Duration::from_millis(200);
const GOODBYE: Duration = Duration::from_secs(2);
