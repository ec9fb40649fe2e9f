"""Dynamic nodes: request and reply, owner, end, lifetime policies and topics."""

from __future__ import annotations

import threading
import time

from proton import Described, Message, symbol, ulong
from proton.reactor import DynamicNodeProperties, LinkOption
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached, SyncRequestResponse

from cases import Context, Suite
from client import WAIT, connect

REQUESTS = 10
CLOSED_WITHIN = 20  # seconds within which the end of a connection must show
DELETE_ON_NO_LINKS = 0x2C


class Capability(LinkOption):
    """Says what kind of node the source is to be."""

    def __init__(self, name: str):
        self._name = name

    def apply(self, link) -> None:
        link.source.capabilities.put_object(symbol(self._name))


def declare(suite: Suite) -> None:
    """Declares the cases, which are named as in the other suites."""
    for name, body in {
        "dynamic-request-reply": request_reply,
        "dynamic-owner": owner_only,
        "dynamic-end": end,
        "dynamic-lifetime": lifetime,
        "dynamic-topic": topic,
    }.items():
        suite.case(name)(body)


def dynamic(connection: BlockingConnection, *options: LinkOption) -> tuple[BlockingReceiver, str]:
    """A receiver of a new node, and its address."""
    receiver = connection.create_receiver(None, dynamic=True, options=list(options))
    source = receiver.link.remote_source
    assert source.dynamic
    return receiver, source.address


def refused(condition: str, attach) -> None:
    try:
        attach()
    except LinkDetached as detached:
        assert detached.condition == condition, detached
    else:
        raise AssertionError("it was not refused")


def gone(context: Context, address: str) -> None:
    """Waits until nothing is at an address any more."""
    connection = connect(context)
    until = time.monotonic() + CLOSED_WITHIN
    while time.monotonic() < until:
        try:
            connection.create_sender(address).close()
        except LinkDetached as detached:
            assert detached.condition == "amqp:not-found", detached
            connection.close()
            return
    raise AssertionError(f"{address} is still there")


def send(connection: BlockingConnection, address: str, body: str) -> None:
    sender = connection.create_sender(address)
    sender.send(Message(body=body))
    sender.close()


def take(receiver: BlockingReceiver) -> str:
    body = receiver.receive(WAIT).body
    receiver.accept()
    return body


def request_reply(context: Context) -> None:
    def respond() -> None:
        connection = connect(context)
        requests, relay = connection.create_receiver(context.queue), connection.create_sender(None)
        for _ in range(REQUESTS):
            request = requests.receive(WAIT)
            body = request.body.upper()
            relay.send(Message(address=request.reply_to, correlation_id=request.correlation_id, body=body))
            requests.accept()
        connection.close()

    responder = threading.Thread(target=respond, daemon=True)
    responder.start()
    connection = connect(context)
    client = SyncRequestResponse(connection, context.queue)
    for number in range(REQUESTS):
        assert client.call(Message(body=f"request {number}")).body == f"REQUEST {number}"
    connection.close()
    responder.join(WAIT)
    assert not responder.is_alive()


def owner_only(context: Context) -> None:
    owner, other = connect(context), connect(context)
    receiver, address = dynamic(owner)
    refused("amqp:resource-locked", lambda: other.create_receiver(address))
    send(other, address, "from another connection")
    assert take(receiver) == "from another connection"
    send(owner, address, "from its own")
    assert take(receiver) == "from its own"
    owner.close()
    other.close()


def end(context: Context) -> None:
    owner, other = connect(context), connect(context)
    receiver, address = dynamic(owner)
    _, second = dynamic(owner)
    sender = other.create_sender(address)
    receiver.close()
    refused("amqp:resource-deleted", lambda: sender.send(Message(body="late")))
    gone(context, address)
    owner.close()
    gone(context, second)
    other.close()


def lifetime(context: Context) -> None:
    owner, other = connect(context), connect(context)
    policy = {symbol("lifetime-policy"): Described(ulong(DELETE_ON_NO_LINKS), [])}
    receiver, address = dynamic(owner, DynamicNodeProperties(policy))
    granted = receiver.link.remote_source.properties
    granted.rewind()
    granted.next()
    assert granted.get_object() == policy, granted
    sender = other.create_sender(address)
    receiver.close()
    # The sender of another connection keeps the node.
    sender.send(Message(body="kept"))
    reader = owner.create_receiver(address)
    assert take(reader) == "kept"
    reader.close()
    sender.close()
    gone(context, address)
    owner.close()
    other.close()


def topic(context: Context) -> None:
    owner, other = connect(context), connect(context)
    first, address = dynamic(owner, Capability("temporary-topic"))
    second = owner.create_receiver(address)
    send(other, address, "news")
    assert (take(first), take(second)) == ("news", "news")
    owner.close()
    other.close()
