//! Submission of commands from a connection to the node.
//!
//! Invariant: waiting commands are weighed by their memory, so that a connection that has submitted too much is not
//! read.

use broker_core::{Batch, ClientId, Command, Message, Outcome};
use bytes::Bytes;

use crate::{
    effect_queue::EffectQueue,
    executor::{Executor, ExecutorItem},
};

/// Hands commands over as one batch.
pub(crate) fn submit(
    effect_queue: &EffectQueue,
    executor: &Executor,
    client: ClientId,
    commands: Vec<Command>,
) {
    if commands.is_empty() {
        return;
    }
    if effect_queue.is_abandoned() {
        return;
    }
    let weight = commands.iter().map(weight).sum();
    effect_queue.handed_over(weight);
    if !executor.push(ExecutorItem::Batch(Batch { client, commands }, weight)) {
        effect_queue.processed(weight);
    }
}

/// Whether the peer will be told an outcome of these as soon as they are durable.
pub(crate) fn bring_outcomes(commands: &[Command]) -> bool {
    commands.iter().any(|command| {
        matches!(
            command,
            Command::Publish { ticket: Some(_), .. }
                | Command::PublishBatch { ticket: Some(_), .. }
                | Command::PublishTo { ticket: Some(_), .. }
                | Command::PublishVia { ticket: Some(_), .. }
                | Command::Settle { ticket: Some(_), .. }
        )
    })
}

/// Messages that these commands send.
pub(crate) fn messages_sent(commands: &[Command]) -> u64 {
    let of = |command: &Command| -> u64 {
        match command {
            Command::Publish { .. } => 1,
            Command::PublishBatch { messages, .. }
            | Command::PublishTo { messages, .. }
            | Command::PublishVia { messages, .. }
            | Command::Schedule { messages, .. } => messages.len() as u64,
            Command::OfKind(_, command) | Command::Enlist { command, .. } => {
                messages_sent(std::slice::from_ref(command))
            }
            _ => 0,
        }
    };
    commands.iter().map(of).sum()
}

/// Memory of the properties of an outcome. Those that the deliveries of one disposition share count once.
fn of_outcome(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Complete => 0,
        Outcome::Abandon(more)
        | Outcome::Release(more)
        | Outcome::Defer(more)
        | Outcome::DeadLetter(more) => more.0.memory_bytes(),
    }
}

/// Memory of a command while it waits for the node, in bytes.
fn weight(command: &Command) -> usize {
    let of_all = |messages: &[Message]| {
        messages.iter().map(|message| message.payload.len() + size_of::<Message>()).sum()
    };
    let payload = match command {
        Command::Publish { message, .. } => message.payload.len(),
        Command::PublishBatch { messages, .. }
        | Command::PublishTo { messages, .. }
        | Command::PublishVia { messages, .. }
        | Command::Schedule { messages, .. } => of_all(messages),
        Command::Settle { outcome, .. } | Command::SettleByToken { outcome, .. } => of_outcome(outcome),
        Command::SetSessionState { state, .. } => state.as_ref().map_or(0, Bytes::len),
        Command::OfKind(_, command) | Command::Enlist { command, .. } => weight(command),
        _ => 0,
    };
    payload + size_of::<Command>()
}

#[cfg(test)]
mod tests;
