//! A client that writes as the recorded driver of `Azure.Messaging.ServiceBus` 7.20.1 does (`replayed/54b-driver-unsettled`).
//!
//! Invariant: each call waits for all answers for which that client waits.

use std::{collections::BTreeMap, net::TcpStream};

use testkit::{
    Wire,
    replay::{PlayError, Player, Recording},
};

use crate::{broker::Broker, http::connect, replayed::Scene};

/// A link: its channel, its handle, and what is counted on it.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) channel: u16,
    pub(super) handle: u32,
    /// Deliveries and drained credit so far.
    pub(super) count: u32,
}

/// A delivery, by the number of its variables.
#[derive(Clone, Debug)]
pub(super) struct Delivered {
    channel: u16,
    number: u32,
}

impl Delivered {
    /// The variable of its tag, which is its lock token.
    pub(super) fn tag(&self) -> String {
        format!("$tag{}", self.number)
    }
}

/// A connection.
pub(super) struct Driver<'b> {
    player: Player<TcpStream>,
    scene: Scene<'b>,
    /// By channel: transfers that the client has sent.
    sent: BTreeMap<u16, u32>,
    /// By channel: handles that are taken.
    handles: BTreeMap<u16, u32>,
    requests: u32,
    deliveries: u32,
    transactions: u32,
}

const CONNECTS: &str = r#"
> sasl-header
< sasl-header
< sasl sasl-mechanisms(sasl-server-mechanisms: array['MSSBCBS'])
> sasl sasl-init(mechanism: 'MSSBCBS')
< sasl sasl-outcome(code: 0u8)
> amqp-header
< amqp-header
> 0 open(container-id: "amqp://localhost/-${id1}", hostname: "localhost", max-frame-size: 65536, channel-max: 8191u16,
    idle-time-out: 30000, properties: {'product': "azsdk-net-ServiceBus", 'version': "7.20.1", 'framework': ".NET",
    'platform': "linux"})
< 0 open(container-id: ?string, idle-time-out: ?uint)
"#;

impl<'b> Driver<'b> {
    /// Connects, with identifiers of its own, and attaches to `$cbs`.
    pub(super) fn connect(broker: &'b Broker, seed: u64) -> Self {
        let mut driver = Self {
            player: Player::new(Wire::over(connect(broker.address)), "localhost", seed),
            scene: Scene::of(broker),
            sent: BTreeMap::new(),
            handles: BTreeMap::new(),
            requests: 0,
            deliveries: 0,
            transactions: 0,
        };
        driver.play(CONNECTS);
        driver.session();
        driver.node(0, "$$cbs", "'com.microsoft:timeout': 20000");
        driver
    }

    /// Plays steps, which must work.
    pub(super) fn play(&mut self, steps: &str) {
        self.tries(steps).unwrap_or_else(|error| panic!("{steps}\n{error}"));
    }

    fn tries(&mut self, steps: &str) -> Result<(), PlayError> {
        self.player.play(&Recording::read(steps).unwrap(), &mut self.scene)
    }

    /// Gives another client's variable to this one.
    pub(super) fn learn(&mut self, name: &str, from: &Self, theirs: &str) {
        self.player.set(name, from.player.get(theirs).expect("it has a value"));
    }

    /// Closes, and demands that nothing is left over.
    pub(super) fn close(mut self) {
        self.play("> 0 close()\n< 0 close(error: null)\n");
        self.player.finish().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Begins a session.
    pub(super) fn session(&mut self) -> u16 {
        let channel = u16::try_from(self.sent.len()).unwrap();
        self.sent.insert(channel, 0);
        self.play(&format!(
            "> {channel} begin(next-outgoing-id: 1, incoming-window: 4294967295, outgoing-window: 5000,
                handle-max: 262143, properties: {{}})
< {channel} begin(remote-channel: {channel}u16, incoming-window: ?positive)\n"
        ));
        channel
    }

    fn handle(&mut self, channel: u16) -> u32 {
        let next = self.handles.entry(channel).or_default();
        *next += 1;
        *next - 1
    }

    /// The next delivery-id, and a tag.
    fn next_id(&mut self, channel: u16) -> u32 {
        let sent = self.sent.get_mut(&channel).unwrap();
        *sent += 1;
        *sent - 1
    }

