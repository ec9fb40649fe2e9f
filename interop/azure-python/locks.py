"""Locks that last, end, and outlive their link."""

from __future__ import annotations

import asyncio
import datetime
import unittest.mock

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageLockLostError

from cases import RENEWED_LOCK, SHORT_LOCK
from declared import case
from facade import client
from steps import assert_empty, one, send, text, wait_past


@case("lock-renewal", **RENEWED_LOCK)
async def lock_renewal(context, style):
    await send(context, style, "long work")
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            message = await one(receiver)
            first_end = message.locked_until_utc
            await asyncio.sleep(7)  # so that the renewed lock outlives the first one by as much
            renewed = await receiver.renew_message_lock(message)
            assert renewed >= first_end + datetime.timedelta(seconds=4.5), (first_end, renewed)
            await wait_past(first_end)
            await receiver.renew_message_lock(message)
            async with bus.get_queue_receiver(context.queue) as other:
                await assert_empty(other)
            await receiver.complete_message(message)
            assert await receiver.peek_messages(1) == []


@case("lock-loss", **SHORT_LOCK)
async def lock_loss(context, style):
    await send(context, style, "too slow")
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            message = await one(receiver)
            held = (message.locked_until_utc - datetime.datetime.now(datetime.timezone.utc))
            assert held.total_seconds() <= 6, held
            assert message.locked_until_utc - message.enqueued_time_utc >= datetime.timedelta(seconds=5)
            await wait_past(message.locked_until_utc)
            # The client refuses by its own clock; the broker's answer is what is asked for here.
            expired = unittest.mock.PropertyMock(return_value=False)
            with unittest.mock.patch.object(ServiceBusReceivedMessage, "_lock_expired", expired):
                for attempt in (receiver.renew_message_lock, receiver.complete_message):
                    try:
                        await attempt(message)
                        raise AssertionError(f"{attempt.__name__} on a lost lock was accepted")
                    except MessageLockLostError:
                        pass
            again = await one(receiver)
            assert text(again) == "too slow" and again.delivery_count == 1
            await receiver.complete_message(again)


@case("settle-after-the-link-is-gone")
async def settle_after_the_link_is_gone(context, style):
    await send(context, style, "complete me", "dead-letter me")
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            first = await one(receiver)
            second = await one(receiver)
        # The SDK settles through `$management` by lock token when the link is gone.
        async with bus.get_queue_receiver(context.queue) as other:
            await other.complete_message(first)
            await other.dead_letter_message(second, reason="late", error_description="very")
            await assert_empty(other)
        async with bus.get_queue_receiver(
            context.queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER
        ) as receiver:
            message = await one(receiver)
            assert text(message) == "dead-letter me" and message.dead_letter_reason == "late"
            await receiver.complete_message(message)
