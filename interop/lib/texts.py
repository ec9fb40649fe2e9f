"""Addresses that are any text: declares the cases that send to such addresses and receive from them.

Invariant: each case has a broker of its own, with the queues that it says and no other.
"""

from __future__ import annotations

import urllib.parse
from typing import Callable

from broker import Broker
from cases import Context, Suite
from external import play

# None of them is a name that Service Bus can spell.
ADDRESSES = (
    "with spaces, and commas",
    "a#b",
    "orders::new",
    "größe/Ärger",
    "注文",
    "a//b",
    "app://orders/50%20off?x=1&y\\",
)


def declare_texts(suite: Suite, body: Callable[[Context, tuple[str, ...]], None]) -> None:
    """Declares `address-texts`, whose queues the configuration makes, and `address-texts-auto-create`, where attaching does."""
    for name, auto_create in (("address-texts", False), ("address-texts-auto-create", True)):

        @suite.case(name)
        def texts(context: Context, auto_create: bool = auto_create) -> None:
            queues = {} if auto_create else {address: {} for address in ADDRESSES}
            broker = Broker(queues, anonymous=True, auto_create=auto_create).start()
            try:
                body(Context(broker, context.transport, context.queue), ADDRESSES)
            finally:
                broker.close()


def declare_texts_of(suite: Suite, program: list[str]) -> None:
    """The same for a program, which finds the addresses in `FERRYBUS_ADDRESSES`: percent-encoded, with spaces between."""

    def body(context: Context, addresses: tuple[str, ...]) -> None:
        encoded = " ".join(urllib.parse.quote(address, safe="") for address in addresses)
        play(program, "address-texts", context, FERRYBUS_ADDRESSES=encoded)

    declare_texts(suite, body)