    /// The two links to a node that answers requests: the second one's handle is one more.
    fn node(&mut self, channel: u16, address: &str, properties: &str) -> u32 {
        let (out, back) = (self.handle(channel), self.handle(channel));
        let reply = format!("${{hex{}}}", 1000 + u32::from(channel));
        self.play(&format!(
            r#"> {channel} attach(name: "duplex{channel}:sender", handle: {out}, role: false, snd-settle-mode: 1u8,
    source: source(), target: target(address: "{address}"), initial-delivery-count: 0, properties: {{{properties}}})
< {channel} attach(name: "duplex{channel}:sender", role: true, snd-settle-mode: 1u8)
< {channel} flow(handle: {out}, link-credit: ?positive)
> {channel} attach(name: "duplex{channel}:receiver", handle: {back}, role: true, snd-settle-mode: 1u8,
    source: source(address: "{address}"), target: target(address: "{reply}"), properties: {{{properties}}})
< {channel} attach(name: "duplex{channel}:receiver", role: false, snd-settle-mode: 1u8, initial-delivery-count: ?uint)
> {channel} flow(next-incoming-id: $next, incoming-window: 5000, next-outgoing-id: 1, outgoing-window: 5000,
    handle: {back}, delivery-count: 0, link-credit: 50, available: 0, echo: false)
"#
        ));
        out
    }

    /// Puts a token for an entity.
    pub(super) fn authorize(&mut self, entity: &str) {
        self.requests += 1;
        if self.sent[&0].is_multiple_of(25) {
            let link = Link { channel: 0, handle: 1, count: self.sent[&0] };
            self.flow(&link, 50, false);
        }
        let (id, number) = (self.next_id(0), self.requests);
        self.play(&format!(
            r#"! token token RootManageSharedAccessKey amqp://localhost/{entity}
> 0 transfer(handle: 0, delivery-id: {id}, delivery-tag: b"", message-format: 0, settled: true, more: false, batchable: false)
    properties(message-id: "request{number}", reply-to: "${{hex1000}}")
    application-properties {{"operation": "put-token", "type": "servicebus.windows.net:sastoken",
    "name": "amqp://localhost/{entity}", "expiration": 2426185662464ms}}
    value $token
< 0 transfer(handle: 1, settled: true)
    properties(correlation-id: "request{number}")
    application-properties {{"status-code": 202i32}}
"#
        ));
    }

    /// The controller of transactions, on handle 0 of a session.
    pub(super) fn controller(&mut self, channel: u16) -> Link {
        let handle = self.handle(channel);
        let name = format!("${{hex{}}}", 2000 + u32::from(channel));
        self.play(&format!(
            r#"> {channel} attach(name: "{name}", handle: {handle}, role: false,
    source: source(address: "{name}", distribution-mode: 'move'), target: coordinator(), initial-delivery-count: 0)
< {channel} attach(name: "{name}", role: true, target: coordinator())
< {channel} flow(handle: {handle}, link-credit: ?positive)
"#
        ));
        Link { channel, handle, count: 0 }
    }

    pub(super) fn sender(&mut self, channel: u16, entity: &str) -> Link {
        self.authorize(entity);
        let handle = self.handle(channel);
        let name = format!("amqp://localhost/-${{id1}};0:{channel}:{handle}");
        self.play(&format!(
            r#"> {channel} attach(name: "{name}", handle: {handle}, role: false, source: source(address: "sender-${{id2}}"),
    target: target(address: "/{entity}"), initial-delivery-count: 0, properties: {{'com.microsoft:timeout': 20000}})
< {channel} attach(name: "{name}", role: true, target: target(address: "/{entity}"), max-message-size: ?positive)
< {channel} flow(handle: {handle}, link-credit: ?positive)
"#
        ));
        Link { channel, handle, count: 0 }
    }

    /// The attach of a receiver, up to its answer. A filter is what a receiver of sessions asks for.
    pub(super) fn attach(
        &mut self,
        channel: u16,
        entity: &str,
        filter: &str,
        properties: &str,
    ) -> (u32, String) {
        let handle = self.handle(channel);
        let name =
            format!("amqp://localhost/-${{id1}};0:{channel}:{handle}:source(address:/{entity},filter:[])");
        let properties =
            if properties.is_empty() { String::new() } else { format!(", properties: {{{properties}}}") };
        self.play(&format!(
            r#"> {channel} attach(name: "{name}", handle: {handle}, role: true, rcv-settle-mode: 1u8,
    source: source(address: "/{entity}", filter: {{{filter}}}), target: target(address: "receiver-${{id3}}"){properties})
"#
        ));
        (handle, name)
    }

    /// A receiver, which says no properties.
    pub(super) fn receiver(&mut self, channel: u16, entity: &str) -> Link {
        self.authorize(entity);
        let (handle, name) = self.attach(channel, entity, "", "");
        self.play(&format!(
            r#"< {channel} attach(name: "{name}", role: false, rcv-settle-mode: 1u8, source: source(address: "/{entity}"),
    target: target(address: "receiver-${{id3}}"), initial-delivery-count: ?uint)
"#
        ));
        Link { channel, handle, count: 0 }
    }

    /// The management links of an entity, on a session of their own.
    pub(super) fn management(&mut self, entity: &str) -> Link {
        let node = format!("{entity}/$$management");
        self.authorize(&node);
        let channel = self.session();
        let handle = self.node(channel, &node, "'com.microsoft:entity-type': \"entity-mgmt\"");
        Link { channel, handle, count: 0 }
    }

    /// A request; `answer` is what the reply holds behind its correlation-id.
    pub(super) fn request(
        &mut self,
        node: &Link,
        operation: &str,
        txn: Option<u32>,
        body: &str,
        answer: &str,
    ) {
        self.requests += 1;
        let Link { channel, handle, .. } = *node;
        // Its session carries nothing else: there are as many answers as requests.
        let answers = self.sent[&channel];
        if answers > 0 && answers.is_multiple_of(25) {
            self.flow(&Link { channel, handle: handle + 1, count: answers }, 50, false);
        }
        let (id, number, back) = (self.next_id(channel), self.requests, handle + 1);
        let state =
            txn.map(|txn| format!(", state: transactional-state(txn-id: $txn{txn})")).unwrap_or_default();
        self.play(&format!(
            r#"> {channel} transfer(handle: {handle}, delivery-id: {id}, delivery-tag: b"", message-format: 0, settled: true,
    more: false{state}, batchable: false)
    properties(message-id: "request{number}", reply-to: "${{hex{reply}}}")
    application-properties {{"operation": "com.microsoft:{operation}", "com.microsoft:server-timeout": 20000}}
    value {body}
< {channel} transfer(handle: {back}, settled: true)
    properties(correlation-id: "request{number}")
    application-properties {answer}
"#,
            reply = 1000 + u32::from(channel)
        ));
    }

    /// Sends a message of this text, in a transaction or in none, and waits for this outcome.
    pub(super) fn send(&mut self, link: &Link, txn: Option<u32>, message: &str, outcome: &str) {
        let Link { channel, handle, .. } = *link;
        let id = self.next_id(channel);
        let within = |outcome: &str| match txn {
            None => outcome.to_owned(),
            Some(txn) => format!("transactional-state(txn-id: $txn{txn}, outcome: {outcome})"),
        };
        let state =
            txn.map(|txn| format!("state: transactional-state(txn-id: $txn{txn}), ")).unwrap_or_default();
        self.play(&format!(
            r#"> {channel} transfer(handle: {handle}, delivery-id: {id}, delivery-tag: b"\x{tag:02x}\x00\x00\x00",
    message-format: 0, more: false, {state}batchable: false)
    {message}
< {channel} disposition(role: true, first: {id}, last: {id}, settled: true, state: {outcome})
"#,
            tag = id % 250 + 1,
            outcome = within(outcome)
        ));
    }

    /// Sends a batch of these messages.
    pub(super) fn send_batch(&mut self, link: &Link, messages: &str) {
        let Link { channel, handle, .. } = *link;
        let id = self.next_id(channel);
        self.play(&format!(
            r#"> {channel} transfer(handle: {handle}, delivery-id: {id}, delivery-tag: b"\x{tag:02x}\x00\x00\x00",
    message-format: 2147563264, more: false, batchable: true)
    {messages}
< {channel} disposition(role: true, first: {id}, last: {id}, settled: true, state: accepted())
"#,
            tag = id % 250 + 1
        ));
    }

    /// Grants credit.
    pub(super) fn flow(&mut self, link: &Link, credit: u32, drain: bool) {
        let Link { channel, handle, count } = *link;
        let (next, drain) = (1 + self.sent[&channel], if drain { "drain: true, " } else { "" });
        self.play(&format!(
            "> {channel} flow(next-incoming-id: $next, incoming-window: 4294967295, next-outgoing-id: {next},
    outgoing-window: 5000, handle: {handle}, delivery-count: {count}, link-credit: {credit}, available: 0, {drain}echo: false)\n"
        ));
    }

    /// Waits for a delivery with this body, delivered so often before.
    pub(super) fn delivery(&mut self, link: &mut Link, count: u32, text: &str) -> Delivered {
        self.delivery_of(link, count, &format!("exactly data b\"{text}\""))
    }

    /// Waits for a delivery, delivered so often before.
    pub(super) fn delivery_of_anything(&mut self, link: &mut Link, count: u32) -> Delivered {
        self.delivery_of(link, count, "data ?binary")
    }

    fn delivery_of(&mut self, link: &mut Link, count: u32, body: &str) -> Delivered {
        self.deliveries += 1;
        let number = self.deliveries;
        let Link { channel, handle, .. } = *link;
        link.count += 1;
        self.play(&format!(
            r"< {channel} transfer(handle: {handle}, delivery-id: $delivery{number}, delivery-tag: $tag{number},
    message-format: 0, settled: false)
    header(delivery-count: {count})
    message-annotations {{'x-opt-sequence-number': ?long, 'x-opt-enqueued-time': ?timestamp}}
    {body}
"
        ));
        Delivered { channel, number }
    }

    /// One credit, and the delivery for it.
    pub(super) fn receive(&mut self, link: &mut Link, count: u32, text: &str) -> Delivered {
        self.flow(link, 1, false);
        self.delivery(link, count, text)
    }

    /// Drains: nothing comes.
    pub(super) fn drain(&mut self, link: &mut Link, credit: u32) {
        self.flow(link, credit, true);
        link.count += credit;
        let Link { channel, handle, count } = *link;
        self.play(&format!(
            "< {channel} flow(handle: {handle}, delivery-count: {count}, link-credit: 0, drain: true)\n"
        ));
    }

    /// Settles, and waits for the same kind of outcome.
    pub(super) fn settle(&mut self, delivery: &Delivered, state: &str) {
        let Delivered { channel, number } = *delivery;
        self.play(&format!(
            "> {channel} disposition(role: true, first: $delivery{number}, settled: false, state: {state})
< {channel} disposition(role: false, first: $delivery{number}, last: $delivery{number}, settled: true, state: {state})\n"
        ));
    }

    /// Gives back what was not looked at, settled, which is not answered.
    pub(super) fn release(&mut self, delivery: &Delivered) {
        let Delivered { channel, number } = *delivery;
        self.play(&format!(
            "> {channel} disposition(role: true, first: $delivery{number}, settled: true, state: released())\n"
        ));
    }

    /// The step that completes a range, without the wait for its answer.
    pub(super) fn completion(first: &Delivered, last: &Delivered) -> String {
        let Delivered { channel, number } = *first;
        let last = last.number;
        format!(
            "> {channel} disposition(role: true, first: $delivery{number}, last: $delivery{last}, settled: false, state: accepted())\n"
        )
    }

    /// The wait for the answers to the completion of a range.
    pub(super) fn completed(first: &Delivered, last: &Delivered) -> String {
        let Delivered { channel, number } = *first;
        let last = last.number;
        format!(
            "< {channel} disposition(role: false, first: $delivery{number}, last: $delivery{last}, settled: true, state: accepted())\n"
        )
    }

    /// Completes in a transaction: the delivery stays open until its end.
    pub(super) fn complete_in(&mut self, delivery: &Delivered, txn: u32) {
        let Delivered { channel, number } = *delivery;
        let state = format!("transactional-state(txn-id: $txn{txn}, outcome: accepted())");
        self.play(&format!(
            "> {channel} disposition(role: true, first: $delivery{number}, settled: false, state: {state})
< {channel} disposition(role: false, first: $delivery{number}, last: $delivery{number}, settled: false, state: {state})\n"
        ));
    }

    /// Waits until a commit settles a delivery.
    pub(super) fn is_settled(&mut self, delivery: &Delivered) {
        let Delivered { channel, number } = *delivery;
        self.play(&format!(
            "< {channel} disposition(role: false, first: $delivery{number}, last: $delivery{number}, settled: true)\n"
        ));
    }

    /// Begins a transaction, whose id is `$txn` and this number.
    pub(super) fn declare(&mut self, control: &Link) -> u32 {
        self.transactions += 1;
        let number = self.transactions;
        self.control(control, "declare()", &format!("declared(txn-id: $txn{number})"));
        number
    }

    /// Ends a transaction.
    pub(super) fn discharge(&mut self, control: &Link, txn: u32, fail: bool) {
        self.control(control, &format!("discharge(txn-id: $txn{txn}, fail: {fail})"), "accepted()");
    }

    fn control(&mut self, control: &Link, body: &str, state: &str) {
        let Link { channel, handle, .. } = *control;
        let id = self.next_id(channel);
        self.play(&format!(
            r#"> {channel} transfer(handle: {handle}, delivery-id: {id}, delivery-tag: b"\x{tag:02x}\x00\x00\x00\x00\x00\x00\x00",
    message-format: 0, more: false, batchable: false)
    value {body}
< {channel} disposition(role: true, first: {id}, last: {id}, settled: true, state: {state})
"#,
            tag = id % 250 + 1
        ));
    }

    /// Detaches a link.
    pub(super) fn detach(&mut self, link: &Link) {
        let Link { channel, handle, .. } = *link;
        self.play(&format!(
            "> {channel} detach(handle: {handle}, closed: true)
< {channel} detach(handle: {handle}, closed: true, error: null)\n"
        ));
    }
}

/// A message of this text, which is its id too.
pub(super) fn message(text: &str) -> String {
    format!("properties(message-id: \"{text}\") data b\"{text}\"")
}

/// The same, of a session.
pub(super) fn message_of(session: &str, text: &str) -> String {
    format!("properties(message-id: \"{text}\", group-id: \"{session}\") data b\"{text}\"")
}
