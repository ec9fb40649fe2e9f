"""Qpid Proton for Python against the broker."""

from __future__ import annotations

import pathlib
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))

from proton import UNDESCRIBED, Array, ConnectionException, Data, Delivery, Described, Message
from proton import byte, char, decimal32, decimal64, decimal128, float32, int32, short, symbol
from proton import timestamp, ubyte, uint, ulong, ushort
from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, AtMostOnce
from proton.utils import LinkDetached, SendException

import subscribers
from broker import KEY, KEY_NAME, Broker
from cases import RENEWED_LOCK, SHORT_LOCK, Context, Suite
from documented import played, program
from client import WAIT, Management, ServiceBusLink, Work, annotation, assert_empty, connect
from client import dead_letter, flush, idle, lock_token, received, settle


suite = Suite("proton-python", anonymous=True)
subscribers.declare(suite)


def send(connection, queue, *bodies):
    sender = connection.create_sender(queue)
    for body in bodies:
        sender.send(Message(body=body))
    sender.close()


@suite.case("send-one")
def send_one(context: Context):
    connection = connect(context)
    # Both links get the name that Proton makes of container and address: the same one.
    sender = connection.create_sender(context.queue)
    receiver = connection.create_receiver(context.queue)
    assert sender.link.name == receiver.link.name
    sender.send(Message(body="hello"))
    assert [message.body for message in received(receiver, 1)] == ["hello"]
    assert_empty(receiver)
    connection.close()


@suite.case("documented-program")
def documented_program(context: Context):
    text = program("README.md", "proton")
    assert played(text, orders=context.queue, **{"localhost:5672": f"localhost:{context.broker.port}"}) == "an order\n"


@suite.case("queues-prefix")
def queues_prefix(context: Context):
    connection = connect(context)
    send(connection, f"/queues/{context.queue}", "prefixed")
    receiver = connection.create_receiver(context.queue)
    assert received(receiver, 1)[0].body == "prefixed"
    connection.close()


class Pipeline(MessagingHandler):
    """Sends as fast as credit allows and counts what the broker says of it."""

    def __init__(self, connection, queue, count, option):
        super().__init__(auto_settle=True)
        self.accepted = self.sent = 0
        self.count = count
        self.link = connection.container.create_sender(
            connection.conn, queue, handler=self, options=option
        )

    def on_sendable(self, event):
        while event.sender.credit and self.sent < self.count:
            event.sender.send(Message(body=self.sent))
            self.sent += 1

    def on_accepted(self, event):
        self.accepted += 1


@suite.case("send-1000-pipelined")
def send_1000_pipelined(context: Context):
    connection = connect(context)
    pipeline = Pipeline(connection, context.queue, 1000, AtLeastOnce())
    connection.wait(lambda: pipeline.accepted == 1000, timeout=30, msg="1,000 answers")
    receiver = connection.create_receiver(context.queue, credit=100)
    assert [message.body for message in received(receiver, 1000)] == list(range(1000))
    assert_empty(receiver)
    connection.close()


@suite.case("send-pre-settled")
def send_pre_settled(context: Context):
    connection = connect(context)
    pipeline = Pipeline(connection, context.queue, 1000, AtMostOnce())
    connection.wait(lambda: pipeline.sent == 1000, timeout=30, msg="1,000 sends")
    receiver = connection.create_receiver(context.queue, credit=100)
    assert [message.body for message in received(receiver, 1000)] == list(range(1000))
    assert pipeline.accepted == 0
    connection.close()


@suite.case("peek-lock-complete")
def peek_lock_complete(context: Context):
    connection = connect(context)
    send(connection, context.queue, "one", "two")
    receiver = connection.create_receiver(context.queue)
    for expected in ("one", "two"):
        message = receiver.receive(WAIT)
        assert message.body == expected and message.delivery_count == 0
        receiver.accept()
    assert_empty(receiver)
    assert Management(connection, context.queue).peek(1, 10) == []
    connection.close()


@suite.case("peek-lock-abandon")
def peek_lock_abandon(context: Context):
    connection = connect(context)
    send(connection, context.queue, "one", "two")
    receiver = connection.create_receiver(context.queue)
    first = receiver.receive(WAIT)
    settle(receiver, Delivery.MODIFIED, failed=True)
    again = receiver.receive(WAIT)
    assert again.body == "one", "an abandoned message keeps its place"
    assert again.delivery_count == 1
    number = "x-opt-sequence-number"
    assert annotation(again, number) == annotation(first, number)
    receiver.accept()
    assert received(receiver, 1)[0].body == "two"
    assert_empty(receiver)
    connection.close()


