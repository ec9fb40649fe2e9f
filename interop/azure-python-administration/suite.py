"""The administration client of `azure-servicebus` for Python against the broker's management API."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import inspect
import pathlib
import sys

INTEROP = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(INTEROP / "lib"), str(INTEROP / "azure-python")]

from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import MessagingEntityDisabledError
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncClient
from azure.servicebus.exceptions import ServiceBusError
from azure.servicebus.management import (
    AuthorizationRule,
    CorrelationRuleFilter,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from broker import Broker
from cases import Context, Suite
from documented import played, program
from facade import client as bus_client

MINUTE = datetime.timedelta(minutes=1)

suite = Suite("azure-python-administration", transports=("tls",))

def case(name: str):
    """Declares one case for the synchronous and one for the asynchronous client."""

    def declare(body):
        for style in ("sync", "async"):
            def run(context: Context, style=style):
                asyncio.run(body(context, style))

            suite.case(f"{style}/{name}")(run)
        return body

    return declare

class Admin:
    """Either client behind one set of awaitable calls."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        method = getattr(self._inner, name)

        async def call(*args, **kwargs):
            result = method(*args, **kwargs)
            if hasattr(result, "__aiter__"):
                return [item async for item in result]
            if inspect.isawaitable(result):
                return await result
            if name.startswith("list_"):
                return list(result)
            return result

        return call

@contextlib.asynccontextmanager
async def admin(context: Context, style: str, **options):
    connection = context.broker.connection_string(tls=True, **options)
    made = (ServiceBusAdministrationClient if style == "sync" else AsyncClient).from_connection_string(
        connection, connection_verify=context.ca
    )
    if style == "sync":
        with made:
            yield Admin(made)
    else:
        async with made:
            yield Admin(made)

@contextlib.contextmanager
def raises(kind, text=""):
    try:
        yield
    except kind as error:
        assert text in str(error), str(error)
        return
    raise AssertionError(f"no {kind.__name__}")

def authorization(name: str, key: str, *rights: str) -> AuthorizationRule:
    return AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=list(rights),
        key_name=name,
        primary_key=key,
        secondary_key="Z" * 43 + "=",
    )

@suite.case("documented-administration")
def documented_administration(context: Context):
    broker = context.broker
    text = program("docs/features/management-api.md", "create_subscription")
    begins = text[: text.index("client.create_topic")]
    place = {"localhost:5671": f"localhost:{broker.tls_port}", "certs/ca.pem": broker.ca}
    assert played(text, **place) == "0\n"
    # The program of the page on keys goes on from such a client.
    keys = program("docs/features/tokens.md", "AuthorizationRule(")
    given = "from azure.servicebus.management import AuthorizationRule\nadmin = client\n"
    given += "key_1, key_2 = (letter * 43 + '=' for letter in 'AB')\n"
    asked = "\nprint([rule.key_name for rule in admin.get_queue('orders').authorization_rules])"
    assert played(begins + given + keys + asked, **place) == "['till']\n"

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
        assert all(rule.created_at_utc and rule.modified_at_utc for rule in read)
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

async def refuses_unknown(client, kind, *names):
    """Reading, updating and deleting what is not there."""
    for call in (getattr(client, f"get_{kind}"), getattr(client, f"delete_{kind}")):
        with raises(ResourceNotFoundError):
            await call(*names)

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

@case("listing-of-every-kind")
async def listing_of_every_kind(context, style):
    # Beside the 250 of the queues: more than a page of topics, of subscriptions and of rules.
    broker = Broker({}).start()
    count = 105
    try:
        async with admin(dataclasses.replace(context, broker=broker), style) as client:
            names = [f"each-{number:03}" for number in range(count)]
            for name in names:
                await client.create_topic(name)
                await client.create_subscription(names[0], name)
                await client.create_rule(names[0], names[0], name, filter=SqlRuleFilter(f"a = '{name}'"))
            for listed in (await client.list_topics(), await client.list_topics_runtime_properties()):
                assert [topic.name for topic in listed] == names, len(listed)
            for listed in (
                await client.list_subscriptions(names[0]),
                await client.list_subscriptions_runtime_properties(names[0]),
            ):
                assert [subscription.name for subscription in listed] == names, len(listed)
            rules = await client.list_rules(names[0], names[0])
            assert [rule.name for rule in rules] == ["$Default", *names], len(rules)
            assert await client.list_queues() == []
    finally:
        broker.close()

