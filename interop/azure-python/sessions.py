"""Sessions of subscriptions, and listings of sessions."""

from __future__ import annotations

import datetime

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusSubQueue

from facade import client

WAIT = 30  # seconds that a message which must come may take
SILENCE = 1  # seconds after which a session counts as empty

OF_SESSIONS = {"each": {"requires_session": True}, "plain": {}}


def text(message) -> str:
    return b"".join(message.body).decode()


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


def declare(case):
    """Adds the cases to a suite."""

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