@suite.case("peek-lock-release")
def peek_lock_release(context: Context):
    connection = connect(context)
    send(connection, context.queue, "one", "two")
    receiver = connection.create_receiver(context.queue)
    receiver.receive(WAIT)
    settle(receiver, Delivery.RELEASED)
    again = receiver.receive(WAIT)
    assert again.body == "one" and again.delivery_count == 0
    receiver.accept()
    assert received(receiver, 1)[0].body == "two"
    assert_empty(receiver)
    connection.close()


@suite.case("peek-lock-dead-letter")
def peek_lock_dead_letter(context: Context):
    connection = connect(context)
    send(connection, context.queue, "bad", "worse")
    receiver = connection.create_receiver(context.queue)
    receiver.receive(WAIT)
    dead_letter(receiver, "unreadable", "the total is not a number")
    receiver.receive(WAIT)
    settle(receiver, Delivery.REJECTED)
    assert_empty(receiver)
    dead_letters = connection.create_receiver(f"{context.queue}/$DeadLetterQueue")
    bad, worse = received(dead_letters, 2)
    assert bad.body == "bad"
    assert bad.properties["DeadLetterReason"] == "unreadable"
    assert bad.properties["DeadLetterErrorDescription"] == "the total is not a number"
    assert worse.body == "worse" and "DeadLetterReason" not in (worse.properties or {})
    assert_empty(dead_letters)
    connection.close()


@suite.case("undeliverable-here")
def undeliverable_here(context: Context):
    connection = connect(context)
    send(connection, context.queue, "not for me", "for me")
    receiver = connection.create_receiver(context.queue)
    receiver.receive(WAIT)
    settle(receiver, Delivery.MODIFIED, undeliverable=True)
    assert received(receiver, 1)[0].body == "for me"
    assert_empty(receiver)
    dead_letters = connection.create_receiver(f"{context.queue}/$DeadLetterQueue")
    (message,) = received(dead_letters, 1)
    assert message.body == "not for me"
    assert message.properties["DeadLetterReason"] == "UndeliverableHere"
    connection.close()


@suite.case("modified-without-failure")
def modified_without_failure(context: Context):
    connection = connect(context)
    send(connection, context.queue, "one")
    receiver = connection.create_receiver(context.queue)
    receiver.receive(WAIT)
    settle(receiver, Delivery.MODIFIED)
    (again,) = received(receiver, 1)
    assert again.delivery_count == 0
    connection.close()


@suite.case("peek-lock-defer")
def peek_lock_defer(context: Context):
    connection = connect(context)
    send(connection, context.queue, "later", "now")
    receiver = connection.create_receiver(context.queue, options=ServiceBusLink())
    deferred = receiver.receive(WAIT)
    settle(receiver, Delivery.MODIFIED, undeliverable=True)
    assert received(receiver, 1)[0].body == "now"
    assert_empty(receiver)
    (peeked,) = Management(connection, context.queue).peek(1, 10)
    assert peeked.body == "later" and annotation(peeked, "x-opt-message-state") == 1
    number = "x-opt-sequence-number"
    assert annotation(peeked, number) == annotation(deferred, number)
    connection.close()


@suite.case("receive-and-delete")
def receive_and_delete(context: Context):
    connection = connect(context)
    send(connection, context.queue, "a", "b", "c")
    receiver = connection.create_receiver(context.queue, options=AtMostOnce())
    assert [receiver.receive(WAIT).body for _ in range(3)] == ["a", "b", "c"]
    assert not receiver.fetcher.unsettled, "each delivery must arrive settled"
    assert_empty(receiver)
    assert Management(connection, context.queue).peek(1, 10) == []
    connection.close()