@case("listing-in-pages")
async def listing_in_pages(context, style):
    # Pages are counted off, so that what others create and delete meanwhile would move their beginnings.
    broker = Broker({}).start()
    try:
        async with admin(dataclasses.replace(context, broker=broker), style) as client:
            names = [f"page-{number:03}" for number in range(255)]
            for name in names:
                await client.create_queue(name)
            for list_queues in (client.list_queues, client.list_queues_runtime_properties):
                listed = [queue.name for queue in await list_queues()]
                assert listed == names, f"{len(listed)} of {len(names)} queues are listed"
            for name in names:
                await client.delete_queue(name)
            assert await client.list_queues() == []
    finally:
        broker.close()

@case("topics-subscriptions-and-rules")
async def topics_subscriptions_and_rules(context, style):
    async with admin(context, style) as client:
        topic = f"{context.queue}-t"
        made = await client.create_topic(topic, default_message_time_to_live=MINUTE, user_metadata="m")
        assert made.default_message_time_to_live == MINUTE and made.user_metadata == "m"
        for name in ("a", "b"):
            subscription = await client.create_subscription(topic, name, max_delivery_count=4)
            assert (subscription.name, subscription.max_delivery_count) == (name, 4)
        assert [s.name for s in await client.list_subscriptions(topic)] == ["a", "b"]
        assert [rule.name for rule in await client.list_rules(topic, "a")] == ["$Default"]
        filters = {
            "all": TrueRuleFilter(),
            "none": FalseRuleFilter(),
            "sql": SqlRuleFilter("amount > @p AND sys.Label LIKE 'r%'", parameters={"@p": 5}),
            "same": CorrelationRuleFilter(label="red", properties={"region": "eu", "number": 7, "on": True}),
        }
        for name, filter in filters.items():
            made = await client.create_rule(topic, "a", name, filter=filter, action=SqlRuleAction("SET x = 1"))
            assert made.name == name
            read = await client.get_rule(topic, "a", name)
            assert type(read.filter) is type(filter), read.filter
            assert read.action.sql_expression == "SET x = 1"
        read = await client.get_rule(topic, "a", "sql")
        assert read.filter.sql_expression == "amount > @p AND sys.Label LIKE 'r%'"
        assert read.filter.parameters == {"@p": 5}
        read = await client.get_rule(topic, "a", "same")
        assert read.filter.label == "red"
        assert read.filter.properties == {"region": "eu", "number": 7, "on": True}
        read.filter = SqlRuleFilter("amount < 0")
        await client.update_rule(topic, "a", read)
        assert (await client.get_rule(topic, "a", "same")).filter.sql_expression == "amount < 0"
        with raises(ResourceExistsError):
            await client.create_rule(topic, "a", "all", filter=TrueRuleFilter())
        with raises(HttpResponseError, "cannot be read"):
            await client.create_rule(topic, "a", "bad", filter=SqlRuleFilter("amount >"))
        await client.delete_rule(topic, "a", "all")
        with raises(ResourceNotFoundError):
            await client.get_rule(topic, "a", "all")
        assert (await client.get_topic_runtime_properties(topic)).subscription_count == 2
        await client.delete_subscription(topic, "b")
        with raises(ResourceNotFoundError):
            await client.get_subscription(topic, "b")
        await client.delete_topic(topic)
        with raises(ResourceNotFoundError):
            await client.get_subscription(topic, "a")

@case("what-was-made-takes-and-gives-messages")
async def what_was_made_takes_and_gives_messages(context, style):
    async with admin(context, style) as client:
        topic = f"{context.queue}-live"
        await client.create_topic(topic)
        await client.create_subscription(topic, "s")
        async with bus_client(context, style) as bus:
            async with bus.get_topic_sender(topic) as sender:
                later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
                await sender.send_messages([ServiceBusMessage("one"), ServiceBusMessage("two")])
                await sender.schedule_messages(ServiceBusMessage("later"), later)
            async with bus.get_subscription_receiver(topic, "s") as receiver:
                message = (await receiver.receive_messages(1, max_wait_time=10))[0]
                assert b"".join(message.body) == b"one"
                await receiver.dead_letter_message(message, reason="r")
        counts = await client.get_subscription_runtime_properties(topic, "s")
        assert (counts.active_message_count, counts.dead_letter_message_count) == (1, 1)
        assert counts.total_message_count == 2
        assert (await client.get_topic_runtime_properties(topic)).scheduled_message_count == 1
        await client.delete_topic(topic)

