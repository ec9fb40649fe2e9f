"""Links that are refused, come back, and meet a broker that was restarted."""

from __future__ import annotations

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessagingEntityNotFoundError

from broker import Broker
from cases import Context
from declared import case
from facade import client
from steps import assert_empty, one, text, use


@case("missing-queue")
async def missing_queue(context, style):
    async with client(context, style, retry_total=0) as bus:
        for link in (bus.get_queue_sender("no-such-queue"), bus.get_queue_receiver("no-such-queue")):
            try:
                async with link:
                    await use(link)
                raise AssertionError("a link to a missing queue could be used")
            except MessagingEntityNotFoundError:
                pass


@case("link-close-and-reopen")
async def link_close_and_reopen(context, style):
    async with client(context, style) as bus:
        for number in range(3):
            async with bus.get_queue_sender(context.queue) as sender:
                await sender.send_messages(ServiceBusMessage(f"round {number}"))
            async with bus.get_queue_receiver(context.queue) as receiver:
                message = await one(receiver)
                assert text(message) == f"round {number}"
                await receiver.complete_message(message)


@case("broker-restart")
async def broker_restart(context, style):
    broker = Broker({context.queue: {}}, durability="fsync").start()
    try:
        there = Context(broker, context.transport, context.queue)
        async with client(there, style, retry_total=5) as bus:
            async with bus.get_queue_sender(context.queue) as sender:
                await sender.send_messages(ServiceBusMessage("before the crash"))
                async with bus.get_queue_receiver(context.queue) as receiver:
                    await one(receiver)  # locked when the broker dies
                broker.restart(kill=True)
                await sender.send_messages(ServiceBusMessage("after the crash"))
                broker.restart()
                async with bus.get_queue_receiver(context.queue) as receiver:
                    for expected in ("before the crash", "after the crash"):
                        message = await one(receiver)
                        assert text(message) == expected
                        await receiver.complete_message(message)
                    await assert_empty(receiver)
    finally:
        broker.close()