@suite.case("lock-renewal", **RENEWED_LOCK)
def lock_renewal(context: Context):
    connection = connect(context)
    send(connection, context.queue, "long work")
    receiver = connection.create_receiver(context.queue, options=ServiceBusLink())
    message = receiver.receive(WAIT)
    first_end = annotation(message, "x-opt-locked-until")
    management = Management(connection, context.queue)
    idle(connection, 5)  # so that the renewed lock outlives the first one by as much
    status, answer = management.renew_lock(lock_token(message))
    assert status == 200, status
    (renewed,) = answer.body["expirations"].elements
    assert renewed >= first_end + 4_500, (first_end, renewed)
    idle(connection, first_end / 1000 - time.time() + 0.3)
    other = connection.create_receiver(context.queue, name="other")
    assert_empty(other)
    receiver.accept()
    flush(receiver)
    assert_empty(other)
    assert management.peek(1, 10) == []
    connection.close()


@suite.case("lock-loss", **SHORT_LOCK)
def lock_loss(context: Context):
    connection = connect(context)
    send(connection, context.queue, "too slow")
    receiver = connection.create_receiver(context.queue, options=ServiceBusLink())
    first = receiver.receive(WAIT)
    management = Management(connection, context.queue)
    idle(connection, annotation(first, "x-opt-locked-until") / 1000 - time.time() + 0.3)
    status, _ = management.renew_lock(lock_token(first))
    assert status == 410, status
    receiver.accept()  # too late: must complete nothing
    again = receiver.receive(WAIT)
    assert again.body == "too slow" and again.delivery_count == 1
    receiver.accept()
    assert_empty(receiver)
    connection.close()


def lose_connection(connection):
    """Takes the socket away, without detach or close."""
    transport = connection.conn.transport
    transport.close_tail()
    transport.close_head()
    try:
        connection.wait(lambda: False, msg="the socket to go", timeout=WAIT)
    except ConnectionException:
        pass


@suite.case("connection-loss")
def connection_loss(context: Context):
    connection, holder = connect(context), connect(context)
    send(connection, context.queue, "dropped")
    holder.create_receiver(context.queue).receive(WAIT)
    lose_connection(holder)
    # The queue's lock is a minute: only the loss of the connection can have ended it.
    (again,) = received(connection.create_receiver(context.queue), 1)
    assert again.delivery_count == 0, "nobody said that the delivery failed"
    connection.close()


@suite.case("connection-loss-with-lock", **SHORT_LOCK)
def connection_loss_with_lock(context: Context):
    connection, holder = connect(context), connect(context)
    send(connection, context.queue, "mine for five seconds")
    message = holder.create_receiver(context.queue, options=ServiceBusLink()).receive(WAIT)
    end = annotation(message, "x-opt-locked-until") / 1000
    lose_connection(holder)
    (again,) = received(connection.create_receiver(context.queue), 1)
    assert time.time() > end - 0.5, "a Service Bus lock ends with its time, not with its connection"
    assert again.delivery_count == 1
    connection.close()


@suite.case("delivery-count-to-dead-letter", max_delivery_count=3)
def delivery_count_to_dead_letter(context: Context):
    connection = connect(context)
    send(connection, context.queue, "poison")
    receiver = connection.create_receiver(context.queue)
    for failed in range(3):
        assert receiver.receive(WAIT).delivery_count == failed
        settle(receiver, Delivery.MODIFIED, failed=True)
    assert_empty(receiver)
    dead_letters = connection.create_receiver(f"{context.queue}/$DeadLetterQueue")
    (message,) = received(dead_letters, 1)
    assert message.body == "poison"
    assert message.properties["DeadLetterReason"] == "MaxDeliveryCountExceeded"
    assert message.properties["DeadLetterErrorDescription"]
    connection.close()


@suite.case("peek")
def peek(context: Context):
    connection = connect(context)
    send(connection, context.queue, *range(10))
    management = Management(connection, context.queue)
    seen = management.peek(1, 4)
    while len(seen) < 10:
        more = management.peek(annotation(seen[-1], "x-opt-sequence-number") + 1, 4)
        assert more, f"peeked {len(seen)} of 10"
        seen += more
    assert [message.body for message in seen] == list(range(10))
    assert all(annotation(message, "x-opt-message-state") == 0 for message in seen)
    receiver = connection.create_receiver(context.queue)
    taken = received(receiver, 10)
    assert all(message.delivery_count == 0 for message in taken), "peeking is not delivering"
    assert management.peek(1, 1) == []
    connection.close()


