//! Numbers of a connection: the broker's channels, handles and counts in terms of the client's.
//!
//! Invariant: a frame that leaves this module names channels and handles by the client's numbers, and counts deliveries of a
//! link from 0.

use std::collections::BTreeMap;

use amqp_codec::value::{Descriptor, Value};

use super::vocabulary::composite_of;

/// Sessions and links of one connection.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// By the broker's channel: the client's.
    channels: BTreeMap<u16, u16>,
    /// By the client's channel: the transfer-id that the broker uses next.
    next_incoming: BTreeMap<u16, u32>,
    /// By the client's channel, the name and the client's role: the client's handle.
    named: BTreeMap<(u16, String, bool), u32>,
    /// By the client's channel and the broker's handle: the client's.
    handles: BTreeMap<(u16, u32), u32>,
    /// By the client's channel and handle: the broker's first delivery-count.
    initial: BTreeMap<(u16, u32), u32>,
}

impl Sessions {
    /// Notes an attach of the client.
    pub(super) fn said(&mut self, channel: u16, value: &Value) {
        if name_of(value) == Some("attach")
            && let (Some(Value::String(name)), Some(Value::Bool(role)), Some(Value::Uint(handle))) =
                (field(value, "name"), field(value, "role"), field(value, "handle"))
        {
            self.named.insert((channel, name.clone(), *role), *handle);
        }
    }

    /// The transfer-id that the client expects next on a channel.
    pub(super) fn next_incoming(&self, channel: u16) -> u32 {
        self.next_incoming.get(&channel).copied().unwrap_or(0)
    }

    /// The delivery-count at which the broker began with a link of the client's.
    pub(super) fn initial_count(&self, channel: u16, handle: u32) -> u32 {
        self.initial.get(&(channel, handle)).copied().unwrap_or(0)
    }

    /// Turns the broker's numbers into the client's, and counts.
    pub(super) fn translate(&mut self, broker_channel: u16, value: &mut Value) -> u16 {
        let name = name_of(value).unwrap_or_default();
        if name == "begin" {
            return self.begun(broker_channel, value);
        }
        let channel = self.channels.get(&broker_channel).copied().unwrap_or(broker_channel);
        if name == "attach" {
            self.attached(channel, value);
        }
        if name == "transfer" {
            let next = self.next_incoming.entry(channel).or_default();
            *next = next.wrapping_add(1);
        }
        if let Some(Value::Uint(theirs)) = field(value, "handle").cloned() {
            let ours = self.handles.get(&(channel, theirs)).copied().unwrap_or(theirs);
            set_field(value, "handle", Value::Uint(ours));
            if name == "flow"
                && let Some(Value::Uint(count)) = field(value, "delivery-count").cloned()
            {
                let count = count.wrapping_sub(self.initial_count(channel, ours));
                set_field(value, "delivery-count", Value::Uint(count));
            }
        }
        channel
    }

    fn begun(&mut self, broker_channel: u16, value: &Value) -> u16 {
        let channel = match field(value, "remote-channel") {
            Some(Value::Ushort(channel)) => *channel,
            _ => broker_channel,
        };
        self.channels.insert(broker_channel, channel);
        if let Some(Value::Uint(next)) = field(value, "next-outgoing-id") {
            self.next_incoming.insert(channel, *next);
        }
        channel
    }

    fn attached(&mut self, channel: u16, value: &Value) {
        let (Some(Value::String(name)), Some(Value::Bool(role)), Some(Value::Uint(theirs))) =
            (field(value, "name"), field(value, "role"), field(value, "handle"))
        else {
            return;
        };
        let Some(ours) = self.named.get(&(channel, name.clone(), !*role)).copied() else { return };
        self.handles.insert((channel, *theirs), ours);
        let initial = match field(value, "initial-delivery-count") {
            Some(Value::Uint(initial)) => *initial,
            _ => 0,
        };
        self.initial.insert((channel, ours), initial);
    }
}

/// The name of a composite.
pub(super) fn name_of(value: &Value) -> Option<&'static str> {
    let Value::Described(described) = value else { return None };
    let Descriptor::Code(code) = described.descriptor else { return None };
    composite_of(code).map(|composite| composite.name)
}

/// A field of a composite.
pub(super) fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let (place, described) = place_of(value, name)?;
    match described {
        Value::List(items) => items.get(place),
        _ => None,
    }
}

fn place_of<'a>(value: &'a Value, name: &str) -> Option<(usize, &'a Value)> {
    let Value::Described(described) = value else { return None };
    let Descriptor::Code(code) = described.descriptor else { return None };
    let place = composite_of(code)?.fields.iter().position(|field| *field == name)?;
    Some((place, &described.value))
}

/// Sets a field of a composite.
pub(super) fn set_field(value: &mut Value, name: &str, new: Value) {
    let Some((place, _)) = place_of(value, name) else { return };
    if let Value::Described(described) = value
        && let Value::List(items) = &mut described.value
    {
        if items.len() <= place {
            items.resize(place + 1, Value::Null);
        }
        if let Some(item) = items.get_mut(place) {
            *item = new;
        }
    }
}
