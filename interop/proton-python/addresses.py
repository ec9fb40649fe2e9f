"""Addresses that are any text."""

from __future__ import annotations

from proton import Message

from cases import Context, Suite
from client import WAIT, assert_empty, connect
from texts import declare_texts


def declare(suite: Suite) -> None:
    """Declares the cases, which are named as in the other suites."""
    declare_texts(suite, each_of)


def each_of(context: Context, addresses: tuple[str, ...]) -> None:
    connection = connect(context)
    for address in addresses:
        sender = connection.create_sender(address)
        sender.send(Message(body=address))
        sender.close()
    relay = connection.create_sender(None)
    for address in addresses:
        relay.send(Message(address=address, body="by to"))
    for address in addresses:
        receiver = connection.create_receiver(address, credit=2)
        for expected in (address, "by to"):
            assert receiver.receive(WAIT).body == expected
            receiver.accept()
        receiver.close()
    assert_empty(connection.create_receiver(addresses[0]))
    connection.close()
