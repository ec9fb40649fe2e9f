"""Messages that are delivered later, by the annotations of plain AMQP."""

from __future__ import annotations

import time

from proton import Delivery, Message, symbol, timestamp
from proton.utils import SendException

from broker import Broker
from cases import Context
from client import assert_empty, connect, received
from declared import suite

TEN_MINUTES = 600


@suite.case("delivery-delay")
def delivery_delay(context: Context):
    broker = Broker({context.queue: {}}, anonymous=True).start()
    try:
        connection = connect(Context(broker, context.transport, context.queue))
        sender = connection.create_sender(context.queue)
        receiver = connection.create_receiver(context.queue, credit=10)
        at = int((time.time() + TEN_MINUTES) * 1_000)
        said = [
            ("by delay", "x-opt-delivery-delay", TEN_MINUTES * 1_000),
            ("by time", "x-opt-delivery-time", at),
            ("by timestamp", "x-opt-delivery-time", timestamp(at)),
        ]
        for body, name, value in said:
            sender.send(Message(body=body, annotations={symbol(name): value}))
        for name, value in (("x-opt-delivery-delay", -1), ("x-opt-delivery-time", "tomorrow")):
            refused(sender, Message(body="never", annotations={symbol(name): value}), name)
        sender.send(Message(body="now"))
        assert [message.body for message in received(receiver, 1)] == ["now"]
        assert_empty(receiver)
        broker.advance_clock(TEN_MINUTES + 60)
        came = received(receiver, len(said))
        assert sorted(message.body for message in came) == sorted(body for body, _, _ in said)
        assert_empty(receiver)
        connection.close()
    finally:
        broker.close()


def refused(sender, message: Message, name: str) -> None:
    try:
        sender.send(message)
    except SendException as error:
        assert error.state == Delivery.REJECTED, error.state
        return
    raise AssertionError(f"a bad {name} was taken")
