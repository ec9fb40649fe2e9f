"""Faults that the broker was ordered to have, and what the SDK makes of them by itself."""

from __future__ import annotations

import time
import unittest

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusServerBusyError, SessionLockLostError

from declared import case
from facade import client
from steps import SESSIONS, SILENCE, assert_empty, one, raises, send, send_to_sessions, take, text, use


@case("fault-server-busy")
async def fault_server_busy(context, style):
    async with client(context, style, retry_backoff_factor=0.01) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            await sender.send_messages(ServiceBusMessage("first"))
            # The SDK tries again by itself.
            context.broker.order_fault("server-busy", entity=context.queue, count=2)
            await sender.send_messages(ServiceBusMessage("second"))
    assert [text(message) for message in await take(context, style, 2)] == ["first", "second"]
    context.broker.order_fault("server-busy", entity=context.queue, count=100)
    async with client(context, style, retry_total=0) as bus:
        with unittest.TestCase().assertRaises(ServiceBusServerBusyError):
            async with bus.get_queue_sender(context.queue) as sender:
                await use(sender)


@case("fault-lose-lock")
async def fault_lose_lock(context, style):
    await send(context, style, "tea")
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            message = await one(receiver)
            context.broker.order_fault("lose-lock", entity=context.queue, count=1)
            with unittest.TestCase().assertRaises(MessageLockLostError):
                await receiver.complete_message(message)
            again = await one(receiver)
            assert (text(again), again.delivery_count) == ("tea", 1)
            await receiver.complete_message(again)
            await assert_empty(receiver)


@case("fault-lose-session", **SESSIONS)
async def fault_lose_session(context, style):
    async with client(context, style) as bus:
        await send_to_sessions(bus, context.queue, "s1", "s2")
        async with bus.get_queue_receiver(context.queue, session_id="s") as receiver:
            message = await one(receiver)
            context.broker.order_fault("lose-lock", entity=context.queue, count=1)
            await raises(SessionLockLostError, receiver.complete_message, message)
        async with bus.get_queue_receiver(context.queue, session_id="s") as receiver:
            for expected, count in (("s1", 1), ("s2", 0)):
                again = await one(receiver)
                assert (text(again), again.delivery_count) == (expected, count), again
                await receiver.complete_message(again)


# What was stored when its answer was lost is sent again.
@case("fault-dropped", requires_duplicate_detection=True)
async def dropped(context, style):
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender, bus.get_queue_receiver(context.queue) as receiver:
            for body in ("before", "drop-link", "drop-connection"):
                if body != "before":
                    # One strike for the sender and one for the receiver: each has a connection of its own.
                    context.broker.order_fault(body, entity=context.queue, count=2)
                await sender.send_messages(ServiceBusMessage(body, message_id=body))
                message = await one(receiver)
                assert (text(message), message.delivery_count) == (body, 0), message
                await receiver.complete_message(message)
            assert await receiver.peek_messages(1) == []


@case("fault-settlements")
async def settlements(context, style):
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            for body in ("rejected", "held up"):
                await sender.send_messages(ServiceBusMessage(body))
        async with bus.get_queue_receiver(context.queue) as receiver:
            rejected = await one(receiver)
            context.broker.order_fault("reject-settlement", entity=context.queue, count=1)
            await receiver.complete_message(rejected)
            held_up = await one(receiver)
            assert text(held_up) == "held up"
            context.broker.order_fault("delay-settlement", entity=context.queue, count=1, delay_ms=1_000)
            began = time.monotonic()
            await receiver.complete_message(held_up)
            assert time.monotonic() - began >= 1
            assert await receiver.peek_messages(9, sequence_number=1) == []
            assert await receiver.receive_messages(1, max_wait_time=SILENCE) == []
