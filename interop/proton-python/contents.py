"""Messages come as they were sent, with what the broker adds."""

from __future__ import annotations

import time
import uuid

from proton import (
    UNDESCRIBED,
    Array,
    Data,
    Described,
    Message,
    byte,
    char,
    decimal128,
    decimal32,
    decimal64,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)

from cases import SHORT_LOCK, Context
from client import ServiceBusLink, annotation, connect, lock_token, received, send
from declared import suite

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
    assert symbol("x-opt-message-state") not in message.annotations, "only where it says something"
    assert symbol("x-opt-enqueue-sequence-number") not in message.annotations, "only where it is another one"
    connection.close()
