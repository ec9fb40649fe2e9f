//! Lock tokens and sessions of one namespace, shown in another one of the same shard and in one of another shard.
//!
//! The clients of all namespaces do the same in the same order, so that their locks have the same numbers.

use amqp_codec::{
    performative::DeliveryState,
    raw::{AnnotationValue, RawMap, RawValue},
};
use serde_json::Value;

use crate::{
    broker::{Broker, QUEUE},
    dialect::{Dialect, RECEIVER, Sdk},
    http::ask,
    message::{Delivery, message_of_session, renewal, update, uuids},
    numbers::outcome,
    sdk_dotnet::DOTNET,
    sdk_go::GO,
    sdk_java::JAVA,
    sessions::accept_of,
    team::{ROOT, Team, broker_with},
};

/// The dialects of the client that has the lock and of those that show its token elsewhere.
const DIALECTS: [(&str, &Dialect, &Dialect); 3] =
    [(".NET and Go", &DOTNET, &GO), ("Go and Java", &GO, &JAVA), ("Java and .NET", &JAVA, &DOTNET)];

/// Each namespace with its shard.
const SHARDS: [(&str, u64); 3] = [("team-a", 1), ("team-b", 0), ("team-c", 1)];

const SESSION: (&str, AnnotationValue<'_>) = ("session-id", AnnotationValue::Str("a"));

/// The namespaces in a broker with two shards.
fn teams(broker: &Broker) -> [Team<'_>; 3] {
    SHARDS.map(|(name, shard)| {
        let team = Team::create(broker, name);
        let (_, text) = ask(broker.address, &format!("GET {ROOT}/{name}"), "");
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown["shard"], shard, "{text}");
        team
    })
}

fn description(requires_session: bool) -> String {
    format!(
        "<entry xmlns=\"http://www.w3.org/2005/Atom\"><content type=\"application/xml\"><QueueDescription \
         xmlns=\"http://schemas.microsoft.com/netservices/2010/10/servicebus/connect\">\
         <RequiresSession>{requires_session}</RequiresSession></QueueDescription></content></entry>"
    )
}

/// A client of a namespace and its queue, which has one message.
struct Holder<'d> {
    name: &'static str,
    sdk: Sdk<'d>,
    node: u16,
}

/// The message, locked by a receiver on this channel.
struct Locked {
    channel: u16,
    delivery: Delivery,
}

impl<'d> Holder<'d> {
    fn new(team: &Team<'_>, dialect: &'d Dialect, requires_session: bool) -> Self {
        let (status, text) =
            team.ask(&format!("PUT /{QUEUE}?api-version=2021-05"), &description(requires_session));
        assert_eq!(status, 201, "{text}");
        let mut sdk = team.sdk(dialect);
        let sender = sdk.sender(QUEUE);
        sdk.send(sender, 0, &message_of_session("a1"));
        let node = sdk.management();
        Self { name: team.name, sdk, node }
    }

    fn lock(&mut self) -> Locked {
        let channel = self.sdk.receiver(QUEUE, RECEIVER, self.sdk.dialect.locking);
        self.receive(channel)
    }

    /// Locks session `a` and the message of it.
    fn lock_session(&mut self) -> Locked {
        let (channel, _) = accept_of(&mut self.sdk, QUEUE, RECEIVER, Some("a"));
        self.receive(channel)
    }

    fn receive(&mut self, channel: u16) -> Locked {
        let delivery = self.sdk.receive(channel, RECEIVER, 1).remove(0);
        assert_eq!(delivery.text(), "a1", "{}", self.name);
        Locked { channel, delivery }
    }

    fn complete(&mut self, locked: &Locked) {
        self.sdk.settle(locked.channel, &locked.delivery, DeliveryState::Accepted);
    }

    /// Status and condition of the answer to a request.
    fn ask(&mut self, operation: &str, body: &RawMap) -> (i64, Option<String>) {
        outcome(&self.sdk.manage(self.node, &format!("com.microsoft:{operation}"), body))
    }

    /// Demands that the lock of a token is none here, whatever is asked for it.
    fn knows_no_lock(&mut self, token: [u8; 16], case: &str) {
        let mut requests = vec![("renew-lock", renewal(&[token]))];
        for status in ["completed", "abandoned", "defered", "suspended"] {
            requests.push(("update-disposition", update(token, status)));
        }
        for (operation, body) in requests {
            let lost = (410, Some("com.microsoft:message-lock-lost".to_owned()));
            assert_eq!(self.ask(operation, &body), lost, "{operation} in {}: {case}", self.name);
        }
    }

