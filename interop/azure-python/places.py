"""Where messages end up: duplicates, forwarding, status."""

from __future__ import annotations

import datetime
import unittest

from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import MessagingEntityDisabledError, ServiceBusError

from broker import Broker
from cases import Context
from declared import case
from facade import client
from steps import assert_empty, one, text, use


@case("duplicate-detection", requires_duplicate_detection=True)
async def duplicate_detection(context, style):
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            await sender.send_messages(ServiceBusMessage("first", message_id="one"))
            await sender.send_messages(ServiceBusMessage("again", message_id="one"))
            batch = [("two", "a"), ("two", "b"), ("one", "c"), ("three", "d")]
            await sender.send_messages([ServiceBusMessage(body, message_id=key) for key, body in batch])
            await sender.schedule_messages(ServiceBusMessage("scheduled", message_id="three"), later)
        async with bus.get_queue_receiver(context.queue) as receiver:
            bodies = []
            while len(bodies) < 3:
                message = await one(receiver)
                bodies.append(text(message))
                await receiver.complete_message(message)
            assert bodies == ["first", "a", "d"], bodies
            await assert_empty(receiver)
            assert await receiver.peek_messages(10) == []
        async with bus.get_queue_sender(context.queue) as sender:
            await sender.send_messages(ServiceBusMessage("completed before", message_id="one"))
        async with bus.get_queue_receiver(context.queue) as receiver:
            await assert_empty(receiver)


@case("forwarding", forward_to="{queue}-target")
async def forwarding(context, style):
    target = f"{context.queue}-target"
    async with client(context, style) as bus:
        async with bus.get_queue_sender(target) as sender:
            await sender.send_messages(ServiceBusMessage("straight"))
        async with bus.get_queue_sender(context.queue) as sender:
            await sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
        async with bus.get_queue_receiver(target) as receiver:
            for number, (body, first) in enumerate([("straight", None), ("a", 1), ("b", 2)], start=1):
                message = await one(receiver)
                seen = (text(message), message.sequence_number, message.enqueued_sequence_number)
                assert seen == (body, number, first), seen
                await receiver.complete_message(message)
        try:
            async with bus.get_queue_receiver(context.queue) as receiver:
                await use(receiver)
        except ServiceBusError as error:
            assert "forwards its messages" in str(error), error
        else:
            raise AssertionError("a queue that forwards was received from")


@case("forwarding-of-dead-letters", forward_dead_lettered_to="{queue}-morgue")
async def forwarding_of_dead_letters(context, style):
    async with client(context, style) as bus:
        async with bus.get_queue_sender(context.queue) as sender:
            await sender.send_messages(ServiceBusMessage("bad"))
        async with bus.get_queue_receiver(context.queue) as receiver:
            await receiver.dead_letter_message(await one(receiver), reason="unreadable")
        async with bus.get_queue_receiver(f"{context.queue}-morgue") as receiver:
            message = await one(receiver)
            assert message.dead_letter_reason == "unreadable"
            assert message.dead_letter_source == context.queue, message.dead_letter_source
            await receiver.complete_message(message)


@case("transfer-dead-letters")
async def transfer_dead_letters(context, style):
    closed, source = f"{context.queue}-closed", context.queue
    queues = {source: {"forward_dead_lettered_to": closed}, closed: {"status": "send-disabled"}}
    broker = Broker(queues).start()
    try:
        async with client(Context(broker, context.transport, source), style) as bus:
            async with bus.get_queue_sender(source) as sender:
                await sender.send_messages(ServiceBusMessage("bad"))
            async with bus.get_queue_receiver(source) as receiver:
                await receiver.dead_letter_message(await one(receiver), reason="unreadable")
            async with bus.get_queue_receiver(source, sub_queue=ServiceBusSubQueue.TRANSFER_DEAD_LETTER) as receiver:
                message = await one(receiver)
                assert text(message) == "bad"
                assert message.dead_letter_reason and message.dead_letter_reason != "unreadable", message
                await receiver.complete_message(message)
                await assert_empty(receiver)
    finally:
        broker.close()


@case("status-from-configuration", status="send-disabled", user_metadata="closed for tonight")
async def status_from_configuration(context, style):
    async with client(context, style, retry_total=0) as bus:
        with unittest.TestCase().assertRaises(MessagingEntityDisabledError):
            async with bus.get_queue_sender(context.queue) as sender:
                await use(sender)
        async with bus.get_queue_receiver(context.queue) as receiver:
            await assert_empty(receiver)
