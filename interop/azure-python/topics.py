"""Topics, subscriptions and rules through `azure-servicebus` for Python.

The rules come from the broker's configuration: this SDK manages them over HTTP
only, never over AMQP.
"""

from __future__ import annotations

import datetime

from azure.servicebus import ServiceBusMessage, ServiceBusMessageState, ServiceBusSubQueue
from azure.servicebus.exceptions import MessageNotFoundError, MessagingEntityNotFoundError, ServiceBusError

from broker import Broker
from cases import Context
from declared import case
from facade import client
from steps import text

WAIT = 30  # seconds that a message which must come may take
SILENCE = 1  # seconds after which a subscription counts as empty

RULES = {
    "all": {},
    "none": {"rule": [{"name": "never", "sql": "1 = 0"}]},
    "big": {"rule": [{"name": "amount", "sql": "amount > 100 AND sys.Label LIKE 'o%'"}]},
    "red": {"rule": [{"name": "colour", "correlation": {"label": "order", "properties": {"Colour": "red", "n": 5.0}}}]},
    "changed": {
        "rule": [
            {"name": "first", "sql": "amount > 100", "action": "SET Priority = 'high'; SET sys.To = 'Entity'; REMOVE colour"},
            {"name": "second", "sql": "amount > 1000", "action": "SET amount = amount + 1"},
            {"name": "plain", "sql": "amount > 100"},
            {"name": "plain-too", "sql": "colour = 'red'"},
        ]
    },
}


def properties(message) -> dict:
    """The SDK hands out strings as bytes."""
    decode = lambda value: value.decode() if isinstance(value, bytes) else value
    return {decode(key): decode(value) for key, value in (message.application_properties or {}).items()}


async def all_of(bus, topic, subscription, count, **options):
    """Receives and completes whatever is there. So many must come; for more it waits a second."""
    taken = []
    async with bus.get_subscription_receiver(topic, subscription, **options) as receiver:
        while more := await receiver.receive_messages(20, max_wait_time=WAIT if len(taken) < count else SILENCE):
            for message in more:
                await receiver.complete_message(message)
            taken += more
    return taken


async def publish(bus, topic, *messages):
    async with bus.get_topic_sender(topic) as sender:
        for message in messages:
            await sender.send_messages(message)


def order(body, **options):
    return ServiceBusMessage(body, subject="order", **options)


TWO = {"a": {}, "b": {}}


@case("topics/each-subscription-gets-its-copy", subscriptions=TWO)
async def copies(context, style):
    async with client(context, style) as bus:
        await publish(bus, context.queue, ServiceBusMessage("one", message_id="m1"))
        async with bus.get_topic_sender(context.queue) as sender:
            await sender.send_messages([ServiceBusMessage("two"), ServiceBusMessage("three")])
        for subscription in ("a", "b"):
            got = await all_of(bus, context.queue, subscription, 3)
            assert [text(message) for message in got] == ["one", "two", "three"]
            assert [message.sequence_number for message in got] == [1, 2, 3]
            assert [message.enqueued_sequence_number for message in got] == [1, 2, 3]
            assert got[0].message_id == "m1"


