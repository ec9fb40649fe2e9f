"""Lists of every kind, in pages."""

from __future__ import annotations

import dataclasses

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.management import SqlRuleFilter

from admin import admin, case, raises
from broker import Broker
from texts import ADDRESSES


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


@case("listing-without-other-names")
async def listing_without_other_names(context, style):
    # Plain clients have them; the SDK's URLs and lists have no place for them.
    broker = Broker({name: {} for name in ("orders", *ADDRESSES)}).start()
    try:
        async with admin(dataclasses.replace(context, broker=broker), style) as client:
            for listed in (await client.list_queues(), await client.list_queues_runtime_properties()):
                assert [queue.name for queue in listed] == ["orders"], len(listed)
            for name in ("a#b", "größe/Ärger"):
                with raises(ResourceNotFoundError):
                    await client.get_queue(name)
                with raises(ResourceNotFoundError):
                    await client.delete_queue(name)
            assert (await client.get_queue("orders")).name == "orders"
    finally:
        broker.close()
