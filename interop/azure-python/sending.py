"""What is sent comes as it was, or is refused."""

from __future__ import annotations

import datetime
import uuid

from azure.servicebus import ServiceBusMessage, ServiceBusMessageState
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageHeader, AmqpMessageProperties
from azure.servicebus.exceptions import MessageSizeExceededError

from cases import SHORT_LOCK, Context
from declared import case, suite
from documented import played, program
from facade import client
from steps import one, plain, send, take, text


@case("send-one")
async def send_one(context, style):
    await send(context, style, "hello")
    assert [text(message) for message in await take(context, style, 1)] == ["hello"]


@case("send-batch")
async def send_batch(context, style):
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            batch = await sender.create_message_batch()
            for number in range(50):
                batch.add_message(ServiceBusMessage(f"batch {number}"))
            await sender.send_messages(batch)
            await sender.send_messages([ServiceBusMessage("only one in its batch")])
    taken = await take(context, style, 51)
    expected = [f"batch {number}" for number in range(50)] + ["only one in its batch"]
    assert [text(message) for message in taken] == expected
    numbers = [message.sequence_number for message in taken]
    assert numbers == list(range(numbers[0], numbers[0] + 51)), numbers


@case("send-1000-in-batches")
async def send_1000_in_batches(context, style):
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            for start in range(0, 1000, 250):
                await sender.send_messages(
                    [ServiceBusMessage(str(start + number)) for number in range(250)]
                )
    taken = await take(context, style, 1000, prefetch_count=100)
    assert [text(message) for message in taken] == [str(number) for number in range(1000)]


@case("oversized-message")
async def oversized_message(context, style):
    async with client(context, style, retry_total=0) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            try:
                await sender.send_messages(ServiceBusMessage(b"x" * (2 << 20)))
                raise AssertionError("2 MiB were accepted by a queue that allows 1 MiB")
            except MessageSizeExceededError:
                pass
    await send(context, style, "fits")
    assert [text(message) for message in await take(context, style, 1)] == ["fits"]


@case("large-message")
async def large_message(context, style):
    body = bytes(range(256)) * 3600  # 900 KiB: more than a dozen frames
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            await sender.send_messages(ServiceBusMessage(body))
    (message,) = await take(context, style, 1)
    assert b"".join(message.body) == body


@case("annotations-and-header", **SHORT_LOCK)
async def annotations_and_header(context, style):
    before = datetime.datetime.now(datetime.timezone.utc)
    sent = AmqpAnnotatedMessage(
        data_body=b"annotated",
        annotations={"x-opt-partition-key": "pk", "x-opt-ours": 42},
        header=AmqpMessageHeader(durable=True, priority=7, time_to_live=60_000),
    )
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            await sender.send_messages(sent)
        async with bus.get_queue_receiver(context.queue) as receiver:
            message = await one(receiver)
            assert isinstance(message.sequence_number, int) and message.sequence_number >= 1
            slack = datetime.timedelta(minutes=1)
            now = datetime.datetime.now(datetime.timezone.utc)
            assert before - slack < message.enqueued_time_utc < now + slack
            lock = message.locked_until_utc - message.enqueued_time_utc
            assert datetime.timedelta(seconds=5) <= lock < datetime.timedelta(minutes=1), lock
            assert isinstance(message.lock_token, uuid.UUID)
            assert message.message_id, "the broker gives an id to a message without one"
            assert message.partition_key == "pk"
            assert message.time_to_live == datetime.timedelta(minutes=1)
            assert message.state == ServiceBusMessageState.ACTIVE
            expires = message.expires_at_utc - message.enqueued_time_utc
            assert expires == datetime.timedelta(minutes=1), expires
            raw = message.raw_amqp_message
            assert raw.header.delivery_count == 0
            assert raw.header.priority == 7
            assert plain(raw.annotations)["x-opt-ours"] == 42
            await receiver.complete_message(message)


@case("round-trip")
async def round_trip(context, style):
    stamp = datetime.datetime(2030, 2, 3, 4, 5, 6, 789_000, tzinfo=datetime.timezone.utc)
    unique = uuid.uuid4()
    application = {
        "int": 7, "large": 1 << 30, "negative": -5, "float": 1.25, "true": True, "false": False,
        "text": "grüße ✓", "uuid": unique, "time": stamp,
    }  # fmt: skip
    bodies = {
        "data_body": [b"first", b"second", b""],
        "value_body": {"list": [1, 2, "three", True], "nested": {"a": -1, "b": 2.5}},
        "sequence_body": [["a", 1, True], [2.5, "b"]],
    }
    properties = AmqpMessageProperties(
        message_id="id-1", user_id=b"user", to="there", subject="the subject",
        reply_to="back", correlation_id="corr-1", content_type="text/plain",
        content_encoding="identity", group_id="group", group_sequence=3, reply_to_group_id="answers",
    )  # fmt: skip
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            for kind, body in bodies.items():
                await sender.send_messages(
                    AmqpAnnotatedMessage(
                        **{kind: body}, properties=properties, application_properties=application,
                        footer={"checksum": 99},
                    )  # fmt: skip
                )
            await sender.send_messages(ServiceBusMessage(None, subject="no body at all"))
    *taken, empty = await take(context, style, 4)
    for (kind, body), message in zip(bodies.items(), taken, strict=True):
        raw = message.raw_amqp_message
        assert raw.body_type.value == kind.removesuffix("_body"), raw.body_type
        got = raw.body if kind == "value_body" else list(raw.body)
        assert (got if kind == "data_body" else plain(got)) == body, got
        for name in properties.keys():
            wanted = getattr(properties, name)
            if wanted is not None:
                found = getattr(raw.properties, name)
                assert plain(found) == plain(wanted), (name, found, wanted)
        values = plain(raw.application_properties)
        for name, wanted in application.items():
            found = values[name]
            if name == "time" and not isinstance(found, datetime.datetime):
                found = datetime.datetime.fromtimestamp(found / 1000, datetime.timezone.utc)
            assert found == wanted and type(found) is type(wanted), (name, found, wanted)
        assert plain(raw.footer) == {"checksum": 99}
        assert message.session_id == "group" and message.to == "there"
    assert empty.subject == "no body at all"


@suite.case("documented-program")
def documented_program(context: Context):
    text = program("README.md", "azure.servicebus")
    said = played(text, orders=context.queue, localhost=f"localhost:{context.broker.port}")
    assert said.splitlines() == [f"{number + 1} order {number}" for number in range(10)], said
