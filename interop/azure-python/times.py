"""Schedules, expiry, and a clock that is moved."""

from __future__ import annotations

import dataclasses
import datetime
import unittest

from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageLockLostError

from broker import Broker
from cases import Context
from declared import case, suite
from documented import played, program
from facade import client
from steps import assert_empty, one, own_broker, refused_number, send, text


def in_ten_minutes() -> datetime.datetime:
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
    return now + datetime.timedelta(minutes=10)


@case("schedule-and-cancel")
async def schedule_and_cancel(context, style):
    due = in_ten_minutes()
    with own_broker(context) as there:
        async with client(there, style) as bus:
            async with bus.get_queue_sender(context.queue) as sender:
                several = [ServiceBusMessage(body) for body in ("cancelled 1", "cancelled 2")]
                numbers = await sender.schedule_messages(several, due)
                [single] = await sender.schedule_messages(ServiceBusMessage("due"), due)
                async with bus.get_queue_receiver(context.queue) as receiver:
                    peeked = await receiver.peek_messages(9, sequence_number=1)
                    assert [text(each) for each in peeked] == ["cancelled 1", "cancelled 2", "due"]
                    assert all(each.state == ServiceBusMessageState.SCHEDULED for each in peeked)
                    assert [each.sequence_number for each in peeked] == [*numbers, single]
                    assert peeked[0].scheduled_enqueue_time_utc == due, peeked[0]
                    await assert_empty(receiver)
                    await sender.cancel_scheduled_messages(numbers)
                    await refused_number(sender.cancel_scheduled_messages, numbers[0])
                    there.broker.advance_clock(600)
                    message = await one(receiver)
                    assert text(message) == "due"
                    assert message.state == ServiceBusMessageState.ACTIVE
                    assert message.sequence_number not in [*numbers, single], "a new number"
                    assert message.enqueued_time_utc >= due
                    await refused_number(sender.cancel_scheduled_messages, single)
                    # By the client's clock, which nobody moved, the lock is far from its end.
                    await receiver.complete_message(message)
                    assert await receiver.peek_messages(9, sequence_number=1) == []


@case("schedule-by-property")
async def schedule_by_property(context, style):
    due = in_ten_minutes()
    with own_broker(context) as there:
        async with client(there, style) as bus:
            async with bus.get_queue_sender(context.queue) as sender:
                scheduled = ServiceBusMessage("due", scheduled_enqueue_time_utc=due)
                await sender.send_messages([scheduled, ServiceBusMessage("now")])
            async with bus.get_queue_receiver(context.queue) as receiver:
                message = await one(receiver)
                assert text(message) == "now"
                await receiver.complete_message(message)
                await assert_empty(receiver)
                there.broker.advance_clock(600)
                message = await one(receiver)
                assert text(message) == "due"
                assert message.enqueued_time_utc >= due
                assert message.scheduled_enqueue_time_utc == due
                await receiver.complete_message(message)


@case("expiry")
async def expiry(context, style):
    second = datetime.timedelta(seconds=1)
    # Long enough for a slow machine to get to the peek, and a lock that outlives them all.
    settings = {"dead_letter_on_expiration": True, "default_time_to_live": "PT200S", "lock_duration": "PT5M"}
    with own_broker(context, **settings) as there:
        async with client(there, style) as bus:
            async with bus.get_queue_sender(context.queue) as sender:
                await sender.send_messages(ServiceBusMessage("capped", time_to_live=600 * second))
                await sender.send_messages(ServiceBusMessage("default"))
                await sender.send_messages(ServiceBusMessage("short", time_to_live=150 * second))
            async with bus.get_queue_receiver(context.queue) as receiver:
                peeked = await receiver.peek_messages(9, sequence_number=1)
                lifetimes = [message.time_to_live for message in peeked]
                assert lifetimes == [200 * second, None, 150 * second], lifetimes
                held = await one(receiver)
                assert text(held) == "capped" and held.time_to_live == 200 * second
                assert held.expires_at_utc == held.enqueued_time_utc + 200 * second
                there.broker.advance_clock(210)
                dead = ServiceBusSubQueue.DEAD_LETTER
                async with bus.get_queue_receiver(context.queue, sub_queue=dead) as dead_letters:
                    # In the order of their numbers, whichever expired first.
                    for expected in ("default", "short"):
                        message = await one(dead_letters)
                        assert text(message) == expected
                        assert message.dead_letter_reason == "TTLExpiredException"
                        await dead_letters.complete_message(message)
                    await receiver.complete_message(held)
                    await assert_empty(dead_letters)
                await assert_empty(receiver)


@case("clock-advance")
async def clock_advance(context, style):
    broker = Broker({"orders": {"lock_duration": "PT5M"}}).start()
    try:
        here = dataclasses.replace(context, broker=broker, queue="orders")
        await send(here, style, "tea")
        async with client(here, style) as bus:
            async with bus.get_queue_receiver("orders") as receiver:
                message = await one(receiver)
                broker.advance_clock(301)
                again = await one(receiver)
                assert (text(again), again.delivery_count) == ("tea", 1)
                with unittest.TestCase().assertRaises(MessageLockLostError):
                    await receiver.complete_message(message)
                await receiver.complete_message(again)
            async with bus.get_queue_sender("orders") as sender:
                ttl = datetime.timedelta(days=30)
                await sender.send_messages(ServiceBusMessage("stale", time_to_live=ttl))
                broker.advance_clock(ttl.total_seconds())
            async with bus.get_queue_receiver("orders") as receiver:
                await assert_empty(receiver)
    finally:
        broker.close()


@suite.case("documented-clock")
def documented_clock(context: Context):
    broker = Broker({}, tls=False).start()
    text = program("docs/features/testing.md", "def advance") + f"\nadvance(90, port={broker.port})"
    played(text)
    assert broker.ask("GET", "/$ferrybus/clock")["ahead_ms"] == 90_000
    broker.close()
