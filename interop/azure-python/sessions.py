"""Sessions of subscriptions, and listings of sessions."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from declared import case
from facade import client
from steps import SESSIONS, SILENCE, WAIT, assert_empty, one, own_broker, raises, send_to_sessions, text

OF_SESSIONS = {"each": {"requires_session": True}, "plain": {}}


async def listed(style, listing):
    """All ids, over all pages, in order."""
    ids = [each async for each in listing] if style == "async" else list(await listing)
    return sorted(ids)


async def of_session(style, receiver, call, *arguments):
    """Calls the session of a receiver, which the synchronous facade does not wrap."""
    result = getattr(receiver.session, call)(*arguments)
    return await result if style == "async" else result


async def work_off(receiver, expected):
    for body in expected:
        [message] = await receiver.receive_messages(1, max_wait_time=WAIT)
        assert text(message) == body, message
        await receiver.complete_message(message)


@case("topics/sessions", subscriptions=OF_SESSIONS)
async def sessions_of_a_subscription(context, style):
    topic = context.queue
    async with client(context, style) as bus:
        async with bus.get_topic_sender(topic) as sender:
            bodies = ["b1", "a2", "b3", "a4"]
            await sender.send_messages([ServiceBusMessage(body, session_id=body[0]) for body in bodies])
            await sender.send_messages(ServiceBusMessage("of no session"))
        assert await listed(style, bus.list_subscription_sessions(topic, "each")) == ["a", "b"]
        async with bus.get_subscription_receiver(
            topic, "each", session_id=NEXT_AVAILABLE_SESSION, max_wait_time=WAIT
        ) as first:
            assert first.session.session_id == "b"
            await of_session(style, first, "set_state", b"half way")
            async with bus.get_subscription_receiver(topic, "each", session_id="a") as second:
                await work_off(second, ["a2", "a4"])
            peeked = await first.peek_messages(9)
            assert [text(message) for message in peeked] == ["b1", "b3"]
            await work_off(first, ["b1", "b3"])
            assert await of_session(style, first, "get_state") == b"half way"
        # The copy that has no session is dead on arrival where sessions are required, and nowhere else.
        dead = ServiceBusSubQueue.DEAD_LETTER
        async with bus.get_subscription_receiver(topic, "each", sub_queue=dead) as receiver:
            [message] = await receiver.receive_messages(1, max_wait_time=WAIT)
            assert (text(message), message.dead_letter_reason) == ("of no session", "Session id is null.")
            await receiver.complete_message(message)
        async with bus.get_subscription_receiver(topic, "plain") as receiver:
            await work_off(receiver, [*bodies, "of no session"])


@case("session-listing", requires_session=True)
async def listing(context, style):
    queue = context.queue
    async with client(context, style) as bus:
        async with bus.get_queue_sender(queue) as sender:
            many = [f"s{number:03}" for number in range(150)]
            await sender.send_messages([ServiceBusMessage("m", session_id=each) for each in many])
        assert await listed(style, bus.list_queue_sessions(queue)) == many
        before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=1)
        after = before + datetime.timedelta(minutes=2)
        assert await listed(style, bus.list_queue_sessions(queue, state_updated_after=before)) == []
        for session in ("s007", "nothing but state"):
            async with bus.get_queue_receiver(queue, session_id=session, max_wait_time=SILENCE) as receiver:
                await of_session(style, receiver, "set_state", b"seen")
        assert await listed(style, bus.list_queue_sessions(queue)) == sorted([*many, "nothing but state"])
        changed = await listed(style, bus.list_queue_sessions(queue, state_updated_after=before))
        assert changed == ["nothing but state", "s007"]
        assert await listed(style, bus.list_queue_sessions(queue, state_updated_after=after)) == []


async def refused_session(kind, bus, queue, **options):
    """The SDK attaches when the receiver is first used."""
    async with contextlib.AsyncExitStack() as stack:

        async def accept():
            await stack.enter_async_context(bus.get_queue_receiver(queue, **options))

        await raises(kind, accept)


@case("session-accept", **SESSIONS)
async def session_accept(context, style):
    queue = context.queue
    async with client(context, style, retry_total=0) as bus:
        begun = time.monotonic()
        await refused_session(
            OperationTimeoutError, bus, queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=SILENCE
        )
        # A busy machine takes seconds to open a link. A broker that does not heed the time takes a minute.
        waited = time.monotonic() - begun
        assert SILENCE * 0.8 <= waited <= SILENCE + 20, waited
        await send_to_sessions(bus, queue, "b1", "a2", "c3")
        async with bus.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=WAIT) as first:
            assert first.session.session_id == "b"
            assert first.session.locked_until_utc > datetime.datetime.now(datetime.timezone.utc)
            await refused_session(SessionCannotBeLockedError, bus, queue, session_id="b")
            # An id is the same session in any case.
            await refused_session(SessionCannotBeLockedError, bus, queue, session_id="B")
            async with bus.get_queue_receiver(queue, session_id="C") as named:
                message = await one(named)
                assert (text(message), message.session_id) == ("c3", "c")
                await named.complete_message(message)
            message = await one(first)
            assert (text(message), message.session_id) == ("b1", "b")
        # Given up with a message unsettled: it is free, and the message does not count as failed.
        async with bus.get_queue_receiver(queue, session_id="b") as again:
            message = await one(again)
            assert (text(message), message.delivery_count) == ("b1", 0)
            await again.complete_message(message)
        async with bus.get_queue_receiver(queue, session_id="nobody's") as empty:
            await assert_empty(empty)
        await refused_session(ServiceBusError, bus, queue)
        async with bus.get_queue_sender(queue) as sender:
            await raises(ServiceBusError, sender.send_messages, ServiceBusMessage("of no session"))


@case("session-order", **SESSIONS)
async def session_order(context, style):
    queue = context.queue
    async with client(context, style) as bus:
        await send_to_sessions(bus, queue, *(f"{session}{number}" for number in range(20) for session in "abc"))

        async def work_off(session):
            seen = []
            async with bus.get_queue_receiver(queue, session_id=session) as receiver:
                while len(seen) < 20:
                    message = await one(receiver)
                    if len(seen) % 5 == 2 and message.delivery_count == 0:
                        await receiver.abandon_message(message)
                        continue
                    seen.append(text(message))
                    await receiver.complete_message(message)
            assert seen == [f"{session}{number}" for number in range(20)], seen

        if style == "async":
            await asyncio.gather(*(work_off(session) for session in "abc"))
        else:
            for session in "abc":
                await work_off(session)


@case("session-state", **SESSIONS)
async def session_state(context, style):
    queue = context.queue
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(queue, session_id="s") as receiver:
            assert await of_session(style, receiver, "get_state") is None
            for state in (b"one", b"\x00\xff" * 1_000):
                await of_session(style, receiver, "set_state", state)
                assert await of_session(style, receiver, "get_state") == state
            until = receiver.session.locked_until_utc
            await asyncio.sleep(0.1)
            renewed = await of_session(style, receiver, "renew_lock")
            assert renewed > until and receiver.session.locked_until_utc == renewed
        async with bus.get_queue_receiver(queue, session_id="s") as receiver:
            assert await of_session(style, receiver, "get_state") == b"\x00\xff" * 1_000
            listed = bus.list_queue_sessions(queue)
            listed = [each async for each in listed] if style == "async" else list(await listed)
            assert listed == ["s"], listed
            await of_session(style, receiver, "set_state", None)
            assert await of_session(style, receiver, "get_state") is None


@case("session-deferred", **SESSIONS)
async def session_deferred(context, style):
    queue = context.queue
    async with client(context, style) as bus:
        await send_to_sessions(bus, queue, "s1", "t2", "s3", "s4")
        async with bus.get_queue_receiver(queue, session_id="s") as receiver:
            first = await one(receiver)
            await receiver.defer_message(first)
            second = await one(receiver)
            assert text(second) == "s3"
            await receiver.dead_letter_message(second, reason="late")
            peeked = await receiver.peek_messages(9, sequence_number=1)
            assert [text(each) for each in peeked] == ["s1", "s4"], peeked
            [deferred] = await receiver.receive_deferred_messages(first.sequence_number)
            assert text(deferred) == "s1"
            await receiver.complete_message(deferred)
            last = await one(receiver)
            assert text(last) == "s4"
            await receiver.complete_message(last)
        async with bus.get_queue_receiver(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
            message = await one(dead)
            assert (text(message), message.session_id, message.dead_letter_reason) == ("s3", "s", "late")
            await dead.complete_message(message)


@case("session-lost")
async def session_lost(context, style):
    with own_broker(context, **SESSIONS) as there:
        async with client(there, style) as bus:
            await send_to_sessions(bus, context.queue, "s1")
            async with bus.get_queue_receiver(context.queue, session_id="s") as receiver:
                message = await one(receiver)
                there.broker.advance_clock(60)
                await raises(SessionLockLostError, receiver.complete_message, message)
            async with bus.get_queue_receiver(context.queue, session_id="s") as receiver:
                message = await one(receiver)
                assert (text(message), message.delivery_count) == ("s1", 1)
                await receiver.complete_message(message)