@case("topics/copies-are-settled-apart", subscriptions=TWO)
async def apart(context, style):
    async with client(context, style) as bus:
        await publish(bus, context.queue, *(ServiceBusMessage(f"m{n}") for n in range(4)))
        async with bus.get_subscription_receiver(context.queue, "a") as receiver:
            got = []
            while len(got) < 4:
                got += await receiver.receive_messages(4 - len(got), max_wait_time=WAIT)
            await receiver.complete_message(got[0])
            await receiver.dead_letter_message(got[1], reason="why", error_description="because")
            await receiver.defer_message(got[2])
            await receiver.abandon_message(got[3])
            deferred = await receiver.receive_deferred_messages(got[2].sequence_number)
            assert [text(message) for message in deferred] == ["m2"]
            await receiver.complete_message(deferred[0])
            again = await receiver.receive_messages(1, max_wait_time=WAIT)
            assert text(again[0]) == "m3" and again[0].delivery_count == 1
            await receiver.complete_message(again[0])
        dead = await all_of(bus, context.queue, "a", 1, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        assert [(text(message), message.dead_letter_reason) for message in dead] == [("m1", "why")]
        assert [text(message) for message in await all_of(bus, context.queue, "b", 4)] == ["m0", "m1", "m2", "m3"]


@case("topics/rules-choose", subscriptions=RULES)
async def rules_choose(context, style):
    messages = [
        order("small", application_properties={"amount": 5, "colour": "red", "n": 5}),
        order("large", application_properties={"amount": 500, "colour": "blue"}),
        ServiceBusMessage("other", subject="x", application_properties={"amount": 500}),
        order("bare"),
    ]
    expected = {
        "all": ["small", "large", "other", "bare"],
        "none": [],
        "big": ["large"],
        "red": ["small"],
    }
    async with client(context, style) as bus:
        await publish(bus, context.queue, *messages)
        for subscription, bodies in expected.items():
            got = await all_of(bus, context.queue, subscription, len(bodies))
            assert [text(message) for message in got] == bodies, subscription


@case("topics/actions-change-their-copy", subscriptions=RULES)
async def actions_change(context, style):
    given = {"amount": 5_000, "colour": "red", "priority": "low", "kept": 1.5}
    async with client(context, style) as bus:
        await publish(bus, context.queue, order("m", to="there", application_properties=given))
        got = await all_of(bus, context.queue, "changed", 3)
        assert [text(message) for message in got] == ["m"] * 3
        by_rule = {properties(message).get("RuleName"): message for message in got}
        plain, first, second = by_rule[None], by_rule["first"], by_rule["second"]
        assert properties(plain) == given and plain.to == "there"
        assert properties(first) == {
            "amount": 5_000, "kept": 1.5, "priority": "high", "RuleName": "first"
        }  # fmt: skip
        assert first.to == "Entity" and first.subject == "order"
        assert properties(second) == given | {"amount": 5_001, "RuleName": "second"}
        (untouched,) = await all_of(bus, context.queue, "all", 1)
        assert properties(untouched) == given and untouched.to == "there"


FAILING = {"bad": {"rule": [{"name": "r", "sql": "sys.Nope = 1"}]}, "good": {}}


@case("topics/a-failing-rule-makes-a-dead-letter", subscriptions=FAILING)
async def failing_rule(context, style):
    async with client(context, style) as bus:
        await publish(bus, context.queue, ServiceBusMessage("m"))
        assert [text(message) for message in await all_of(bus, context.queue, "good", 1)] == ["m"]
        assert await all_of(bus, context.queue, "bad", 0) == []
        dead = await all_of(bus, context.queue, "bad", 1, sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        assert [(text(message), message.dead_letter_reason) for message in dead] == [("m", "FilterException")]


@case("topics/schedule-and-cancel")
async def schedule(context, style):
    due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=10)
    wanted = {"Colour": "red", "n": 5}
    broker = Broker({context.queue: {"subscriptions": {"red": RULES["red"]}}}).start()
    try:
        async with client(Context(broker, context.transport, context.queue), style) as bus:
            async with bus.get_topic_sender(context.queue) as sender:
                later = [order(body, application_properties=wanted) for body in ("later", "never")]
                numbers = await sender.schedule_messages([*later, order("of another colour")], due)
                await sender.cancel_scheduled_messages(numbers[1])
                try:
                    await sender.cancel_scheduled_messages(numbers[1])
                except MessageNotFoundError:
                    pass
                else:
                    raise AssertionError("a message was cancelled twice")
                async with bus.get_subscription_receiver(context.queue, "red") as receiver:
                    assert await receiver.peek_messages(5) == [], "it waits at the topic"
                    broker.advance_clock(600)
                    (message,) = await receiver.receive_messages(5, max_wait_time=WAIT)
                    assert text(message) == "later" and message.enqueued_time_utc >= due.replace(microsecond=0)
                    await receiver.complete_message(message)
                    assert await receiver.receive_messages(5, max_wait_time=SILENCE) == []
    finally:
        broker.close()


@case("topics/peek", subscriptions={"a": {}})
async def peek(context, style):
    async with client(context, style) as bus:
        await publish(bus, context.queue, ServiceBusMessage("m"))
        async with bus.get_subscription_receiver(context.queue, "a") as receiver:
            (message,) = await receiver.peek_messages(5)
            assert text(message) == "m" and message.state == ServiceBusMessageState.ACTIVE


EXPIRING = {"short": {"default_time_to_live": "1s", "dead_letter_on_expiration": True}, "long": {}}


@case("topics/copies-expire-apart", subscriptions=EXPIRING)
async def expiry(context, style):
    async with client(context, style) as bus:
        await publish(bus, context.queue, ServiceBusMessage("m"))
        async with bus.get_subscription_receiver(
            context.queue, "short", sub_queue=ServiceBusSubQueue.DEAD_LETTER
        ) as receiver:
            (dead,) = await receiver.receive_messages(1, max_wait_time=WAIT)
            assert text(dead) == "m" and dead.dead_letter_reason == "TTLExpiredException"
            await receiver.complete_message(dead)
        assert [text(message) for message in await all_of(bus, context.queue, "long", 1)] == ["m"]


@case("topics/what-is-refused", subscriptions={"a": {}})
async def refused(context, style):
    async with client(context, style, retry_total=0) as bus:
        for receiver, error in [
            (bus.get_subscription_receiver(context.queue, "missing"), MessagingEntityNotFoundError),
            (bus.get_queue_receiver(context.queue), ServiceBusError),
        ]:
            try:
                async with receiver:
                    await receiver.receive_messages(1, max_wait_time=WAIT)
            except error as found:
                assert type(found) is error, found
            else:
                raise AssertionError("the receiver was accepted")
        sender = bus.get_queue_sender(f"{context.queue}/Subscriptions/a")
        try:
            async with sender:
                await sender.send_messages(ServiceBusMessage("m"))
        except ServiceBusError:
            return
        raise AssertionError("the sender was accepted")
