"""What is made is used, survives, and goes."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime

from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.servicebus import ServiceBusMessage
from azure.servicebus.management import (
    CorrelationRuleFilter,
    FalseRuleFilter,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from admin import MINUTE, admin, case, raises, suite
from broker import Broker
from cases import Context
from documented import played, program
from facade import client as bus_client
from namespaces import QUEUE, three_namespaces


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


@case("namespace-administration")
async def namespaces(context, style):
    """The client of each namespace makes, sees and counts its own entities; a key of another opens none."""
    with three_namespaces() as teams:

        @contextlib.asynccontextmanager
        async def of(team, key=""):
            there = dataclasses.replace(context, broker=teams.broker)
            async with admin(there, style, host=team.host, key=key or team.key) as client:
                yield client

        for team in teams:
            async with of(team) as client:
                await client.create_queue(f"of-{team.name}")
        for team in teams:
            async with of(team) as client:
                names = [queue.name for queue in await client.list_queues()]
                assert names == [f"of-{team.name}", QUEUE], names
        async with of(teams.team_a, teams.team_b.key) as stranger:
            with raises(ClientAuthenticationError):
                await stranger.list_queues()
        teams.team_a.put(max_entities=2)
        async with of(teams.team_a) as client:
            with raises(HttpResponseError, "The limit of 2 entities is reached"):
                await client.create_queue("one-too-many")
            async with of(teams.team_b) as other:
                await other.create_queue("elsewhere")
            teams.team_a.put()
            await client.create_queue("one-too-many")