    /// Demands that the client holds no session `a` here.
    fn holds_no_session(&mut self, case: &str) {
        let state = AnnotationValue::Binary(b"foreign");
        for (operation, body) in [
            ("renew-session-lock", RawMap::with_string_keys(&[SESSION])),
            ("get-session-state", RawMap::with_string_keys(&[SESSION])),
            ("set-session-state", RawMap::with_string_keys(&[SESSION, ("session-state", state)])),
        ] {
            let lost = (410, Some("com.microsoft:session-lock-lost".to_owned()));
            assert_eq!(self.ask(operation, &body), lost, "{operation} in {}: {case}", self.name);
        }
    }

    /// Demands that a message of session `a` with this token is none here.
    fn knows_no_message_of_session(&mut self, token: [u8; 16], case: &str) {
        let tokens = uuids(&[token]);
        for status in ["completed", "abandoned", "defered", "suspended"] {
            let body = RawMap::with_string_keys(&[
                SESSION,
                ("disposition-status", AnnotationValue::Str(status)),
                ("lock-tokens", AnnotationValue::Raw(RawValue::first(&tokens).unwrap())),
            ]);
            let (told, condition) = self.ask("update-disposition", &body);
            let is_lost = condition.as_deref().is_some_and(|condition| condition.ends_with("-lock-lost"));
            assert!(told == 410 && is_lost, "{status} in {}: {told} {condition:?}: {case}", self.name);
        }
    }

    fn renews_session(&mut self, case: &str) {
        let answer = self.ask("renew-session-lock", &RawMap::with_string_keys(&[SESSION]));
        assert_eq!(answer, (200, None), "{}: {case}", self.name);
    }

    fn set_state(&mut self, state: &[u8]) {
        let state = ("session-state", AnnotationValue::Binary(state));
        let body = RawMap::with_string_keys(&[SESSION, state]);
        assert_eq!(self.ask("set-session-state", &body), (200, None), "{}", self.name);
    }

    fn state(&mut self) -> Option<Vec<u8>> {
        let body = RawMap::with_string_keys(&[SESSION]);
        let answer = self.sdk.manage(self.node, "com.microsoft:get-session-state", &body);
        assert_eq!(outcome(&answer), (200, None), "{}", self.name);
        answer.body().get("session-state").unwrap().as_binary().map(<[u8]>::to_vec)
    }
}

#[test]
fn a_lock_token_of_another_namespace_is_that_of_a_lost_lock_and_touches_no_message() {
    for (case, own, foreign) in DIALECTS {
        let broker = broker_with(|config| config.shards = 2);
        let [team, others @ ..] = teams(&broker);
        let mut holder = Holder::new(&team, own, false);
        let locked = holder.lock();
        let token = locked.delivery.lock_token();
        for other in others {
            let mut elsewhere = Holder::new(&other, foreign, false);
            elsewhere.knows_no_lock(token, case);
            let locked_elsewhere = elsewhere.lock();
            elsewhere.knows_no_lock(token, case);
            holder.knows_no_lock(locked_elsewhere.delivery.lock_token(), case);
            let own_token = locked_elsewhere.delivery.lock_token();
            assert_eq!(elsewhere.ask("renew-lock", &renewal(&[own_token])), (200, None), "{case}");
            elsewhere.complete(&locked_elsewhere);
        }
        assert_eq!(holder.ask("renew-lock", &renewal(&[token])), (200, None), "{case}");
        holder.complete(&locked);
    }
}

#[test]
fn a_session_that_is_locked_in_one_namespace_is_not_in_another() {
    for (case, own, foreign) in DIALECTS {
        let broker = broker_with(|config| config.shards = 2);
        let [team, others @ ..] = teams(&broker);
        let mut holder = Holder::new(&team, own, true);
        let locked = holder.lock_session();
        let token = locked.delivery.lock_token();
        holder.set_state(b"of the holder");
        for other in others {
            let mut elsewhere = Holder::new(&other, foreign, true);
            elsewhere.holds_no_session(case);
            elsewhere.knows_no_message_of_session(token, case);
            let locked_elsewhere = elsewhere.lock_session();
            elsewhere.knows_no_message_of_session(token, case);
            holder.knows_no_message_of_session(locked_elsewhere.delivery.lock_token(), case);
            assert_eq!(elsewhere.state(), None, "{case}");
            elsewhere.set_state(b"of another");
            elsewhere.renews_session(case);
            elsewhere.complete(&locked_elsewhere);
            // The end of a session here leaves it locked there.
            elsewhere.sdk.client.close();
        }
        holder.renews_session(case);
        assert_eq!(holder.state().as_deref(), Some(&b"of the holder"[..]), "{case}");
        holder.complete(&locked);
    }
}
