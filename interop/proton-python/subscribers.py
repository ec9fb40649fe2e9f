"""Receivers from a topic itself: volatile, durable, shared, with selectors."""

from __future__ import annotations

from proton import Message, Terminus, symbol
from proton.reactor import Container, Copy, DurableSubscription, ReceiverOption, Selector
from proton.utils import LinkDetached

from client import assert_empty, connect, flush, received


class Shared(ReceiverOption):
    """Several receivers of one subscription."""

    def apply(self, receiver):
        receiver.source.capabilities.put_object(symbol("shared"))


class Lookup(ReceiverOption):
    """No source: is there a subscription of the link's name?"""

    def apply(self, receiver):
        receiver.source.type = Terminus.UNSPECIFIED


def connect_as(context, container_id):
    container = Container()
    container.container_id = f"{container_id}-{context.queue}"
    return connect(context, container=container)


def publish(connection, topic, *bodies, **fields):
    sender = connection.create_sender(topic)
    for body in bodies:
        sender.send(Message(body=body, **fields))
    sender.close()


def bodies(receiver, count):
    return [message.body for message in received(receiver, count)]


def detach(receiver):
    """Leaves the subscription as it is. What follows on the connection comes after it."""
    receiver.link.detach()
    flush(receiver)  # Proton writes attaches before detaches
    receiver.link.free()


def declare(suite):
    """Declares the cases; each has a topic instead of a queue, but for those of queues."""
    for name, body in CASES.items():
        suite.case(name, subscriptions={})(body)
    suite.case("queue-selector")(queue_selector)


def volatile(context):
    connection = connect(context)
    publish(connection, context.queue, "early")
    receivers = [
        connection.create_receiver(context.queue, name=name, options=options)
        for name, options in (("one", None), ("two", Copy()))
    ]
    publish(connection, context.queue, "a", "b")
    for receiver in receivers:
        assert bodies(receiver, 2) == ["a", "b"]
        assert_empty(receiver)
    receivers[0].close()
    publish(connection, context.queue, "late")
    assert_empty(connection.create_receiver(context.queue, name="one"))
    connection.close()


def durable(context):
    first = connect_as(context, "first")
    receiver = first.create_receiver(context.queue, name="news", options=DurableSubscription())
    publish(first, context.queue, "here")
    assert bodies(receiver, 1) == ["here"]
    detach(receiver)
    publish(first, context.queue, "detached")
    first.close()
    second = connect_as(context, "first")
    publish(second, context.queue, "away")
    receiver = second.create_receiver(context.queue, name="news", options=DurableSubscription())
    assert bodies(receiver, 2) == ["detached", "away"]
    other = connect_as(context, "other")
    stranger = other.create_receiver(context.queue, name="news", options=DurableSubscription())
    publish(other, context.queue, "both")
    assert bodies(stranger, 1) == bodies(receiver, 1) == ["both"]
    # Closing the link gives the subscription up.
    receiver.close()
    publish(second, context.queue, "lost")
    assert_empty(second.create_receiver(context.queue, name="news", options=DurableSubscription()))
    second.close()
    other.close()


def unsubscribe(context):
    connection = connect_as(context, "me")
    detach(connection.create_receiver(context.queue, name="news", options=DurableSubscription()))
    publish(connection, context.queue, "kept")
    found = connection.create_receiver(None, name="news", options=Lookup())
    assert found.link.remote_source.address == context.queue
    assert found.link.remote_source.expiry_policy == Terminus.EXPIRE_NEVER
    found.close()
    try:
        connection.create_receiver(None, name="news", options=Lookup())
        raise AssertionError("it is still there")
    except LinkDetached as error:
        assert error.condition == "amqp:not-found", error
    connection.close()


