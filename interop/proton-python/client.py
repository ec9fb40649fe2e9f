"""Connections of Qpid Proton to the broker, and what the cases do with them."""

from __future__ import annotations

import time
from typing import Any

from proton import UNDESCRIBED, Array, Condition, ConnectionException, Data, Delivery, Message, SSLDomain
from proton import Timeout, int32, symbol
from proton.handlers import TransactionHandler
from proton.reactor import LinkOption
from proton.utils import BlockingConnection, BlockingReceiver, BlockingSender

from cases import Context

WAIT = 30  # seconds that a message which must come may take
SILENCE = 1  # seconds after which a queue counts as empty
TRANSACTIONAL_STATE = 0x34  # its descriptor; the library has no name for it


def connect(context: Context, host: str = "localhost", **options: Any) -> BlockingConnection:
    """A connection over the case's transport, anonymous unless told otherwise."""
    if context.tls:
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(context.ca)
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
        options |= {"ssl_domain": domain}
    scheme = "amqps" if context.tls else "amqp"
    options.setdefault("allowed_mechs", "ANONYMOUS")
    # Proton reconnects by itself unless told not to: a refused log-in would be tried for ever.
    return BlockingConnection(
        f"{scheme}://{host}:{context.port}", timeout=WAIT, reconnect=False, **options
    )


def settle(receiver: BlockingReceiver, outcome: int, **fields: Any) -> None:
    """Settles the oldest unsettled delivery with an outcome and its fields."""
    delivery = receiver.fetcher.unsettled.popleft()
    for name, value in fields.items():
        setattr(delivery.local, name, value)
    delivery.update(outcome)
    delivery.settle()
    flush(receiver)


def flush(link: BlockingReceiver | BlockingSender) -> None:
    """Waits until everything has been written to the socket."""
    transport = link.connection.conn.transport
    link.connection.wait(lambda: transport.pending() == 0, msg="flushing")


def dead_letter(receiver: BlockingReceiver, reason: str, description: str) -> None:
    info = {symbol("DeadLetterReason"): reason, symbol("DeadLetterErrorDescription"): description}
    condition = Condition("com.microsoft:dead-letter", description, info)
    settle(receiver, Delivery.REJECTED, condition=condition)


def assert_empty(receiver: BlockingReceiver) -> None:
    try:
        message = receiver.receive(SILENCE)
    except Timeout:
        return
    raise AssertionError(f"unexpected message {message}")


def idle(connection: BlockingConnection, seconds: float) -> None:
    """Lets the connection run without using it."""
    end = time.monotonic() + seconds
    connection.container.timeout = 0.1
    while time.monotonic() < end:
        connection.container.process()


class Management:
    """Requests to a queue's `$management` node."""

    def __init__(self, connection: BlockingConnection, queue: str):
        node = f"{queue}/$management"
        self._reply_to = f"{queue}-replies"
        self._receiver = connection.create_receiver(
            node, name=self._reply_to, credit=10, options=ReplyTarget(self._reply_to)
        )
        self._sender = connection.create_sender(node, name=f"{queue}-requests")
        self._ids = iter(range(1, 1_000))

    def request(self, operation: str, body: dict[str, Any]) -> tuple[int, Message]:
        """Returns the status code and the answer.

        The answer and not its body: Proton hands out binary values as views of memory
        that is the message's own.
        """
        message = Message(
            id=f"request-{next(self._ids)}",
            reply_to=self._reply_to,
            properties={"operation": f"com.microsoft:{operation}"},
            body=body,
        )
        self._sender.send(message)
        reply = self._receiver.receive(WAIT)
        self._receiver.accept()
        assert reply.correlation_id == message.id, (reply.correlation_id, message.id)
        return reply.properties["statusCode"], reply

    def renew_lock(self, token) -> tuple[int, Message]:
        tokens = Array(UNDESCRIBED, Data.UUID, token)
        return self.request("renew-lock", {"lock-tokens": tokens})

    def peek(self, start: int, count: int) -> list[Message]:
        body = {"from-sequence-number": start, "message-count": int32(count)}
        status, answer = self.request("peek-message", body)
        if status == 204:
            return []
        assert status == 200, status
        peeked = []
        for item in answer.body["messages"]:
            message = Message()
            message.decode(bytes(item["message"]))
            peeked.append(message)
        return peeked


