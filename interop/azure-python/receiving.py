"""Messages under a lock and what becomes of them, receiving without a lock, looking only."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time

from azure.servicebus import ServiceBusMessageState, ServiceBusReceiveMode, ServiceBusSubQueue

from cases import Context
from declared import case, suite
from facade import client
from steps import WAIT, assert_empty, one, send, take, text


@case("peek-lock-complete")
async def peek_lock_complete(context, style):
    await send(context, style, "one", "two")
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            message = await one(receiver)
            assert text(message) == "one" and message.delivery_count == 0
            await receiver.complete_message(message)
            message = await one(receiver)
            assert text(message) == "two"
            await receiver.complete_message(message)
            await assert_empty(receiver)


@case("peek-lock-abandon")
async def peek_lock_abandon(context, style):
    await send(context, style, "one", "two")
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            first = await one(receiver)
            await receiver.abandon_message(first)
            again = await one(receiver)
            assert text(again) == "one", "an abandoned message keeps its place"
            assert again.sequence_number == first.sequence_number
            assert again.delivery_count == 1
            assert again.lock_token != first.lock_token
            await receiver.complete_message(again)
            message = await one(receiver)
            await receiver.complete_message(message)
            await assert_empty(receiver)


@case("peek-lock-dead-letter")
async def peek_lock_dead_letter(context, style):
    await send(context, style, "bad", "worse")
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            message = await one(receiver)
            await receiver.dead_letter_message(
                message, reason="unreadable", error_description="the total is not a number"
            )
            message = await one(receiver)
            await receiver.dead_letter_message(message)
            await assert_empty(receiver)
        async with bus.get_queue_receiver(
            context.queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER
        ) as receiver:
            message = await one(receiver)
            assert text(message) == "bad"
            assert message.dead_letter_reason == "unreadable"
            assert message.dead_letter_error_description == "the total is not a number"
            await receiver.complete_message(message)
            message = await one(receiver)
            assert text(message) == "worse" and message.dead_letter_reason is None
            await receiver.complete_message(message)
            await assert_empty(receiver)


@case("peek-lock-release")
async def peek_lock_release(context, style):
    await send(context, style, *(f"m{number}" for number in range(6)))
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue, prefetch_count=5) as receiver:
            message = await one(receiver)
            await receiver.complete_message(message)
        # What the closed receiver had fetched ahead it gave back as `released`.
        async with bus.get_queue_receiver(context.queue) as receiver:
            for number in range(1, 6):
                message = await one(receiver)
                assert text(message) == f"m{number}", text(message)
                assert message.delivery_count == 0, "a released delivery is not a failed one"
                await receiver.complete_message(message)


@case("receive-and-delete")
async def receive_and_delete(context, style):
    await send(context, style, "a", "b", "c")
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(
            context.queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
        ) as receiver:
            got = []
            while len(got) < 3:
                more = await receiver.receive_messages(3 - len(got), max_wait_time=WAIT)
                assert more, f"only {len(got)} came"
                got += more
            assert [text(message) for message in got] == ["a", "b", "c"]
            await assert_empty(receiver)
            assert await receiver.peek_messages(1) == []


@case("delivery-count-to-dead-letter", max_delivery_count=3)
async def delivery_count_to_dead_letter(context, style):
    await send(context, style, "poison")
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            for failed in range(3):
                message = await one(receiver)
                assert message.delivery_count == failed
                await receiver.abandon_message(message)
            await assert_empty(receiver)
        async with bus.get_queue_receiver(
            context.queue,
            sub_queue=ServiceBusSubQueue.DEAD_LETTER,
            receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE,
        ) as receiver:
            message = await one(receiver)
            assert text(message) == "poison"
            assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
            assert message.dead_letter_error_description


@case("peek")
async def peek(context, style):
    await send(context, style, *(f"p{number}" for number in range(10)))
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            held = await one(receiver)
            seen = []
            while len(seen) < 10:
                start = seen[-1].sequence_number + 1 if seen else held.sequence_number
                more = await receiver.peek_messages(4, sequence_number=start)
                assert more, f"peeked {len(seen)} of 10"
                seen += more
            assert [text(message) for message in seen] == [f"p{number}" for number in range(10)]
            assert all(message.state == ServiceBusMessageState.ACTIVE for message in seen)
            after = seen[-1].sequence_number + 1
            assert await receiver.peek_messages(1, sequence_number=after) == []
            await receiver.complete_message(held)
    taken = await take(context, style, 9)
    assert [message.delivery_count for message in taken] == [0] * 9, "peeking is not delivering"


@case("two-competing-receivers")
async def two_competing_receivers(context, style):
    await send(context, style, *(str(number) for number in range(10)))
    async with client(context, style) as bus, client(context, style) as other_bus:
        async with bus.get_queue_receiver(context.queue) as left:
            async with other_bus.get_queue_receiver(context.queue) as right:
                got = {left: [], right: []}
                while sum(map(len, got.values())) < 10:
                    for receiver, messages in got.items():
                        more = await receiver.receive_messages(1, max_wait_time=WAIT)
                        assert more, "a free message was not delivered"
                        messages += more
                assert len(got[left]) == len(got[right]) == 5
                seen = sorted(int(text(message)) for part in got.values() for message in part)
                assert seen == list(range(10)), f"delivered twice or not at all: {seen}"
                for receiver, messages in got.items():
                    for message in messages:
                        await receiver.complete_message(message)
                await assert_empty(left)


@suite.case("shared-by-threads")
def shared_by_threads(context: Context):
    """Threads that use one receiver at once, as the SDK's own renewer of locks does: its counters run into each other."""
    asyncio.run(send(context, "sync", *map(str, range(10))))
    with client(context, "sync")._inner as bus:
        with bus.get_queue_receiver(context.queue) as receiver:
            taken = []
            while len(taken) < 10:
                taken += receiver.receive_messages(10 - len(taken), max_wait_time=WAIT)
            numbers = [message.sequence_number for message in taken]
            with concurrent.futures.ThreadPoolExecutor(10) as threads:
                for _ in range(5):
                    seen = threads.map(lambda number: receiver.peek_messages(1, sequence_number=number), numbers)
                    assert [message.sequence_number for (message,) in seen] == numbers
                assert all(threads.map(receiver.renew_message_lock, taken))
            for message in taken:
                receiver.complete_message(message)


@case("receive-time-out-on-empty-queue")
async def receive_time_out_on_empty_queue(context, style):
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            started = time.monotonic()
            assert await receiver.receive_messages(5, max_wait_time=1) == []
            assert time.monotonic() - started < 15
            # The receiver still works, and a message that comes is not lost to the old credit.
            await send(context, style, "after the silence")
            message = await one(receiver)
            assert text(message) == "after the silence"
            await receiver.complete_message(message)