@case("forwarding-targets")
async def forwarding_targets(context, style):
    async with admin(context, style) as client:
        target, source = f"{context.queue}-target", f"{context.queue}-source"
        with raises(HttpResponseError):
            await client.create_queue(source, forward_to=target)
        await client.create_queue(target)
        made = await client.create_queue(source, forward_to=target, forward_dead_lettered_messages_to=target)
        assert made.forward_to.endswith(f"/{target}"), made.forward_to
        assert made.forward_dead_lettered_messages_to.endswith(f"/{target}")
        made.forward_to = None
        await client.update_queue(made)
        assert (await client.get_queue(source)).forward_to is None
        await client.delete_queue(source)
        await client.delete_queue(target)

@case("namespace-and-wrong-key")
async def namespace_and_wrong_key(context, style):
    async with admin(context, style) as client:
        namespace = await client.get_namespace_properties()
        assert (namespace.name, namespace.messaging_sku) == ("localhost", "Standard")
    async with admin(context, style, key="wrong") as client:
        with raises(ClientAuthenticationError):
            await client.get_namespace_properties()
        with raises(ClientAuthenticationError):
            await client.create_queue(f"{context.queue}-wrong")

@case("survives-a-crash")
async def survives_a_crash(context, style):
    from broker import Broker

    broker = Broker({context.queue: {}}, durability="fsync").start()
    try:
        there = Context(broker, context.transport, context.queue)
        async with admin(there, style) as client:
            await client.create_topic("t")
            await client.create_subscription("t", "s")
            await client.create_rule("t", "s", "r", filter=SqlRuleFilter("a = 1"))
            await client.create_queue("changed")
            await client.update_queue(await client.get_queue("changed"), max_delivery_count=3, user_metadata="new")
            await client.create_queue("deleted")
            await client.delete_queue("deleted")
            broker.restart(kill=True)
            assert [rule.name for rule in await client.list_rules("t", "s")] == ["$Default", "r"]
            changed = await client.get_queue("changed")
            assert (changed.max_delivery_count, changed.user_metadata) == (3, "new")
            assert {queue.name for queue in await client.list_queues()} == {"changed", context.queue}
    finally:
        broker.close()

@case("idle-deletion")
async def idle_deletion(context, style):
    broker = Broker({}).start()
    try:
        there = Context(broker, context.transport, context.queue)
        async with admin(there, style) as client, bus_client(there, style) as bus:
            idle = {"auto_delete_on_idle": 5 * MINUTE}
            for queue in ("idle", "used", "worked"):
                await client.create_queue(queue, lock_duration=5 * MINUTE, **idle)
            await client.create_topic("t", **idle)
            await client.create_topic("kept")
            await client.create_subscription("kept", "s", **idle)

            async def left():
                names = {queue.name for queue in await client.list_queues()}
                names |= {topic.name for topic in await client.list_topics()}
                return names | {f"kept/{own.name}" for own in await client.list_subscriptions("kept")}

            async def send(queue):
                async with bus.get_queue_sender(queue) as sender:
                    await sender.send_messages(ServiceBusMessage("work"))

            everything = {"idle", "used", "worked", "t", "kept", "kept/s"}
            await send("worked")
            async with bus.get_queue_receiver("worked") as receiver:
                [message] = await receiver.receive_messages(1, max_wait_time=30)
                broker.advance_clock(200)
                await receiver.renew_message_lock(message)
            # Nobody settles it: the lock runs out 500 seconds from the start.
            await send("used")
            assert await left() == everything
            broker.advance_clock(60)
            assert await left() == everything, "260 seconds: nothing was idle for five minutes"
            broker.advance_clock(60)
            assert await left() == {"used", "worked", "kept"}, "320 seconds"
            broker.advance_clock(120)
            assert await left() == {"used", "worked", "kept"}, "440 seconds: it was sent to at 200"
            broker.advance_clock(80)
            assert await left() == {"worked", "kept"}, "520 seconds"
            broker.advance_clock(220)
            assert await left() == {"worked", "kept"}, "740 seconds: its lock ran out at 500"
            broker.advance_clock(120)
            assert await left() == {"kept"}, "860 seconds"
    finally:
        broker.close()

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

if __name__ == "__main__":
    suite.run()
