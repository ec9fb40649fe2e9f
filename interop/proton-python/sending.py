"""What is sent, one by one and all at once, and what is too large."""

from __future__ import annotations

from proton import Delivery, Message
from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, AtMostOnce
from proton.utils import LinkDetached, SendException

from cases import Context
from client import WAIT, ServiceBusLink, assert_empty, connect, received, send
from declared import suite
from documented import played, program


@suite.case("send-one")
def send_one(context: Context):
    connection = connect(context)
    # Both links get the name that Proton makes of container and address: the same one.
    sender = connection.create_sender(context.queue)
    receiver = connection.create_receiver(context.queue)
    assert sender.link.name == receiver.link.name
    sender.send(Message(body="hello"))
    assert [message.body for message in received(receiver, 1)] == ["hello"]
    assert_empty(receiver)
    connection.close()


@suite.case("documented-program")
def documented_program(context: Context):
    text = program("README.md", "proton")
    assert played(text, orders=context.queue, **{"localhost:5672": f"localhost:{context.broker.port}"}) == "an order\n"


@suite.case("queues-prefix")
def queues_prefix(context: Context):
    connection = connect(context)
    send(connection, f"/queues/{context.queue}", "prefixed")
    receiver = connection.create_receiver(context.queue)
    assert received(receiver, 1)[0].body == "prefixed"
    connection.close()


class Pipeline(MessagingHandler):
    """Sends as fast as credit allows and counts what the broker says of it."""

    def __init__(self, connection, queue, count, option):
        super().__init__(auto_settle=True)
        self.accepted = self.sent = 0
        self.count = count
        self.link = connection.container.create_sender(
            connection.conn, queue, handler=self, options=option
        )

    def on_sendable(self, event):
        while event.sender.credit and self.sent < self.count:
            event.sender.send(Message(body=self.sent))
            self.sent += 1

    def on_accepted(self, event):
        self.accepted += 1


@suite.case("send-1000-pipelined")
def send_1000_pipelined(context: Context):
    connection = connect(context)
    pipeline = Pipeline(connection, context.queue, 1000, AtLeastOnce())
    connection.wait(lambda: pipeline.accepted == 1000, timeout=30, msg="1,000 answers")
    receiver = connection.create_receiver(context.queue, credit=100)
    assert [message.body for message in received(receiver, 1000)] == list(range(1000))
    assert_empty(receiver)
    connection.close()


@suite.case("send-pre-settled")
def send_pre_settled(context: Context):
    connection = connect(context)
    pipeline = Pipeline(connection, context.queue, 1000, AtMostOnce())
    connection.wait(lambda: pipeline.sent == 1000, timeout=30, msg="1,000 sends")
    receiver = connection.create_receiver(context.queue, credit=100)
    assert [message.body for message in received(receiver, 1000)] == list(range(1000))
    assert pipeline.accepted == 0
    connection.close()


@suite.case("oversized-message", max_message_bytes="1 MiB")
def oversized_message(context: Context):
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    assert sender.link.remote_max_message_size == 1 << 20, sender.link.remote_max_message_size
    too_large = "amqp:link:message-size-exceeded"
    try:
        delivery = sender.link.send(Message(body=b"x" * (2 << 20), inferred=True))
        connection.wait(lambda: delivery.settled, msg="an answer", timeout=WAIT)
        assert delivery.remote_state == Delivery.REJECTED, delivery.remote_state
        assert delivery.remote.condition.name == too_large, delivery.remote.condition
    except LinkDetached as error:
        assert error.condition == too_large, error.condition
    again = connect(context)
    send(again, context.queue, "fits")
    assert received(again.create_receiver(context.queue), 1)[0].body == "fits"
    again.close()


@suite.case("message-beyond-the-tier")
def message_beyond_the_tier(context: Context):
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    assert sender.link.remote_max_message_size == 100 << 20, sender.link.remote_max_message_size
    body = bytes(range(256)) * (20 << 12)
    for options in (None, ServiceBusLink()):
        sender.send(Message(body=body, inferred=True), timeout=WAIT)
        receiver = connection.create_receiver(context.queue, options=options)
        # The message must live as long as its body, which is a view of its memory.
        [message] = received(receiver, 1)
        assert bytes(message.body) == body
        receiver.close()
    connection.close()


@suite.case("large-message")
def large_message(context: Context):
    body = bytes(range(256)) * 3600  # 900 KiB in frames of 32 KiB
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    for _ in range(3):
        sender.send(Message(body=body, inferred=True))
    receiver = connection.create_receiver(context.queue)
    for message in received(receiver, 3):
        assert message.body == body
    connection.close()


@suite.case("anonymous-relay")
def anonymous_relay(context: Context):
    connection = connect(context)
    assert "ANONYMOUS-RELAY" in (connection.conn.remote_offered_capabilities or [])
    sender = connection.create_sender(None)
    sender.send(Message(address=context.queue, body="one"))
    sender.send(Message(address=f"/queues/{context.queue}", body="two"))
    try:
        sender.send(Message(address="no-such-queue", body="lost"))
        raise AssertionError("a message to a missing queue was accepted")
    except SendException as refused:
        assert refused.state == Delivery.REJECTED, refused.state
    receiver = connection.create_receiver(context.queue)
    assert [message.body for message in received(receiver, 2)] == ["one", "two"]
    connection.close()
