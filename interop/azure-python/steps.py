"""What the cases do over and over."""

from __future__ import annotations

import asyncio
import contextlib
import datetime

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessageNotFoundError

from broker import Broker
from cases import Context
from facade import client

WAIT = 30  # seconds that a message which must come may take
SILENCE = 1  # seconds after which a queue counts as empty
SESSIONS = {"requires_session": True}


def text(message) -> str:
    return b"".join(message.body).decode()


def plain(value):
    """The SDK hands out strings of a received message as bytes."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


async def send(context, style, *bodies):
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            for body in bodies:
                await sender.send_messages(ServiceBusMessage(body))


async def take(context, style, count, **options):
    """Receives `count` messages and completes them."""
    taken = []
    async with client(context, style) as bus:
        async with bus.get_queue_receiver(context.queue, **options) as receiver:
            while len(taken) < count:
                more = await receiver.receive_messages(count - len(taken), max_wait_time=WAIT)
                assert more, f"{len(taken)} of {count} messages came"
                for message in more:
                    await receiver.complete_message(message)
                taken += more
    return taken


async def send_to_sessions(bus, queue, *bodies):
    """Sends messages in one batch; `a1` is of session `a`."""
    async with bus.get_queue_sender(queue) as sender:
        await sender.send_messages([ServiceBusMessage(body, session_id=body[0]) for body in bodies])


async def assert_empty(receiver):
    left = await receiver.receive_messages(1, max_wait_time=SILENCE)
    assert left == [], f"unexpected message {left[0]}"


async def one(receiver):
    messages = await receiver.receive_messages(1, max_wait_time=WAIT)
    assert len(messages) == 1, "no message came"
    return messages[0]


async def use(link):
    """One operation on a link: a refusal may reach the client after its attach."""
    if hasattr(link, "send_messages"):
        await link.send_messages(ServiceBusMessage("refuse me"))
    else:
        await link.receive_messages(1, max_wait_time=WAIT)


async def raises(kind, call, *arguments):
    try:
        await call(*arguments)
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


async def refused_number(call, number):
    """The SDK retries this refusal before it raises it."""
    try:
        await call(number)
    except MessageNotFoundError:
        return
    raise AssertionError(f"no MessageNotFoundError for {number}")


async def wait_past(moment: datetime.datetime):
    """Waits out a lock that ends at `moment`."""
    now = datetime.datetime.now(datetime.timezone.utc)
    await asyncio.sleep(max(0.0, (moment - now).total_seconds()) + 0.3)


@contextlib.contextmanager
def own_broker(context, **settings):
    """A broker whose clock this case may move. Its lock tokens and schedules are nobody else's."""
    broker = Broker({context.queue: settings}).start()
    try:
        yield Context(broker, context.transport, context.queue)
    finally:
        broker.close()
