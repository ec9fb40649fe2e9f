"""Queues and topics with partitions through `azure-servicebus` for Python."""

from __future__ import annotations

import datetime
import unittest

from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageNotFoundError, ServiceBusError

from declared import case
from facade import client
from steps import text

WAIT = 30  # seconds that a message which must come may take
COUNT = (1 << 48) - 1


def place(message) -> tuple[int, int]:
    """Partition and count, which the message must say alike in both of its places."""
    number = message.sequence_number
    annotations = {key.decode(): value for key, value in message.raw_amqp_message.annotations.items()}
    assert annotations["x-opt-partition-id"] == number >> 48, annotations
    return number >> 48, number & COUNT


def in_an_hour() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)


async def keyed(sender, key: str | None, *bodies: str):
    for body in bodies:
        await sender.send_messages(ServiceBusMessage(body, partition_key=key))


async def all_of(receiver, count: int):
    taken = []
    while len(taken) < count:
        more = await receiver.receive_messages(count - len(taken), max_wait_time=WAIT)
        assert more, f"{len(taken)} of {count} messages came"
        taken += more
    return taken


@case("partitions", enable_partitioning=True)
async def partitions(context, style):
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            await keyed(sender, "a", "a0", "a1", "a2")
            await keyed(sender, "b", "b0", "b1")
            await sender.send_messages([ServiceBusMessage("c0"), ServiceBusMessage("c1")])
        async with bus.get_queue_receiver(context.queue) as receiver:
            peeked = await receiver.peek_messages(max_message_count=20, sequence_number=1)
            taken = await all_of(receiver, 7)
            assert sorted(map(text, peeked)) == sorted(map(text, taken))
            places = {text(message): place(message) for message in taken}
            for name, count in (("a", 3), ("b", 2), ("c", 2)):
                mine = [places[f"{name}{number}"] for number in range(count)]
                assert [mine[0][0]] * count == [partition for partition, _ in mine], mine
                assert [number for _, number in mine] == list(range(1, count + 1)), mine
                order = [text(message) for message in taken if text(message).startswith(name)]
                assert order == sorted(order), order
            keys = {text(message): message.partition_key for message in taken}
            assert (keys["a0"], keys["c0"]) == ("a", None), keys
            for message in taken[1:]:
                await receiver.complete_message(message)
            await receiver.abandon_message(taken[0])
            again = (await all_of(receiver, 1))[0]
            assert place(again) == place(taken[0])
            await receiver.dead_letter_message(again, reason="seen twice")
        dead = ServiceBusSubQueue.DEAD_LETTER
        async with bus.get_queue_receiver(context.queue, sub_queue=dead) as receiver:
            letter = (await all_of(receiver, 1))[0]
            assert place(letter) == place(again), "a dead letter keeps its number"
            await receiver.complete_message(letter)


@case("partitions-by-number", enable_partitioning=True)
async def by_number(context, style):
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            await keyed(sender, "b", "now")
            later = [ServiceBusMessage(key, partition_key=key) for key in ("a", "b")]
            numbers = await sender.schedule_messages(later, in_an_hour())
            assert len({number >> 48 for number in numbers}) == 2, numbers
            await sender.cancel_scheduled_messages(numbers[0])
            with unittest.TestCase().assertRaises(MessageNotFoundError):
                await sender.cancel_scheduled_messages(numbers[0])
        async with bus.get_queue_receiver(context.queue) as receiver:
            message = (await all_of(receiver, 1))[0]
            await receiver.defer_message(message)
            shown = await receiver.peek_messages(max_message_count=9, sequence_number=message.sequence_number)
            states = [shown.state for shown in shown]
            assert states == [ServiceBusMessageState.DEFERRED, ServiceBusMessageState.SCHEDULED], states
            deferred = await receiver.receive_deferred_messages(message.sequence_number)
            assert [text(message) for message in deferred] == ["now"]
            await receiver.complete_message(deferred[0])


@case("partition-keys-refused", enable_partitioning=True)
async def refused(context, style):
    async with client(context, style, retry_total=0) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            several = [ServiceBusMessage(key, partition_key=key) for key in ("a", "b")]
            with unittest.TestCase().assertRaises(ServiceBusError) as error:
                await sender.send_messages(several)
            assert "partition key" in str(error.exception), error.exception
            await sender.send_messages(ServiceBusMessage("s", session_id="s", partition_key="s"))
        async with bus.get_queue_receiver(context.queue) as receiver:
            only = await all_of(receiver, 1)
            assert [text(message) for message in only] == ["s"]
            await receiver.complete_message(only[0])
