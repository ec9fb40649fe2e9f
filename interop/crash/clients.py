"""The clients of the crash suite: they send and settle while the broker dies.

Each runs in a thread of its own, connects again whenever the connection breaks,
and notes only what the broker has answered.

Invariant: a number is in `accepted`, `completed` or `abandoned` only if the
broker's answer about it has been read.
"""

from __future__ import annotations

import itertools
import threading

from proton import Delivery, Endpoint, Link, Message, symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container, LinkOption

QUEUE = "crash"
WINDOW = 64  # sends without an answer, and credit of a receiver
RECONNECT_SECONDS = 0.02
TICK_SECONDS = 0.02
ABANDON_EVERY = 10  # of this many messages one is abandoned once


class Ledger:
    """What all clients together were told by the broker."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.accepted: set[int] = set()
        self.attempted: set[int] = set()  # a completion was sent, whatever became of it
        self.completed: set[int] = set()
        self.abandoned: set[int] = set()
        self.places: dict[int, int] = {}  # number of a message → its sequence number
        self.violations: list[str] = []
        self.failure: BaseException | None = None

    def note(self, numbers: set[int], number: int) -> None:
        with self.changed:
            numbers.add(number)
            self.changed.notify_all()

    def wait(self, reached, seconds: float, what: str) -> None:
        """Waits until `reached` is true or a client has failed."""
        with self.changed:
            done = self.changed.wait_for(lambda: self.failure or reached(), seconds)
        if self.failure:
            raise self.failure
        if not done:
            raise AssertionError(f"not within {seconds} s: {what}")

    def delivered(self, message: Message) -> None:
        """Holds one delivery against everything known before it."""
        number = message.body
        place = message.annotations[symbol("x-opt-sequence-number")]
        with self.changed:
            if number in self.completed:
                self.violations.append(f"message {number} came back after its completion")
            if number in self.abandoned and message.delivery_count < 1:
                self.violations.append(f"message {number} lost the count of its failed delivery")
            if self.places.setdefault(number, place) != place:
                self.violations.append(
                    f"message {number} is stored twice: at {self.places[number]} and {place}"
                )


class Client:
    """Lives through as many connections as it takes, until it is told to stop."""

    def __init__(self, port: int, ledger: Ledger):
        self.url = f"amqp://127.0.0.1:{port}"
        self.ledger = ledger
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> "Client":
        self._thread.start()
        return self

    def stop(self, seconds: float = 30.0) -> None:
        self.stopping.set()
        self._thread.join(seconds)
        if self.ledger.failure:
            raise self.ledger.failure
        if self._thread.is_alive():
            raise AssertionError(f"{type(self).__name__} did not stop within {seconds} s")

    def _run(self) -> None:
        try:
            while not self.stopping.is_set():
                Container(self.life()).run()
                self.stopping.wait(RECONNECT_SECONDS)
        except BaseException as error:  # a mistake in a handler must fail the suite, not hang it
            with self.ledger.changed:
                self.ledger.failure = error
                self.ledger.changed.notify_all()

    def life(self) -> "Life":
        raise NotImplementedError


class Life(MessagingHandler):
    """One connection, from the attempt to open it to its end."""

    def __init__(self, client: Client):
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self.client = client
        self.ledger = client.ledger
        self.over = False

    def on_start(self, event) -> None:
        self.container = event.container
        self.connection = event.container.connect(
            self.client.url, reconnect=False, allowed_mechs="ANONYMOUS"
        )
        self.attach()
        self.container.schedule(TICK_SECONDS, self)

    def on_timer_task(self, event) -> None:
        if self.over:
            return
        if self.client.stopping.is_set() and self.idle():
            self.over = True
            self.connection.close()
            return
        self.container.schedule(TICK_SECONDS, self)

    def on_transport_error(self, event) -> None:
        self.over = True  # the broker died: what was not answered stays unknown

    def on_disconnected(self, event) -> None:
        self.over = True

    def on_connection_error(self, event) -> None:
        raise AssertionError(f"the broker closed a connection: {event.connection.remote_condition}")

    def on_link_error(self, event) -> None:
        raise AssertionError(f"the broker closed a link: {event.link.remote_condition}")

    def attach(self) -> None:
        raise NotImplementedError

    def idle(self) -> bool:
        raise NotImplementedError


class Sender(Client):
    """Sends numbers, each once, at most `WINDOW` of them unanswered."""

    def __init__(self, port: int, ledger: Ledger, first: int, step: int):
        super().__init__(port, ledger)
        self.numbers = itertools.count(first, step)

    def life(self) -> Life:
        return SenderLife(self)


class SenderLife(Life):
    def __init__(self, client: Sender):
        super().__init__(client)
        self.in_flight: dict[str, int] = {}

    def attach(self) -> None:
        self.link = self.container.create_sender(self.connection, QUEUE)

    def idle(self) -> bool:
        return not self.in_flight

    def on_sendable(self, event) -> None:
        self.pump()

    def pump(self) -> None:
        if not self.link.state & Endpoint.LOCAL_ACTIVE or self.client.stopping.is_set():
            return
        while self.link.credit > 0 and len(self.in_flight) < WINDOW:
            number = next(self.client.numbers)
            delivery = self.link.send(Message(body=number, durable=True))
            self.in_flight[delivery.tag] = number

    def on_accepted(self, event) -> None:
        self.ledger.note(self.ledger.accepted, self.in_flight.pop(event.delivery.tag))
        event.delivery.settle()
        self.pump()

    def on_rejected(self, event) -> None:
        raise AssertionError(f"a send was rejected: {event.delivery.remote.condition}")

    def on_released(self, event) -> None:
        raise AssertionError("a send was released")


class SecondMode(LinkOption):
    """Peek-lock with an answer to every settlement (rcv-settle-mode second)."""

    def apply(self, link: Link) -> None:
        link.snd_settle_mode = Link.SND_UNSETTLED
        link.rcv_settle_mode = Link.RCV_SECOND


class Receiver(Client):
    """Completes what it receives, and abandons some of it first."""

    def life(self) -> Life:
        return ReceiverLife(self)


class ReceiverLife(Life):
    def __init__(self, client: Receiver):
        super().__init__(client)
        self.unsettled = 0

    def attach(self) -> None:
        self.link = self.container.create_receiver(self.connection, QUEUE, options=SecondMode())
        self.link.flow(WINDOW)

    def idle(self) -> bool:
        return True  # whoever stops a receiver has seen that nothing is left

    def on_message(self, event) -> None:
        number = event.message.body
        self.ledger.delivered(event.message)
        event.delivery.number = number
        if number % ABANDON_EVERY == 0 and number not in self.ledger.abandoned:
            event.delivery.local.failed = True
            event.delivery.update(Delivery.MODIFIED)
        else:
            self.ledger.note(self.ledger.attempted, number)
            event.delivery.update(Delivery.ACCEPTED)
        event.receiver.flow(1)

    def on_settled(self, event) -> None:
        """The broker's answer to a settlement."""
        delivery = event.delivery
        if delivery.remote_state == Delivery.ACCEPTED:
            self.ledger.note(self.ledger.completed, delivery.number)
        elif delivery.remote_state == Delivery.MODIFIED:
            self.ledger.note(self.ledger.abandoned, delivery.number)
        else:
            raise AssertionError(f"a settlement was answered with {delivery.remote_state}")
        delivery.settle()
