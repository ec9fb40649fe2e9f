"""What entities permit, drop, cap and pass on: their status and size, and what a topic does before it copies."""

from __future__ import annotations

import contextlib
import datetime
import unittest

from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import MessagingEntityDisabledError, ServiceBusQuotaExceededError

from broker import Broker
from cases import Context
from declared import case
from facade import client
from steps import text

WAIT = 30  # seconds that a message which must come may take
SILENCE = 1  # seconds after which an entity counts as empty

# Queue, its status, whether it takes and whether it gives messages.
QUEUES = [
    ("open", "active", True, True),
    ("send", "send-disabled", False, True),
    ("receive", "receive-disabled", True, False),
    ("off", "disabled", False, False),
]

TOPICS = {
    "shut": {"status": "disabled", "subscriptions": {"s": {}}},
    "news": {"subscriptions": {"off": {"status": "disabled"}, "shut": {"status": "receive-disabled"}, "on": {}}},
}


@contextlib.asynccontextmanager
async def own(context, style, entities, **options):
    """A broker with these entities, and a client of it."""
    broker = Broker(entities).start()
    try:
        async with client(Context(broker, context.transport, context.queue), style, **options) as bus:
            yield broker, bus
    finally:
        broker.close()


async def send(sender, *bodies, **options):
    async with sender:
        for body in bodies:
            await sender.send_messages(ServiceBusMessage(body, **options))


async def take(receiver, count):
    """Receives and completes `count` messages; then nothing may be left."""
    taken = []
    async with receiver:
        while len(taken) < count:
            more = await receiver.receive_messages(count - len(taken), max_wait_time=WAIT)
            assert more, f"{len(taken)} of {count} messages came"
            for message in more:
                await receiver.complete_message(message)
            taken += more
        left = await receiver.receive_messages(1, max_wait_time=SILENCE)
        assert left == [], f"unexpected message {left[0]}"
    return taken


async def disabled(call, *arguments):
    with unittest.TestCase().assertRaises(MessagingEntityDisabledError):
        await call(*arguments)


async def permitted(permits, call, *arguments):
    if permits:
        return await call(*arguments)
    return await disabled(call, *arguments)


@case("entity-status")
async def status(context, style):
    queues = {name: {"status": each} for name, each, _, _ in QUEUES}
    async with own(context, style, queues | TOPICS, retry_total=0) as (_, bus):
        for name, _, takes, gives in QUEUES:
            await permitted(takes, send, bus.get_queue_sender(name), "m")
            await permitted(gives, take, bus.get_queue_receiver(name), int(takes))
        await disabled(send, bus.get_topic_sender("shut"), "m")
        await take(bus.get_subscription_receiver("shut", "s"), 0)
        await send(bus.get_topic_sender("news"), "m")
        for name, gives in (("off", False), ("shut", False), ("on", True)):
            await permitted(gives, take, bus.get_subscription_receiver("news", name), 1)


@case("entity-full", max_size_bytes=20_000)
async def full(context, style):
    async with client(context, style) as bus:
        half = "x" * 12_000
        async with bus.get_queue_sender(context.queue) as sender:
            await sender.send_messages(ServiceBusMessage(half))
            for more in (ServiceBusMessage(half), [ServiceBusMessage("small"), ServiceBusMessage(half)]):
                with unittest.TestCase().assertRaises(ServiceBusQuotaExceededError) as refused:
                    await sender.send_messages(more)
                assert context.queue in str(refused.exception), refused.exception
            # What fits is taken all the same, and there is room again when something has gone.
            await sender.send_messages(ServiceBusMessage("small"))
            taken = await take(bus.get_queue_receiver(context.queue), 2)
            assert [text(message) for message in taken] == [half, "small"]
            await sender.send_messages(ServiceBusMessage(half))


@case("topics/duplicate-detection", requires_duplicate_detection=True, subscriptions={"a": {}, "b": {}})
async def duplicates(context, style):
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    async with client(context, style) as bus:
        async with bus.get_topic_sender(context.queue) as sender:
            await sender.send_messages(ServiceBusMessage("first", message_id="one"))
            await sender.send_messages(ServiceBusMessage("again", message_id="one"))
            batch = [("two", "a"), ("two", "b"), ("one", "c"), ("three", "d")]
            await sender.send_messages([ServiceBusMessage(body, message_id=key) for key, body in batch])
            await sender.schedule_messages(ServiceBusMessage("scheduled", message_id="three"), later)
        for name in ("a", "b"):
            taken = await take(bus.get_subscription_receiver(context.queue, name), 3)
            assert [text(message) for message in taken] == ["first", "a", "d"], name
        # The copies are gone, the id is known still.
        await send(bus.get_topic_sender(context.queue), "completed before", message_id="one")
        await take(bus.get_subscription_receiver(context.queue, "a"), 0)


@case("topics/shorter-lifetime")
async def shorter_lifetime(context, style):
    topic, dead = context.queue, ServiceBusSubQueue.DEAD_LETTER
    of_topic = datetime.timedelta(seconds=200)
    copies = {"brief": "PT100S", "long": "PT1H"}
    subscriptions = {
        name: {"default_time_to_live": time, "dead_letter_on_expiration": True} for name, time in copies.items()
    }
    entities = {topic: {"default_time_to_live": "PT200S", "subscriptions": subscriptions}}
    async with own(context, style, entities) as (broker, bus):
        day = datetime.timedelta(days=1)
        await send(bus.get_topic_sender(topic), "m", time_to_live=day)
        async with bus.get_subscription_receiver(topic, "long") as receiver:
            [peeked] = await receiver.peek_messages(9)
            assert peeked.time_to_live == of_topic, "the topic's is smaller than the subscription's"
            broker.advance_clock(110)
            [there] = await receiver.peek_messages(9, sequence_number=1)
            assert text(there) == "m"
        [letter] = await take(bus.get_subscription_receiver(topic, "brief", sub_queue=dead), 1)
        assert (text(letter), letter.dead_letter_reason) == ("m", "TTLExpiredException")
        broker.advance_clock(100)
        [letter] = await take(bus.get_subscription_receiver(topic, "long", sub_queue=dead), 1)
        assert (text(letter), letter.dead_letter_reason) == ("m", "TTLExpiredException")


@case("topics/forwarding")
async def forwarding(context, style):
    topic = context.queue
    subscriptions = {
        "on": {"forward_to": "work", "rule": [{"name": "r", "sql": "n = 1", "action": "SET seen = 'yes'"}]},
        "dead": {"forward_dead_lettered_to": "morgue"},
    }
    entities = {"work": {}, "morgue": {}, topic: {"subscriptions": subscriptions}}
    async with own(context, style, entities) as (_, bus):
        async with bus.get_topic_sender(topic) as sender:
            for number, body in enumerate(["zero", "one"]):
                message = ServiceBusMessage(body, application_properties={"n": number})
                await sender.send_messages(message)
        [forwarded] = await take(bus.get_queue_receiver("work"), 1)
        assert (text(forwarded), forwarded.enqueued_sequence_number) == ("one", 2)
        properties = forwarded.application_properties
        assert (properties[b"seen"], properties[b"RuleName"]) == (b"yes", b"r"), properties
        async with bus.get_subscription_receiver(topic, "dead") as receiver:
            [bad] = await receiver.receive_messages(1, max_wait_time=WAIT)
            await receiver.dead_letter_message(bad, reason="unreadable")
        [letter] = await take(bus.get_queue_receiver("morgue"), 1)
        told = (text(letter), letter.dead_letter_reason, letter.dead_letter_source)
        assert told == ("zero", "unreadable", f"{topic}/Subscriptions/dead"), told
