"""Every property of queues, topics and subscriptions is kept, told and changed."""

from __future__ import annotations

import datetime

from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessagingEntityDisabledError, ServiceBusError
from azure.servicebus.management import AuthorizationRule

from admin import MINUTE, admin, authorization, case, raises, refuses_unknown
from facade import client as bus_client


@case("entity-keys")
async def entity_keys(context, style):
    async with admin(context, style) as client:
        name = f"{context.queue}-keys"
        first, second, third = (letter * 43 + "=" for letter in "ABC")
        rules = [
            authorization("till", first, "Send"),
            authorization("cook", second, "Listen"),
            authorization("chef", third, "Manage", "Send", "Listen"),
        ]
        await client.create_queue(name, authorization_rules=rules)
        other = f"{name}-other"
        await client.create_queue(other)
        read = (await client.get_queue(name)).authorization_rules
        assert [(rule.key_name, list(rule.rights), rule.primary_key) for rule in read] == [
            (rule.key_name, rule.rights, rule.primary_key) for rule in rules
        ]
        assert not any(rule.created_at_utc or rule.modified_at_utc for rule in read), "no times were given"
        for entity in ("", name):
            async with bus_client(context, style, key_name="till", key=first, entity=entity) as bus:
                async with bus.get_queue_sender(name) as sender:
                    await sender.send_messages(ServiceBusMessage("soup"))
                with raises(ServiceBusError):
                    async with bus.get_queue_receiver(name, max_wait_time=5) as receiver:
                        await receiver.receive_messages(1, max_wait_time=5)
            async with bus_client(context, style, key_name="cook", key=second, entity=entity) as bus:
                async with bus.get_queue_receiver(name) as receiver:
                    message = (await receiver.receive_messages(1, max_wait_time=10))[0]
                    assert b"".join(message.body) == b"soup"
                    await receiver.complete_message(message)
                with raises(ServiceBusError):
                    async with bus.get_queue_sender(name) as sender:
                        await sender.send_messages(ServiceBusMessage("soup"))
        async with bus_client(context, style, key_name="till", key=first, retry_total=0) as bus:
            with raises(ServiceBusError):
                async with bus.get_queue_sender(other) as sender:
                    await sender.send_messages(ServiceBusMessage("soup"))
        # A key that may manage its entity manages that one alone.
        async with admin(context, style, key_name="chef", key=third) as chef:
            assert (await chef.get_queue(name)).name == name
            with raises(ClientAuthenticationError):
                await chef.get_queue(other)
            with raises(ClientAuthenticationError):
                await chef.list_queues()
        async with admin(context, style, key_name="till", key=first) as till:
            with raises(HttpResponseError, "40301"):
                await till.get_queue(name)
        await client.delete_queue(name)
        await client.delete_queue(other)


@case("queue-with-every-property")
async def queue_with_every_property(context, style):
    async with admin(context, style) as client:
        name = f"{context.queue}-all"
        rule = AuthorizationRule(
            type="SharedAccessAuthorizationRule",
            claim_type="SharedAccessKey",
            claim_value="None",
            rights=["Send", "Listen"],
            key_name="k",
            primary_key="A" * 43 + "=",
            secondary_key="B" * 43 + "=",
        )
        made = await client.create_queue(
            name,
            lock_duration=30 * datetime.timedelta(seconds=1),
            max_size_in_megabytes=2048,
            requires_duplicate_detection=True,
            requires_session=True,
            default_message_time_to_live=datetime.timedelta(days=1, minutes=1),
            dead_lettering_on_message_expiration=True,
            duplicate_detection_history_time_window=5 * MINUTE,
            max_delivery_count=7,
            enable_batched_operations=False,
            auto_delete_on_idle=10 * MINUTE,
            user_metadata="äpfel & <birnen>",
            authorization_rules=[rule],
        )
        read = await client.get_queue(name)
        for queue in (made, read):
            assert queue.name == name
            assert queue.lock_duration == datetime.timedelta(seconds=30)
            assert queue.max_size_in_megabytes == 2048
            assert queue.requires_duplicate_detection and queue.requires_session
            assert queue.default_message_time_to_live == datetime.timedelta(days=1, minutes=1)
            assert queue.dead_lettering_on_message_expiration
            assert queue.duplicate_detection_history_time_window == 5 * MINUTE
            assert queue.max_delivery_count == 7
            assert queue.enable_batched_operations is False
            assert queue.auto_delete_on_idle == 10 * MINUTE
            assert queue.user_metadata == "äpfel & <birnen>"
            assert queue.status == "Active" and queue.availability_status == "Available"
            assert [rule.key_name for rule in queue.authorization_rules] == ["k"]
        with raises(ResourceExistsError):
            await client.create_queue(name.upper())
        await client.delete_queue(name)
        with raises(ResourceNotFoundError):
            await client.get_queue(name)
        with raises(ResourceNotFoundError):
            await client.delete_queue(name)


