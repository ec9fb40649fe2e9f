"""Messages that are set aside and fetched by their numbers."""

from __future__ import annotations

from azure.servicebus import ServiceBusMessageState, ServiceBusReceiveMode, ServiceBusSubQueue

from declared import case
from facade import client
from steps import assert_empty, one, refused_number, send, text


@case("peek-lock-defer")
async def peek_lock_defer(context, style):
    await send(context, style, "later", "now")
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            deferred = await one(receiver)
            await receiver.defer_message(deferred)
            message = await one(receiver)
            assert text(message) == "now"
            await receiver.complete_message(message)
            await assert_empty(receiver)
            peeked = await receiver.peek_messages(5, sequence_number=deferred.sequence_number)
            assert [text(message) for message in peeked] == ["later"], peeked
            assert peeked[0].state == ServiceBusMessageState.DEFERRED
            assert peeked[0].sequence_number == deferred.sequence_number


@case("deferred-by-number")
async def deferred_by_number(context, style):
    bodies = ["complete", "abandon", "dead-letter", "defer", "renew"]
    await send(context, style, *bodies)
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue) as receiver:
            numbers = {}
            for body in bodies:
                message = await one(receiver)
                numbers[body] = message.sequence_number
                await receiver.defer_message(message)
            await assert_empty(receiver)
        async with bus.get_queue_receiver(context.queue) as receiver:
            got = await receiver.receive_deferred_messages(list(numbers.values()))
            assert [text(message) for message in got] == bodies
            assert all(message.state == ServiceBusMessageState.DEFERRED for message in got)
            assert all(message.lock_token and message.delivery_count == 1 for message in got)
            complete, abandon, dead_letter, defer, renew = got
            await refused_number(receiver.receive_deferred_messages, complete.sequence_number)
            first_end = renew.locked_until_utc
            assert await receiver.renew_message_lock(renew) > first_end
            await receiver.complete_message(complete)
            await receiver.abandon_message(abandon)
            await receiver.dead_letter_message(dead_letter, reason="looked at")
            await receiver.defer_message(defer)
            await receiver.complete_message(renew)
            await refused_number(receiver.receive_deferred_messages, numbers["complete"])
            again = await receiver.receive_deferred_messages([numbers["defer"], numbers["abandon"]])
            assert [text(message) for message in again] == ["defer", "abandon"]
            assert [message.delivery_count for message in again] == [2, 2]
            for message in again:
                await receiver.complete_message(message)
            await assert_empty(receiver)
        dead = ServiceBusSubQueue.DEAD_LETTER
        async with bus.get_queue_receiver(context.queue, sub_queue=dead) as receiver:
            message = await one(receiver)
            assert message.sequence_number == numbers["dead-letter"]
            assert message.dead_letter_reason == "looked at"


@case("deferred-receive-and-delete")
async def deferred_receive_and_delete(context, style):
    await send(context, style, "a", "b")
    async with client(context, style) as bus:
        numbers = []
        async with bus.get_queue_receiver(context.queue) as receiver:
            for _ in range(2):
                message = await one(receiver)
                numbers.append(message.sequence_number)
                await receiver.defer_message(message)
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        async with bus.get_queue_receiver(context.queue, receive_mode=mode) as receiver:
            got = await receiver.receive_deferred_messages(numbers)
            assert [text(message) for message in got] == ["a", "b"]
            assert await receiver.peek_messages(9, sequence_number=1) == []
            await refused_number(receiver.receive_deferred_messages, numbers[0])
