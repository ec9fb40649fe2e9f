"""A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it."""

from __future__ import annotations

import contextlib
import functools

from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageSizeExceededError

from declared import case
from facade import client
from steps import assert_empty, one, plain, raises

LIMIT = 256 << 10
LOWERED = 1 << 10
DELETE = ServiceBusReceiveMode.RECEIVE_AND_DELETE
DEAD_LETTER = ServiceBusSubQueue.DEAD_LETTER
# The longest texts that a client may give when it dead-letters.
REASON, DESCRIPTION = "r" * 4_096, "d" * 4_096
APPLICATION = {"number": 7, "text": "grüße ✓"}


@functools.cache
def numbers(count: int) -> bytes:
    return bytes(number % 251 for number in range(count))


def filled(body: int) -> ServiceBusMessage:
    """A message whose body has so many bytes."""
    return ServiceBusMessage(
        numbers(body), message_id="largest", subject="the subject", correlation_id="corr", application_properties=APPLICATION
    )


def of_size(size: int) -> ServiceBusMessage:
    """A message whose encoding has so many bytes."""
    overhead = filled(size // 2).message.get_message_encoded_size() - size // 2
    message = filled(size - overhead)
    assert message.message.get_message_encoded_size() == size
    return message


def is_whole(message) -> None:
    """Nothing was lost on the way, and it comes for the first time: no link was closed for its size."""
    assert b"".join(message.body) == b"".join(of_size(LIMIT).body)
    assert (message.message_id, message.subject, message.correlation_id) == ("largest", "the subject", "corr")
    for name, value in APPLICATION.items():
        assert plain(message.application_properties)[name] == value, name
    assert message.delivery_count == 0, message.delivery_count


def is_dead_letter(letter) -> None:
    is_whole(letter)
    assert (letter.dead_letter_reason, letter.dead_letter_error_description) == (REASON, DESCRIPTION)


async def first(receiver):
    """The first message that is there, which the answer to a request carries."""
    (message,) = await receiver.peek_messages(1, sequence_number=1)
    return message


class Receivers:
    """Those of a queue and of its dead-letter queue, in each mode. Each is one link over the whole case."""

    def __init__(self, bus, queue):
        self.locking = bus.get_queue_receiver(queue)
        self.deleting = bus.get_queue_receiver(queue, receive_mode=DELETE)
        self.dead = bus.get_queue_receiver(queue, sub_queue=DEAD_LETTER)
        self.deleting_dead = bus.get_queue_receiver(queue, sub_queue=DEAD_LETTER, receive_mode=DELETE)

    async def open(self, stack: contextlib.AsyncExitStack) -> None:
        for receiver in (self.locking, self.deleting, self.dead, self.deleting_dead):
            await stack.enter_async_context(receiver)

    async def take_four(self) -> None:
        """One of each receiver; those of the dead-letter queue get theirs with the longest texts."""
        is_whole(await first(self.locking))
        is_whole(await one(self.deleting))
        locked = await one(self.locking)
        is_whole(locked)
        await self.locking.complete_message(locked)
        for _ in range(2):
            bad = await one(self.locking)
            is_whole(bad)
            await self.locking.dead_letter_message(bad, reason=REASON, error_description=DESCRIPTION)
        is_dead_letter(await first(self.dead))
        is_dead_letter(await one(self.deleting_dead))
        letter = await one(self.dead)
        is_dead_letter(letter)
        await self.dead.complete_message(letter)


@case("largest-message", max_message_bytes=LIMIT)
async def largest_message(context, style):
    async with contextlib.AsyncExitStack() as stack:
        bus = await stack.enter_async_context(client(context, style, retry_total=0))
        receivers = Receivers(bus, context.queue)
        await receivers.open(stack)
        sender = await stack.enter_async_context(bus.get_queue_sender(context.queue))
        await raises(MessageSizeExceededError, sender.send_messages, of_size(LIMIT + 1))
        for lowered in (False, True):
            for _ in range(4):
                await sender.send_messages(of_size(LIMIT))
            assert sender._max_message_size_on_link == LIMIT
            if lowered:
                context.broker.limit_messages(context.queue, LOWERED)
                later = await stack.enter_async_context(bus.get_queue_sender(context.queue))
                await raises(MessageSizeExceededError, later.send_messages, of_size(LOWERED + 1))
                assert later._max_message_size_on_link == LOWERED
            await receivers.take_four()
        await assert_empty(receivers.locking)
        await assert_empty(receivers.dead)
