//! States of sessions at `max_bytes` of their namespace: they are stored, as messages are.

use amqp_codec::raw::RawMap;

use super::*;
use crate::{
    dialect::RECEIVER,
    message::{Delivery, message_of_session},
    sessions::accept_of,
};

const WITH_SESSIONS: &str = "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><QueueDescription \
     xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\">\
     <RequiresSession>true</RequiresSession></QueueDescription></content></entry>";

/// The holder of session `a` of the queue, where a message of it is.
struct Holder<'d> {
    sdk: Sdk<'d>,
    sender: u16,
    node: u16,
}

impl<'d> Holder<'d> {
    fn new(team: &Team<'_>, dialect: &'d Dialect) -> Self {
        let created = team.ask(&format!("PUT /{QUEUE}?api-version=2021-05"), WITH_SESSIONS);
        assert_eq!(created.0, 201, "{}", created.1);
        let mut sdk = team.sdk(dialect);
        let sender = sdk.sender(QUEUE);
        sdk.send(sender, 0, &message_of_session("a1"));
        accept_of(&mut sdk, QUEUE, RECEIVER, Some("a"));
        let node = sdk.management();
        Self { sdk, sender, node }
    }

    fn ask(&mut self, operation: &str, entries: &[(&str, AnnotationValue<'_>)]) -> Delivery {
        let id = ("session-id", AnnotationValue::Str("a"));
        let body = RawMap::with_string_keys(&[&[id], entries].concat());
        self.sdk.manage(self.node, operation, &body)
    }

    /// Status, condition and text of the answer.
    fn set(&mut self, state: AnnotationValue<'_>) -> (i64, Option<String>, String) {
        let answer = self.ask("com.microsoft:set-session-state", &[("session-state", state)]);
        let (status, condition) = outcome(&answer);
        (status, condition, answer.property("statusDescription").unwrap_or_default())
    }

    /// Length of the state, if the session has one.
    fn length(&mut self) -> Option<usize> {
        let answer = self.ask("com.microsoft:get-session-state", &[]);
        answer.body().get("session-state").unwrap().as_binary().map(<[u8]>::len)
    }
}

#[test]
fn a_state_of_a_session_is_refused_once_the_bytes_are_reached_until_one_is_removed() {
    let bytes = [7; 4_001];
    let [larger, large, first, small] =
        [4_001, 4_000, 2_000, 1].map(|length| AnnotationValue::Binary(&bytes[..length]));
    for (case, dialect) in SERVICE_BUS {
        let broker = broker();
        let (team, other) = (Team::create(&broker, "team-a"), Team::create(&broker, "team-b"));
        let mut holder = Holder::new(&team, dialect);
        let before = team.usage("bytes");
        assert_eq!(holder.set(first).0, 200, "{case}");
        // One byte of room is room for one state.
        let limit = team.usage("bytes") + 1;
        assert!(limit > before + 2_000, "a state counts: {case}");
        team.limit(&json!({ "max_bytes": limit }));
        assert_eq!(holder.set(large).0, 200, "the last one: {case}");
        let used = team.usage("bytes");
        assert!(used > before + 4_000, "{case}: {used} {before}");
        let (status, condition, text) = holder.set(larger);
        assert_eq!((status, condition.as_deref()), (403, Some(REFUSED)), "{case}: {text}");
        assert!(text.contains(&format!("holds {used} bytes and takes at most {limit}")), "{case}: {text}");
        assert_eq!(holder.set(large).0, 200, "one in the place of one as large: {case}");
        assert_eq!(holder.length(), Some(4_000), "the state stays: {case}");
        let sent = holder.sdk.offer(holder.sender, 0, &message_of_session("a2"));
        assert_eq!(refusal(sent).condition, REFUSED, "messages find no room either: {case}");
        assert_eq!((team.usage("bytes"), team.metric("live_bytes")), (used, Some(used)), "{case}");
        assert_eq!(team.limit_metric("max_bytes"), Some(limit), "{case}");
        assert_eq!(Holder::new(&other, dialect).set(large).0, 200, "another namespace: {case}");
        // A smaller state needs no room, and makes some; so does the removal of one.
        for (state, length) in [(small, Some(1)), (AnnotationValue::Null, None)] {
            team.limit(&json!({}));
            assert_eq!(holder.set(larger).0, 200, "{case}");
            team.limit(&json!({ "max_bytes": limit }));
            assert_eq!(holder.set(state).0, 200, "{case}");
            assert_eq!(holder.length(), length, "{case}");
            assert!(team.usage("bytes") < limit, "{case}");
            assert_eq!(holder.set(large).0, 200, "room again: {case}");
        }
        team.limit(&json!({}));
        assert_eq!(holder.set(large).0, 200, "no limit any more: {case}");
    }
}