@suite.case("two-competing-receivers")
def two_competing_receivers(context: Context):
    left_connection, right_connection = connect(context), connect(context)
    send(left_connection, context.queue, *range(10))
    left = left_connection.create_receiver(context.queue)
    right = right_connection.create_receiver(context.queue)
    seen = []
    for _ in range(5):
        seen += [left.receive(WAIT).body, right.receive(WAIT).body]
    assert sorted(seen) == list(range(10)), f"delivered twice or not at all: {seen}"
    for receiver in (left, right):
        for _ in range(5):
            receiver.accept()
        flush(receiver)
    assert_empty(left)
    left_connection.close()
    right_connection.close()


def log_in(context: Context, key: str):
    return connect(
        context,
        allowed_mechs="PLAIN",
        user=KEY_NAME,
        password=key,
        allow_insecure_mechs=True,
    )


@suite.case("plain-log-in")
def plain_log_in(context: Context):
    connection = log_in(context, KEY)
    send(connection, context.queue, "with a key")
    assert received(connection.create_receiver(context.queue), 1)[0].body == "with a key"
    connection.close()


@suite.case("wrong-key")
def wrong_key(context: Context):
    try:
        log_in(context, "WRONG_KEY")
    except ConnectionException as error:
        assert "unauthorized" in str(error) or "uthentication" in str(error), error
    else:
        raise AssertionError("logged in with a wrong key")


@suite.case("anonymous-refused")
def anonymous_refused(context: Context):
    broker = Broker({context.queue: {}}).start()
    try:
        there = Context(broker, context.transport, context.queue)
        try:
            connect(there).create_sender(context.queue)
        except LinkDetached as error:
            assert error.condition == "amqp:unauthorized-access", error.condition
        except ConnectionException as error:
            assert "unauthorized" in str(error), error
        else:
            raise AssertionError("a link was opened without any log-in")
    finally:
        broker.close()


@suite.case("missing-queue")
def missing_queue(context: Context):
    connection = connect(context)
    for create in (connection.create_sender, connection.create_receiver):
        try:
            create("no-such-queue")
        except LinkDetached as error:
            assert error.condition == "amqp:not-found", error.condition
            assert "no-such-queue" in str(error), error
        else:
            raise AssertionError("a link to a missing queue was opened")
    send(connection, context.queue, "the connection goes on")
    connection.close()


@suite.case("oversized-message")
def oversized_message(context: Context):
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    assert sender.link.remote_max_message_size == 1 << 20, sender.link.remote_max_message_size
    too_large = "amqp:link:message-size-exceeded"
    try:
        delivery = sender.link.send(Message(body=b"x" * (2 << 20), inferred=True))
        connection.wait(lambda: delivery.settled, msg="an answer", timeout=WAIT)
        assert delivery.remote_state == Delivery.REJECTED, delivery.remote_state
        assert delivery.remote.condition.name == too_large, delivery.remote.condition
    except LinkDetached as error:
        assert error.condition == too_large, error.condition
    again = connect(context)
    send(again, context.queue, "fits")
    assert received(again.create_receiver(context.queue), 1)[0].body == "fits"
    again.close()


@suite.case("large-message")
def large_message(context: Context):
    body = bytes(range(256)) * 3600  # 900 KiB in frames of 32 KiB
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    for _ in range(3):
        sender.send(Message(body=body, inferred=True))
    receiver = connection.create_receiver(context.queue)
    for message in received(receiver, 3):
        assert message.body == body
    connection.close()


@suite.case("drain")
def drain(context: Context):
    connection = connect(context)
    receiver = connection.create_receiver(context.queue)
    link = receiver.link
    link.drain(5)
    connection.wait(lambda: not link.draining(), msg="an empty queue to be drained", timeout=WAIT)
    assert link.drained() >= 5 and link.credit == 0
    link.drain_mode = False
    send(connection, context.queue, "a", "b")
    link.drain(5)
    # The answer may have been read while the second message still waits to be handled.
    connection.wait(
        lambda: not link.draining() and receiver.fetcher.has_message == 2,
        msg="a queue of two to be drained",
        timeout=WAIT,
    )
    bodies = []
    while receiver.fetcher.has_message:
        bodies.append(receiver.fetcher.pop().body)
        receiver.accept()
    assert bodies == ["a", "b"], bodies
    link.drain_mode = False
    send(connection, context.queue, "c")
    assert received(receiver, 1)[0].body == "c"
    connection.close()