@case("queue-update")
async def queue_update(context, style):
    async with admin(context, style) as client:
        name = f"{context.queue}-up"
        queue = await client.create_queue(name)
        assert queue.max_delivery_count == 10 and queue.lock_duration == MINUTE
        assert queue.max_size_in_megabytes == 1024
        queue.max_delivery_count = 3
        queue.lock_duration = 2 * MINUTE
        await client.update_queue(queue)
        await client.update_queue(queue, default_message_time_to_live=MINUTE)
        read = await client.get_queue(name)
        assert (read.max_delivery_count, read.lock_duration) == (3, 2 * MINUTE)
        assert read.default_message_time_to_live == MINUTE
        read.requires_session = True
        with raises(HttpResponseError, "RequiresSession"):
            await client.update_queue(read)
        with raises(HttpResponseError, "LockDuration"):
            await client.update_queue(queue, lock_duration=6 * MINUTE)
        queue.name = f"{name}-none"
        with raises(ResourceNotFoundError):
            await client.update_queue(queue)
        await client.delete_queue(name)


@case("topic-with-every-property")
async def topic_with_every_property(context, style):
    async with admin(context, style) as client:
        name = f"{context.queue}-all"
        made = await client.create_topic(
            name,
            default_message_time_to_live=datetime.timedelta(days=2),
            max_size_in_megabytes=3072,
            requires_duplicate_detection=True,
            duplicate_detection_history_time_window=MINUTE,
            enable_batched_operations=False,
            support_ordering=True,
            auto_delete_on_idle=7 * MINUTE,
            user_metadata="<t>",
            max_message_size_in_kilobytes=512,
        )
        for topic in (made, await client.get_topic(name)):
            assert topic.name == name and topic.status == "Active"
            assert topic.default_message_time_to_live == datetime.timedelta(days=2)
            assert topic.max_size_in_megabytes == 3072
            assert topic.requires_duplicate_detection
            assert topic.duplicate_detection_history_time_window == MINUTE
            assert topic.enable_batched_operations is False and topic.support_ordering is True
            assert topic.auto_delete_on_idle == 7 * MINUTE
            assert topic.user_metadata == "<t>"
            assert topic.max_message_size_in_kilobytes == 512
            assert not topic.enable_partitioning
        made.status = "SendDisabled"
        made.default_message_time_to_live = 3 * MINUTE
        await client.update_topic(made)
        await client.update_topic(made, user_metadata="changed")
        read = await client.get_topic(name)
        assert (read.status, read.default_message_time_to_live) == ("SendDisabled", 3 * MINUTE)
        assert read.user_metadata == "changed" and read.max_size_in_megabytes == 3072
        read.requires_duplicate_detection = False
        with raises(HttpResponseError, "RequiresDuplicateDetection"):
            await client.update_topic(read)
        async with bus_client(context, style, retry_total=0) as bus:
            with raises(MessagingEntityDisabledError):
                async with bus.get_topic_sender(name) as sender:
                    await sender.send_messages(ServiceBusMessage("refused"))
        await client.delete_topic(name)
        await refuses_unknown(client, "topic", name)
        read.name = f"{name}-none"
        with raises(ResourceNotFoundError):
            await client.update_topic(read)


@case("subscription-with-every-property")
async def subscription_with_every_property(context, style):
    async with admin(context, style) as client:
        topic, target = f"{context.queue}-t", f"{context.queue}-target"
        await client.create_topic(topic)
        await client.create_queue(target)
        made = await client.create_subscription(
            topic,
            "s",
            lock_duration=2 * MINUTE,
            default_message_time_to_live=datetime.timedelta(hours=5),
            dead_lettering_on_message_expiration=True,
            dead_lettering_on_filter_evaluation_exceptions=False,
            max_delivery_count=9,
            enable_batched_operations=False,
            forward_dead_lettered_messages_to=target,
            user_metadata="s",
            auto_delete_on_idle=6 * MINUTE,
        )
        for subscription in (made, await client.get_subscription(topic, "s")):
            assert subscription.name == "s" and subscription.status == "Active"
            assert subscription.lock_duration == 2 * MINUTE and not subscription.requires_session
            assert subscription.default_message_time_to_live == datetime.timedelta(hours=5)
            assert subscription.dead_lettering_on_message_expiration
            assert subscription.dead_lettering_on_filter_evaluation_exceptions is False
            assert subscription.max_delivery_count == 9
            assert subscription.enable_batched_operations is False
            assert subscription.forward_to is None
            assert subscription.forward_dead_lettered_messages_to.endswith(f"/{target}")
            assert subscription.user_metadata == "s"
            assert subscription.auto_delete_on_idle == 6 * MINUTE
        made.max_delivery_count = 2
        made.forward_dead_lettered_messages_to = None
        await client.update_subscription(topic, made)
        await client.update_subscription(topic, made, status="ReceiveDisabled")
        read = await client.get_subscription(topic, "s")
        assert (read.max_delivery_count, read.status) == (2, "ReceiveDisabled")
        assert read.forward_dead_lettered_messages_to is None and read.lock_duration == 2 * MINUTE
        read.requires_session = True
        with raises(HttpResponseError, "RequiresSession"):
            await client.update_subscription(topic, read)
        await client.delete_subscription(topic, "s")
        await refuses_unknown(client, "subscription", topic, "s")
        await refuses_unknown(client, "rule", topic, "s", "$Default")
        await client.delete_topic(topic)
        await client.delete_queue(target)
