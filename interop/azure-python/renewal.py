"""Locks that the SDK renews by itself while a handler works.

Invariant: a handler works for longer than a lock lasts, on the real clock, for
the SDK decides by its own when to renew. The failures are looked at before the
message is completed: the SDK may be in the middle of a renewal when it
completes a message or closes a receiver, and counts that renewal as failed.
"""

from __future__ import annotations

import asyncio
import contextlib

from azure.servicebus import AutoLockRenewer, ServiceBusMessage
from azure.servicebus.aio import AutoLockRenewer as AsyncAutoLockRenewer

from declared import case
from facade import client
from steps import WAIT

WORK = 12  # seconds of work on one message
# The SDK begins to renew it when three quarters are left: a busy machine has as long for that.
KEPT_LOCK = {"lock_duration": "PT10S", "hold": "lock"}


@contextlib.asynccontextmanager
async def renewer(style):
    """Of the wanted style. It tells what it could not renew."""
    failures = []
    if style == "async":

        async def failed(renewable, error):
            failures.append((renewable, error))

        made = AsyncAutoLockRenewer(max_lock_renewal_duration=60, on_lock_renew_failure=failed)
        yield made, failures
        await made.close()
    else:
        made = AutoLockRenewer(
            max_lock_renewal_duration=60, on_lock_renew_failure=lambda *failed: failures.append(failed)
        )
        yield made, failures
        made.close()


@case("lock-renewal-automatic", **KEPT_LOCK)
async def of_messages(context, style):
    async with client(context, style) as bus, renewer(style) as (renews, failures):
        async with bus.get_queue_sender(context.queue) as sender:
            await sender.send_messages(ServiceBusMessage("long work"))
        async with bus.get_queue_receiver(context.queue, auto_lock_renewer=renews) as receiver:
            [message] = await receiver.receive_messages(1, max_wait_time=WAIT)
            first_end = message.locked_until_utc
            async with bus.get_queue_receiver(context.queue) as other:
                # Whoever else asks gets nothing while the work goes on.
                assert await other.receive_messages(1, max_wait_time=WORK) == []
            assert message.locked_until_utc > first_end
            assert failures == [], failures
            await receiver.complete_message(message)
            assert await receiver.peek_messages(1) == []


@case("session-renewal-automatic", requires_session=True, **KEPT_LOCK)
async def of_sessions(context, style):
    async with client(context, style) as bus, renewer(style) as (renews, failures):
        async with bus.get_queue_sender(context.queue) as sender:
            await sender.send_messages(ServiceBusMessage("long work", session_id="s"))
        async with bus.get_queue_receiver(context.queue, session_id="s", auto_lock_renewer=renews) as receiver:
            [message] = await receiver.receive_messages(1, max_wait_time=WAIT)
            first_end = receiver.session.locked_until_utc
            await asyncio.sleep(WORK)
            assert receiver.session.locked_until_utc > first_end
            assert failures == [], failures
            await receiver.complete_message(message)