@suite.case("annotations-and-header", **SHORT_LOCK)
def annotations_and_header(context: Context):
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    before = time.time()
    sent = Message(body="annotated", durable=True, priority=7, ttl=60, id="mine", user_id=b"me")
    sent.annotations = {symbol("x-opt-partition-key"): "pk", symbol("x-opt-ours"): ulong(42)}
    sender.send(sent)
    receiver = connection.create_receiver(context.queue)
    (message,) = received(receiver, 1)
    assert message.durable and message.priority == 7 and message.ttl == 60
    assert message.delivery_count == 0 and message.id == "mine" and message.user_id == b"me"
    assert annotation(message, "x-opt-partition-key") == "pk"
    ours = annotation(message, "x-opt-ours")
    assert ours == 42 and isinstance(ours, ulong)
    assert annotation(message, "x-opt-sequence-number") >= 1
    enqueued = annotation(message, "x-opt-enqueued-time")
    assert isinstance(enqueued, timestamp) and abs(enqueued / 1000 - before) < 60
    lock = annotation(message, "x-opt-locked-until") - enqueued
    assert 5_000 <= lock < 60_000, lock
    assert message.first_acquirer
    sender.send(Message(body="nothing else"))
    (message,) = received(receiver, 1)
    assert not message.durable and message.priority == 4 and message.delivery_count == 0
    connection.close()


@suite.case("service-bus-annotations", **SHORT_LOCK)
def service_bus_annotations(context: Context):
    connection = connect(context)
    send(connection, context.queue, "for an SDK")
    receiver = connection.create_receiver(context.queue, options=ServiceBusLink())
    (message,) = received(receiver, 1)
    assert isinstance(lock_token(message), uuid.UUID)
    assert len(message.id) == 32, "the broker gives an id to a message without one"
    assert annotation(message, "x-opt-message-state") == 0
    assert annotation(message, "x-opt-enqueue-sequence-number") == annotation(
        message, "x-opt-sequence-number"
    )
    connection.close()


TYPES = {
    "null": None,
    "true": True,
    "false": False,
    "ubyte": ubyte(200),
    "byte": byte(-100),
    "ushort": ushort(65_000),
    "short": short(-30_000),
    "uint": uint(0),
    "large uint": uint(4_000_000_000),
    "int": int32(-2_000_000_000),
    "ulong": ulong(2**64 - 1),
    "long": -(2**62),
    "float": float32(1.25),
    "double": 2.5,
    "decimal32": decimal32(123456),
    "decimal64": decimal64(123456789),
    "decimal128": decimal128(bytes(range(16))),
    "char": char("✓"),
    "timestamp": timestamp(1_896_321_906_789),
    "uuid": uuid.UUID("903a173c-50b2-46df-a7d2-162f15125cba"),
    "binary": b"\x00\xff bytes",
    "string": "grüße ✓",
    "long string": "s" * 300,
    "symbol": symbol("a:symbol"),
}

COMPOUNDS = {
    "list": [1, "two", [3.0, None], {"four": True}],
    "empty list": [],
    "map": {"a": 1, "nested": {"b": [2, 3]}, symbol("c"): b"4"},
    "empty map": {},
    "array": Array(UNDESCRIBED, Data.LONG, 1, 2, 3),
    "described": Described(symbol("com.example:point:list"), [1, 2]),
}


def same(found, wanted) -> bool:
    """Equal in value and in AMQP type."""
    if isinstance(found, memoryview):
        found = bytes(found)
    return found == wanted and type(found) is type(wanted)


@suite.case("round-trip")
def round_trip(context: Context):
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    receiver = connection.create_receiver(context.queue)
    for name, body in {**TYPES, **COMPOUNDS}.items():
        sender.send(Message(body=body, id=name))
        (message,) = received(receiver, 1)
        assert same(message.body, body), (name, message.body)
    # `inferred` chooses data and sequence sections instead of a value.
    for body in (b"", b"data", [], ["a", 1, [None]]):
        sender.send(Message(body=body, inferred=True))
        (message,) = received(receiver, 1)
        assert message.inferred and same(message.body, body), (body, message)
    sender.send(Message(properties=TYPES, body="application properties"))
    (message,) = received(receiver, 1)
    for name, wanted in TYPES.items():
        assert same(message.properties[name], wanted), (name, message.properties[name])
    connection.close()


