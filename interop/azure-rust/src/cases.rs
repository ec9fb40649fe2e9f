//! The cases, one function each, by subject.

mod deferring;
mod entities;
mod faults;
mod largest;
mod links;
mod login;
mod places;
mod receiving;
mod sending;
mod sessions;
mod times;
mod topics;

use crate::Outcome;
use crate::setting::Setting;

pub async fn play(name: &str, setting: &Setting) -> Outcome {
    match name {
        "send-one" => sending::send_one(setting).await,
        "send-batch" => sending::send_batch(setting).await,
        "peek-lock-complete" => receiving::peek_lock_complete(setting).await,
        "peek-lock-abandon" => receiving::peek_lock_abandon(setting).await,
        "peek-lock-dead-letter" => receiving::peek_lock_dead_letter(setting).await,
        "peek-lock-defer" => deferring::peek_lock_defer(setting).await,
        "deferred-by-number" => deferring::deferred_by_number(setting).await,
        "deferred-receive-and-delete" => deferring::deferred_receive_and_delete(setting).await,
        "receive-and-delete" => receiving::receive_and_delete(setting).await,
        "lock-renewal" => receiving::lock_renewal(setting).await,
        "lock-loss" => receiving::lock_loss(setting).await,
        "delivery-count-to-dead-letter" => receiving::delivery_count_to_dead_letter(setting).await,
        "peek" => receiving::peek(setting).await,
        "two-competing-receivers" => receiving::two_competing_receivers(setting).await,
        "wrong-key" => links::wrong_key(setting).await,
        "missing-queue" => links::missing_queue(setting).await,
        "oversized-message" => sending::oversized_message(setting).await,
        "large-message" => sending::large_message(setting).await,
        "largest-message" => largest::largest_message(setting).await,
        "receive-time-out-on-empty-queue" => links::time_out_on_empty_queue(setting).await,
        "annotations-and-header" => sending::annotations_and_header(setting).await,
        "round-trip" => sending::round_trip(setting).await,
        "link-close-and-reopen" => links::link_close_and_reopen(setting).await,
        "restart-before" => links::restart_before(setting).await,
        "restart-between" => links::restart_between(setting).await,
        "restart-after" => links::restart_after(setting).await,
        other => play_more(other, setting).await,
    }
}

/// Those that not every client has.
async fn play_more(name: &str, setting: &Setting) -> Outcome {
    match name {
        "namespaces" => login::namespaces(setting).await,
        "schedule-and-cancel" => times::schedule_and_cancel(setting).await,
        "schedule-by-property" => times::schedule_by_property(setting).await,
        "expiry" => times::expiry(setting).await,
        "clock-advance" => times::clock_advance(setting).await,
        "session-accept" => sessions::accept(setting).await,
        "session-order" => sessions::order(setting).await,
        "session-state" => sessions::state(setting).await,
        "session-deferred" => sessions::deferred(setting).await,
        "session-lost" => sessions::lost(setting).await,
        "fault-server-busy" => faults::server_busy(setting).await,
        "fault-lose-lock" => faults::lose_lock(setting).await,
        "fault-lose-session" => faults::lose_session(setting).await,
        "web-socket" => login::web_socket(setting).await,
        "token-credential" => login::token_credential(setting).await,
        "duplicate-detection" => places::duplicate_detection(setting).await,
        "forwarding" => places::forwarding(setting).await,
        "forwarding-of-dead-letters" => places::forwarding_of_dead_letters(setting).await,
        "transfer-dead-letters" => places::transfer_dead_letters(setting).await,
        "partitions" => places::partitions(setting).await,
        "partitions-by-number" => places::partitions_by_number(setting).await,
        "partition-keys-refused" => places::partition_keys_refused(setting).await,
        "entity-status" => entities::status(setting).await,
        "entity-full" => entities::full(setting).await,
        "topics/duplicate-detection" => entities::duplicates(setting).await,
        "topics/shorter-lifetime" => entities::shorter_lifetime(setting).await,
        "topics/forwarding" => entities::forwarding(setting).await,
        other => match other.strip_prefix("topics/") {
            Some(case) => topics::play(case, setting).await,
            None => Err(format!("no case named `{other}`").into()),
        },
    }
}
