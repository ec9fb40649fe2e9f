"""A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it."""

from __future__ import annotations

import functools

from proton import Condition, Delivery, Message, symbol
from proton.reactor import AtMostOnce
from proton.utils import BlockingConnection, BlockingReceiver, BlockingSender

from cases import Context
from client import WAIT, ServiceBusLink, assert_empty, connect, settle
from declared import suite

LIMIT = 256 << 10
LOWERED = 1 << 10
# The longest texts that a client may give when it dead-letters.
TEXTS = {"DeadLetterReason": "r" * 4_096, "DeadLetterErrorDescription": "d" * 4_096}
APPLICATION = {"number": 7, "text": "grüße ✓"}


@functools.cache
def numbers(count: int) -> bytes:
    return bytes(number % 251 for number in range(count))


def filled(body: int) -> Message:
    """A message whose body has so many bytes."""
    fields = {"id": "largest", "subject": "the subject", "correlation_id": "corr"}
    return Message(body=numbers(body), inferred=True, properties=APPLICATION, **fields)


def of_size(size: int) -> Message:
    """A message whose encoding has so many bytes."""
    overhead = len(filled(LOWERED).encode()) - LOWERED
    message = filled(size - overhead)
    assert len(message.encode()) == size
    return message


def outcome(connection: BlockingConnection, sender: BlockingSender, size: int) -> Delivery:
    """Sends a message of this size, and waits for the answer."""
    delivery = sender.link.send(of_size(size))
    connection.wait(lambda: delivery.settled, timeout=WAIT, msg="an answer")
    return delivery


def refused(connection: BlockingConnection, sender: BlockingSender, size: int) -> None:
    """The message is too large, and the link stays."""
    answer = outcome(connection, sender, size)
    assert answer.remote_state == Delivery.REJECTED, answer.remote_state
    assert answer.remote.condition.name == "amqp:link:message-size-exceeded", answer.remote.condition


def next_whole(receiver: BlockingReceiver, **added: str) -> None:
    """Nothing was lost on the way, and it comes for the first time: no link was closed for its size."""
    message = receiver.receive(WAIT)
    assert message.body == of_size(LIMIT).body
    assert (message.id, message.subject, message.correlation_id) == ("largest", "the subject", "corr")
    assert message.properties == APPLICATION | added, message.properties.keys()
    assert message.delivery_count == 0, message.delivery_count


class Receivers:
    """Those of a queue and of its dead-letter queue, in each mode. Each is one link over the whole case."""

    def __init__(self, connection: BlockingConnection, queue: str, options: list):
        dead = f"{queue}/$DeadLetterQueue"
        at_most_once = [*options, AtMostOnce()]
        self.locking = connection.create_receiver(queue, name="locking", options=options)
        self.dead = connection.create_receiver(dead, name="dead", options=options)
        # They get their credit when it is their turn.
        self.deleting = connection.create_receiver(queue, name="deleting", credit=0, options=at_most_once)
        self.deleting_dead = connection.create_receiver(dead, name="deleting-dead", credit=0, options=at_most_once)

    def take_four(self) -> None:
        """One of each receiver; those of the dead-letter queue get theirs with the longest texts."""
        next_whole(self.locking)
        self.locking.accept()
        for _ in range(2):
            next_whole(self.locking)
            info = {symbol(name): text for name, text in TEXTS.items()}
            condition = Condition("com.microsoft:dead-letter", info=info)
            settle(self.locking, Delivery.REJECTED, condition=condition)
        for receiver, added in ((self.deleting, {}), (self.deleting_dead, TEXTS)):
            next_whole(receiver, **added)
        next_whole(self.dead, **TEXTS)
        self.dead.accept()


def largest_message(context: Context, *options) -> None:
    connection = connect(context)
    receivers = Receivers(connection, context.queue, list(options))
    sender = connection.create_sender(context.queue, name="sender")
    assert sender.link.remote_max_message_size == LIMIT
    refused(connection, sender, LIMIT + 1)
    for lowered in (False, True):
        for _ in range(4):
            assert outcome(connection, sender, LIMIT).remote_state == Delivery.ACCEPTED
        if lowered:
            context.broker.limit_messages(context.queue, LOWERED)
            later = connection.create_sender(context.queue, name="later")
            assert later.link.remote_max_message_size == LOWERED
            refused(connection, later, LOWERED + 1)
        receivers.take_four()
    assert_empty(receivers.locking)
    assert_empty(receivers.dead)
    connection.close()


@suite.case("largest-message", max_message_bytes=LIMIT)
def to_plain_receivers(context: Context) -> None:
    largest_message(context)


@suite.case("largest-message-with-lock", max_message_bytes=LIMIT)
def to_service_bus_receivers(context: Context) -> None:
    largest_message(context, ServiceBusLink())
