"""Faults that the broker was ordered to have, and what the SDK makes of them by itself."""

from __future__ import annotations

import time

from azure.servicebus import ServiceBusMessage

from facade import client

WAIT = 30  # seconds that a message which must come may take
SILENCE = 1  # seconds after which a queue counts as empty


def text(message) -> str:
    return b"".join(message.body).decode()


async def one(receiver):
    [message] = await receiver.receive_messages(1, max_wait_time=WAIT)
    return message


def declare(case):
    """Adds the cases to a suite."""

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