def in_use(context):
    """The same client on another connection takes its link over; who wants something else has to wait."""
    connections = [connect_as(context, "same") for _ in range(2)]
    older = connections[0].create_receiver(context.queue, name="news", options=DurableSubscription())
    try:
        other = [DurableSubscription(), Selector("n = 1")]
        connections[1].create_receiver(context.queue, name="news", options=other)
        raise AssertionError("two receivers have one subscription")
    except LinkDetached as error:
        assert error.condition == "amqp:resource-locked", error
    holder = connections[1].create_receiver(context.queue, name="news", options=DurableSubscription())
    publish(connections[1], context.queue, "m")
    assert bodies(holder, 1) == ["m"]
    try:
        older.receive(timeout=30)
        raise AssertionError("the older link is still there")
    except LinkDetached as error:
        assert error.condition == "amqp:link:stolen", error
    for connection in connections:
        connection.close()


def shared(context):
    connections = [connect_as(context, "team") for _ in range(2)]
    receivers = [
        connection.create_receiver(
            context.queue, credit=1, name=name, options=[DurableSubscription(), Shared()]
        )
        for connection, name in zip(connections, ("jobs", "jobs|2"))
    ]
    publish(connections[0], context.queue, *"abcd")
    taken = [body for _ in range(2) for receiver in receivers for body in bodies(receiver, 1)]
    assert sorted(taken) == list("abcd"), taken
    for connection in connections:
        connection.close()


def selector(context):
    connection = connect_as(context, "choosy")
    options = [DurableSubscription(), Selector("colour = 'red' AND n BETWEEN 1 AND 3")]
    receiver = connection.create_receiver(context.queue, name="red", options=options)
    in_force = receiver.link.remote_source.filter
    in_force.rewind()
    assert in_force.next() and symbol("selector") in in_force.get_object(), "it is in force"
    for n, colour in ((1, "red"), (2, "blue"), (4, "red"), (3, "red")):
        publish(connection, context.queue, n, properties={"colour": colour, "n": n})
    assert bodies(receiver, 2) == [1, 3]
    assert_empty(receiver)
    for bad in ("JMSPriority > 4", "n = "):
        try:
            connection.create_receiver(context.queue, name="bad", options=Selector(bad))
            raise AssertionError(f"`{bad}` was taken")
        except LinkDetached as error:
            assert error.condition == "amqp:invalid-field", error
    connection.close()


def queue_selector(context):
    """At a queue a selector chooses, and what it leaves is there for others."""
    connection = connect(context)
    colours = ("red", "blue", "red", "green")
    for n, colour in enumerate(colours):
        publish(connection, context.queue, n, properties={"colour": colour, "n": str(n) if n == 0 else n})
    browser = connection.create_receiver(
        context.queue, name="browser", options=[Copy(), Selector("colour = 'red'")]
    )
    in_force = browser.link.remote_source.filter
    in_force.rewind()
    assert in_force.next() and symbol("selector") in in_force.get_object(), "it is in force"
    assert [browser.receive(timeout=30).body for _ in range(2)] == [0, 2]  # settled already
    assert_empty(browser)
    browser.close()
    choosy = connection.create_receiver(context.queue, name="choosy", options=Selector("n > 1"))
    assert bodies(choosy, 2) == [2, 3]
    assert_empty(choosy)
    anybody = connection.create_receiver(context.queue, name="anybody")
    assert bodies(anybody, 2) == [0, 1], "neither locked nor counted"
    # What comes while both wait.
    publish(connection, context.queue, 5, properties={"n": 5})
    assert bodies(choosy, 1) == [5]
    connection.close()


def release(context):
    connection = connect_as(context, "first")
    receiver = connection.create_receiver(context.queue, name="news", options=DurableSubscription())
    publish(connection, context.queue, "m")
    assert receiver.receive().body == "m"
    receiver.release(delivered=False)
    message = receiver.receive()
    assert message.body == "m" and message.delivery_count == 0
    receiver.accept()
    assert_empty(receiver)
    connection.close()


CASES = {
    "topic-volatile": volatile,
    "topic-durable": durable,
    "topic-unsubscribe": unsubscribe,
    "topic-in-use": in_use,
    "topic-shared": shared,
    "topic-selector": selector,
    "topic-release": release,
}