@suite.case("round-trip-properties")
def round_trip_properties(context: Context):
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    receiver = connection.create_receiver(context.queue)
    fields = {
        "user_id": b"user", "address": "there", "subject": "the subject", "reply_to": "back",
        "correlation_id": uuid.UUID(int=7), "content_type": symbol("text/plain"),
        "content_encoding": symbol("identity"), "group_id": "group", "group_sequence": 3,
        "reply_to_group_id": "answers", "creation_time": 1_700_000_000.0,
    }  # fmt: skip
    for identity in ("text", ulong(2**63), uuid.UUID(int=5), b"binary"):
        sender.send(Message(id=identity, body="x", **fields))
        (message,) = received(receiver, 1)
        assert message.id == identity, (message.id, identity)
        for name in fields.keys() - {"creation_time"}:
            assert getattr(message, name) == fields[name], (name, getattr(message, name))
    connection.close()


@suite.case("link-close-and-reopen")
def link_close_and_reopen(context: Context):
    connection = connect(context)
    for number in range(3):
        sender = connection.create_sender(context.queue, name="again")
        sender.send(Message(body=number))
        sender.close()
        receiver = connection.create_receiver(context.queue, name="again")
        assert received(receiver, 1)[0].body == number
        receiver.close()
    connection.close()


@suite.case("detach-and-reattach")
def detach_and_reattach(context: Context):
    connection = connect(context)
    sender = connection.create_sender(context.queue, name="resumed")
    sender.send(Message(body="before"))
    sender.link.detach()
    flush(sender)  # Proton writes attaches before detaches
    sender.link.free()
    again = connection.create_sender(context.queue, name="resumed")
    again.send(Message(body="after"))
    receiver = connection.create_receiver(context.queue)
    assert [message.body for message in received(receiver, 2)] == ["before", "after"]
    connection.close()


@suite.case("anonymous-relay")
def anonymous_relay(context: Context):
    connection = connect(context)
    assert "ANONYMOUS-RELAY" in (connection.conn.remote_offered_capabilities or [])
    sender = connection.create_sender(None)
    sender.send(Message(address=context.queue, body="one"))
    sender.send(Message(address=f"/queues/{context.queue}", body="two"))
    try:
        sender.send(Message(address="no-such-queue", body="lost"))
        raise AssertionError("a message to a missing queue was accepted")
    except SendException as refused:
        assert refused.state == Delivery.REJECTED, refused.state
    receiver = connection.create_receiver(context.queue)
    assert [message.body for message in received(receiver, 2)] == ["one", "two"]
    connection.close()


@suite.case("many-links")
def many_links(context: Context):
    connection = connect(context)
    senders = [connection.create_sender(context.queue, name=f"s{n}") for n in range(200)]
    for number, sender in enumerate(senders):
        sender.send(Message(body=number))
    receiver = connection.create_receiver(context.queue, credit=200)
    assert [message.body for message in received(receiver, 200)] == list(range(200))
    connection.close()


@suite.case("heartbeat")
def heartbeat(context: Context):
    connection = connect(context, heartbeat=3)
    sender = connection.create_sender(context.queue)
    idle(connection, 10)  # without frames from the broker the client gives up after three seconds
    sender.send(Message(body="still connected"))
    connection.close()


@suite.case("broker-restart")
def broker_restart(context: Context):
    broker = Broker({context.queue: {}}, durability="fsync", anonymous=True).start()
    try:
        there = Context(broker, context.transport, context.queue)
        before = connect(there)
        send(before, context.queue, "before the crash")
        before.create_receiver(context.queue).receive(WAIT)  # locked when the broker dies
        broker.restart(kill=True)
        between = connect(there)
        send(between, context.queue, "after the crash")
        broker.restart()
        after = connect(there)
        receiver = after.create_receiver(context.queue)
        bodies = [message.body for message in received(receiver, 2)]
        assert bodies == ["before the crash", "after the crash"], bodies
        assert_empty(receiver)
        after.close()
    finally:
        broker.close()


ACCEPTED_IN_TRANSACTION = 0x34