class ReplyTarget(LinkOption):
    """Names the target of the link that receives the answers."""

    def __init__(self, address: str):
        self._address = address

    def apply(self, link) -> None:
        link.target.address = self._address


class ServiceBusLink(LinkOption):
    """Says, as a Service Bus SDK would, that this link speaks Service Bus.

    Such a link is given lock tokens, its `modified` is read as abandon or defer, and
    its locks outlive it.
    """

    def apply(self, link) -> None:
        link.properties = {symbol("com.microsoft:receiver-name"): "proton"}


class Work(TransactionHandler):
    """One transaction of a connection, step by step."""

    def __init__(self, connection: BlockingConnection, settle_before_discharge: bool = True):
        super().__init__()
        self.outcome: str | None = None
        self._connection = connection
        self._transaction = connection.container.declare_transaction(
            connection.conn, handler=self, settle_before_discharge=settle_before_discharge
        )
        connection.wait(lambda: self.outcome, timeout=WAIT, msg="the transaction to be declared")
        assert self.outcome == "declared", self.outcome

    def on_transaction_declared(self, event) -> None:
        self.outcome = "declared"

    def on_transaction_declare_failed(self, event) -> None:
        self.outcome = "not declared"

    def on_transaction_committed(self, event) -> None:
        self.outcome = "committed"

    def on_transaction_aborted(self, event) -> None:
        self.outcome = "aborted"

    def on_transaction_commit_failed(self, event) -> None:
        self.outcome = f"refused: {event.delivery.remote.condition.name}"

    def send(self, sender: BlockingSender, message: Message) -> Any:
        """Sends a message in the transaction, and returns the answer's state and data."""
        delivery = self._transaction.send(sender.link, message)
        self._connection.wait(
            lambda: delivery.settled or delivery.remote_state, timeout=WAIT, msg="an answer"
        )
        answer = (delivery.remote_state, delivery.remote.data)
        delivery.settle()
        return answer

    def accept(self, receiver: BlockingReceiver) -> Any:
        """Accepts the oldest unsettled delivery in the transaction, and returns it."""
        delivery = receiver.fetcher.unsettled.popleft()
        self._transaction.accept(delivery)
        flush(receiver)
        return delivery

    def update(self, delivery: Any) -> None:
        """Accepts a delivery in the transaction, without settling it and without leaving it to the library."""
        self._transaction.update(delivery, Delivery.ACCEPTED)

    def answered(self, delivery: Any) -> int:
        """Waits for the answer to an outcome, and returns its state."""
        self._connection.wait(lambda: delivery.remote_state, timeout=WAIT, msg="an answer")
        return delivery.remote_state

    def has_answered(self, delivery: Any) -> bool:
        """Whether the last answer to the delivery's outcomes is one of this transaction."""
        data = delivery.remote.data
        return delivery.remote_state == TRANSACTIONAL_STATE and bytes(data[0]) == bytes(self._transaction.id)

    def commit(self) -> str:
        self._transaction.commit()
        return self._end("declared")

    def abort(self) -> str:
        self._transaction.abort()
        return self._end("declared")

    def _end(self, before: str) -> str:
        self._connection.wait(lambda: self.outcome != before, timeout=WAIT, msg="the end")
        return self.outcome


def received(receiver: BlockingReceiver, count: int) -> list[Message]:
    """Receives and accepts `count` messages."""
    messages = []
    for _ in range(count):
        messages.append(receiver.receive(WAIT))
        receiver.accept()
    flush(receiver)
    return messages


def annotation(message: Message, name: str) -> Any:
    return message.annotations[symbol(name)]


def lock_token(message: Message) -> Any:
    return message.instructions[symbol("x-opt-lock-token")]


def send(connection, queue, *bodies):
    sender = connection.create_sender(queue)
    for body in bodies:
        sender.send(Message(body=body))
    sender.close()


def lose_connection(connection):
    """Takes the socket away, without detach or close."""
    transport = connection.conn.transport
    transport.close_tail()
    transport.close_head()
    try:
        connection.wait(lambda: False, msg="the socket to go", timeout=WAIT)
    except ConnectionException:
        pass
