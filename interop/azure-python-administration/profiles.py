"""What a tier of the service refuses."""

from __future__ import annotations

import contextlib
import datetime

from azure.core.exceptions import HttpResponseError
from azure.servicebus import ServiceBusMessage

from admin import admin, case, raises
from broker import Broker
from cases import Context
from facade import client as bus_client


@contextlib.asynccontextmanager
async def tier(context, style, profile):
    """A broker of a tier, and a client for its entities."""
    # The emulator's ten connections are too few for a client that makes one for each request.
    limits = "[limits]\nmax_connections = 1000\n"
    broker = Broker({}, profile=profile, more_config=limits).start()
    try:
        there = Context(broker, context.transport, context.queue)
        async with admin(there, style) as client:
            yield there, client
    finally:
        broker.close()


async def refused(call, text):
    """The tier does not have it, and says so."""
    try:
        await call
    except HttpResponseError as error:
        assert error.status_code == 400 and text in str(error), error
        return
    raise AssertionError(f"not refused: {text}")


async def passes_through(context, style, queue, receive):
    """A message goes into one entity and comes out of another, or of the same."""
    async with bus_client(context, style) as bus:
        async with bus.get_queue_sender(queue) as sender:
            await sender.send_messages(ServiceBusMessage("m"))
        async with receive(bus) as receiver:
            [message] = await receiver.receive_messages(1, max_wait_time=30)
            assert b"".join(message.body) == b"m"
            await receiver.complete_message(message)


@case("profile-basic")
async def profile_basic(context, style):
    async with tier(context, style, "basic") as (there, client):
        queue = await client.create_queue("plain")
        assert queue.default_message_time_to_live == datetime.timedelta(days=14)
        await refused(client.create_topic("t"), "topics")
        week = datetime.timedelta(days=7)
        for wanted, text in (
            ({"requires_session": True}, "RequiresSession"),
            ({"requires_duplicate_detection": True}, "RequiresDuplicateDetection"),
            ({"auto_delete_on_idle": week}, "AutoDeleteOnIdle"),
            ({"forward_to": "plain"}, "ForwardTo"),
            ({"forward_dead_lettered_messages_to": "plain"}, "ForwardDeadLetteredMessagesTo"),
            ({"enable_partitioning": True}, "EnablePartitioning"),
            ({"default_message_time_to_live": 3 * week}, "DefaultMessageTimeToLive"),
        ):
            await refused(client.create_queue("wanted", **wanted), text)
        assert [found.name for found in await client.list_queues()] == ["plain"]
        await passes_through(there, style, "plain", lambda bus: bus.get_queue_receiver("plain"))


@case("profile-emulator")
async def profile_emulator(context, style):
    async with tier(context, style, "emulator") as (there, client):
        hour = datetime.timedelta(hours=1)
        queue = await client.create_queue("plain")
        assert queue.default_message_time_to_live == hour
        assert (queue.max_delivery_count, queue.max_size_in_megabytes) == (10, 100)
        for wanted, text in (
            ({"default_message_time_to_live": 2 * hour}, "DefaultMessageTimeToLive"),
            ({"max_delivery_count": 11}, "MaxDeliveryCount"),
        ):
            await refused(client.create_queue("wanted", **wanted), text)
        sessions = await client.create_queue("sessions", requires_session=True, max_size_in_megabytes=2048)
        assert sessions.max_size_in_megabytes == 100, "no more than there is"
        await client.create_topic("t")
        # 50 entities in all; three are there.
        for number in range(47):
            await client.create_subscription("t", f"s{number}")
        with raises(HttpResponseError):
            await client.create_subscription("t", "one-more")
        await passes_through(
            there, style, "t", lambda bus: bus.get_subscription_receiver("t", "s46")
        )