@suite.case("transaction-commit")
def transaction_commit(context: Context):
    connection = connect(context)
    send(connection, context.queue, "work")
    sender = connection.create_sender(context.queue, name="results")
    receiver = connection.create_receiver(context.queue, name="work")
    work = Work(connection)
    assert receiver.receive(WAIT).body == "work"
    work.accept(receiver)
    for body in ("one", "two"):
        state, data = work.send(sender, Message(body=body))
        assert state == ACCEPTED_IN_TRANSACTION, state
        assert data[1].descriptor == Delivery.ACCEPTED, data
    other = connection.create_receiver(context.queue, name="other")
    assert_empty(other)  # one is locked, the others are not there yet
    other.close()
    assert work.commit() == "committed"
    assert [message.body for message in received(receiver, 2)] == ["one", "two"]
    assert_empty(receiver)
    assert Management(connection, context.queue).peek(1, 10) == []
    connection.close()


@suite.case("transaction-rollback")
def transaction_rollback(context: Context):
    connection = connect(context)
    send(connection, context.queue, "work")
    sender = connection.create_sender(context.queue, name="results")
    receiver = connection.create_receiver(context.queue, name="work")
    work = Work(connection)
    assert receiver.receive(WAIT).body == "work"
    work.accept(receiver)
    work.send(sender, Message(body="never"))
    assert work.abort() == "aborted"
    again = receiver.receive(WAIT)
    assert again.body == "work" and again.delivery_count == 0
    receiver.accept()
    assert_empty(receiver)
    connection.close()


@suite.case("transaction-several")
def transaction_several(context: Context):
    """One after the other, ended in both ways, with work outside of them between."""
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    for number in range(6):
        work = Work(connection)
        work.send(sender, Message(body=f"in {number}"))
        sender.send(Message(body=f"outside {number}"))
        ended = work.commit() if number % 2 else work.abort()
        assert ended == ("committed" if number % 2 else "aborted"), ended
    bodies = []
    for number in range(6):
        bodies += [f"outside {number}"] + ([f"in {number}"] if number % 2 else [])
    receiver = connection.create_receiver(context.queue, credit=20)
    assert [message.body for message in received(receiver, 9)] == bodies
    assert_empty(receiver)
    connection.close()


@suite.case("transaction-refused-operation")
def transaction_refused_operation(context: Context):
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    relay = connection.create_sender(None)
    work = Work(connection)
    work.send(sender, Message(body="never"))
    state, _ = work.send(relay, Message(address="no-such-queue", body="lost"))
    assert state == Delivery.REJECTED, state
    ended = work.commit()
    assert ended == "refused: amqp:transaction:rollback", ended
    assert_empty(connection.create_receiver(context.queue))
    connection.close()


@suite.case("transaction-connection-loss")
def transaction_connection_loss(context: Context):
    connection, holder = connect(context), connect(context)
    send(connection, context.queue, "work")
    receiver = holder.create_receiver(context.queue)
    work = Work(holder)
    assert receiver.receive(WAIT).body == "work"
    work.accept(receiver)
    work.send(holder.create_sender(context.queue, name="results"), Message(body="never"))
    lose_connection(holder)
    receiver = connection.create_receiver(context.queue)
    assert [message.body for message in received(receiver, 1)] == ["work"]
    assert_empty(receiver)
    connection.close()


@suite.case("transaction-broker-restart")
def transaction_broker_restart(context: Context):
    broker = Broker({context.queue: {}}, durability="fsync", anonymous=True).start()
    try:
        there = Context(broker, context.transport, context.queue)
        before = connect(there)
        send(before, context.queue, "work", "more work")
        receiver = before.create_receiver(context.queue)
        sender = before.create_sender(context.queue, name="results")
        done = Work(before)
        assert receiver.receive(WAIT).body == "work"
        done.accept(receiver)
        done.send(sender, Message(body="done"))
        assert done.commit() == "committed"
        receiver.close()
        open_work = Work(before)
        receiver = before.create_receiver(context.queue, name="again")
        assert receiver.receive(WAIT).body == "more work"
        open_work.accept(receiver)
        open_work.send(sender, Message(body="never"))
        broker.restart(kill=True)
        after = connect(there)
        receiver = after.create_receiver(context.queue)
        bodies = [message.body for message in received(receiver, 2)]
        assert bodies == ["more work", "done"], bodies
        assert_empty(receiver)
        after.close()
    finally:
        broker.close()


suite.skip("send-batch", "Proton for Python cannot set the message format of a transfer")

if __name__ == "__main__":
    suite.run()
