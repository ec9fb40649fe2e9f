//! The tail of every error text: what a user quotes to the operator, and the operator finds in the log.
//!
//! Invariant: no two texts of one connection carry the same tracking id, but for those of the engine, which share one.

use std::fmt::Write as _;

use amqp_codec::text::cut;
use broker_core::{ClientId, Timestamp};
use time::UtcDateTime;
use uuid::Uuid;

/// Makes tracking ids and message-ids. Not secret, only distinct: a splitmix64 sequence over the
/// connection's seed.
#[derive(Clone, Debug)]
pub(crate) struct Tracking {
    state: u64,
    client: ClientId,
}

impl Tracking {
    /// The sequence of one connection.
    pub(crate) const fn new(seed: u64, client: ClientId) -> Self {
        Self { state: mix(seed ^ mix(client.0)), client }
    }

    /// The client of the connection.
    pub(crate) const fn client(&self) -> ClientId {
        self.client
    }

    /// The next 128 bits.
    pub(crate) const fn next_id(&mut self) -> u128 {
        let high = self.next_u64();
        (high as u128) << 64 | self.next_u64() as u128
    }

    const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A text followed by reference, tracking id, place and time, like the service's. Of more than `room` bytes it is the
    /// place that gives way, and then the text.
    pub(crate) fn tracked(&mut self, text: &str, place: &str, utc: Timestamp, room: usize) -> String {
        let mut tail = self.reference(cut(place, room / 5));
        tail.push_str(", Timestamp:");
        push_time(&mut tail, utc);
        let mut tracked = cut(text, room.saturating_sub(tail.len())).to_owned();
        tracked.push_str(&tail);
        tracked
    }

    /// The same tail for texts whose time is not known yet.
    pub(crate) fn reference(&mut self, place: &str) -> String {
        let mut reference = String::new();
        self.push_reference(&mut reference, place);
        reference
    }

    fn push_reference(&mut self, tracked: &mut String, place: &str) {
        tracked.push_str(" Reference:");
        push_uuid(tracked, self.next_id());
        tracked.push_str(", TrackingId:");
        push_uuid(tracked, self.next_id());
        // A `String` takes whatever is written to it.
        let _infallible = write!(tracked, "_G{}, SystemTracker:{place}", self.client.0);
    }
}

/// Suffix of an error over HTTP, as the service writes it: tracking id, entity and time. `number` distinguishes errors of
/// one seed.
pub fn http_trail(seed: u64, number: u64, place: &str, utc: Timestamp) -> String {
    let mut trail = String::from(" TrackingId:");
    push_uuid(&mut trail, Tracking::new(seed, ClientId(number)).next_id());
    // A `String` takes whatever is written to it.
    let _infallible = write!(trail, "_G{number}, SystemTracker:{place}, Timestamp:");
    push_time(&mut trail, utc);
    // To the second, and without a zone.
    trail.truncate(trail.len() - ".000Z".len());
    trail
}

/// The finishing function of splitmix64.
pub(crate) const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// First half of the message-ids that the broker makes: the same for an entity and its sub-queues, however its name is written: FNV-1a, then mixed.
pub(crate) fn message_id_base(entity: &str) -> u64 {
    let hash = entity.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
    });
    mix(hash)
}

fn push_uuid(text: &mut String, id: u128) {
    let _infallible = write!(text, "{}", Uuid::from_u128(id));
}

/// Writes `2026-11-21T13:09:00.123Z`; later than any date, the last one of which the year has four digits.
fn push_time(text: &mut String, utc: Timestamp) {
    const LAST: u64 = 253_402_300_799_999;
    let nanos = i128::from(utc.as_millis().min(LAST)) * 1_000_000;
    let at = UtcDateTime::from_unix_timestamp_nanos(nanos).expect("years of four digits are dates");
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second, millis) = at.as_hms_milli();
    let _infallible =
        write!(text, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z");
}

#[cfg(test)]
mod tests;
