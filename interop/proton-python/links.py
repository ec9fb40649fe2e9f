"""Connections and links that are refused, lost, resumed, many."""

from __future__ import annotations

import dataclasses
import time

from proton import ConnectionException, Message
from proton.utils import BlockingConnection, LinkDetached

from broker import KEY, KEY_NAME, Broker
from cases import Context, eventually
from client import (
    WAIT,
    ServiceBusLink,
    annotation,
    assert_empty,
    connect,
    flush,
    idle,
    lose_connection,
    received,
    send,
)
from declared import suite
from namespaces import QUEUE, three_namespaces


@suite.case("connection-loss")
def connection_loss(context: Context):
    connection, holder = connect(context), connect(context)
    send(connection, context.queue, "dropped")
    holder.create_receiver(context.queue).receive(WAIT)
    lose_connection(holder)
    # The queue's lock is a minute: only the loss of the connection can have ended it.
    (again,) = received(connection.create_receiver(context.queue), 1)
    assert again.delivery_count == 0, "nobody said that the delivery failed"
    connection.close()


@suite.case("connection-loss-with-lock", lock_duration="PT5S")
def connection_loss_with_lock(context: Context):
    connection, holder = connect(context), connect(context)
    send(connection, context.queue, "mine for five seconds")
    message = holder.create_receiver(context.queue, options=ServiceBusLink()).receive(WAIT)
    end = annotation(message, "x-opt-locked-until") / 1000
    lose_connection(holder)
    (again,) = received(connection.create_receiver(context.queue), 1)
    assert time.time() > end - 0.5, "a Service Bus lock ends with its time, not with its connection"
    assert again.delivery_count == 1
    connection.close()


def log_in(context: Context, key: str, **options):
    return connect(
        context,
        **options,
        allowed_mechs="PLAIN",
        user=KEY_NAME,
        password=key,
        allow_insecure_mechs=True,
    )


@suite.case("plain-log-in")
def plain_log_in(context: Context):
    connection = log_in(context, KEY)
    send(connection, context.queue, "with a key")
    assert received(connection.create_receiver(context.queue), 1)[0].body == "with a key"
    connection.close()


@suite.case("namespaces")
def namespaces(context: Context):
    with three_namespaces() as teams:
        there = dataclasses.replace(context, broker=teams.broker)

        def enter(team, key: str = "", virtual_host: str = "") -> BlockingConnection:
            if context.tls:
                # Proton looks for the virtual host in the certificate, and for no address.
                virtual_host = team.domain
            named = {"virtual_host": virtual_host} if virtual_host else {"host": team.host}
            return log_in(there, key or team.key, **named)

        for by_virtual_host in (False, True):
            places = [(team, f"vhost:{team.name}" if by_virtual_host else "") for team in teams]
            connections = [enter(team, virtual_host=place) for team, place in places]
            for team, connection in zip(teams, connections):
                send(connection, QUEUE, team.name)
            for team, connection in zip(teams, connections):
                (message,) = received(connection.create_receiver(QUEUE), 1)
                assert message.body == team.name, message
                connection.close()
        refused(ConnectionException, "unauthorized", lambda: enter(teams.team_a, teams.team_b.key))
        refused(ConnectionException, "uthori", lambda: enter(teams.team_a, teams.team_b.key, "vhost:team-a"))
        teams.team_a.put(held=True)
        refused(ConnectionException, "com.microsoft:server-busy", lambda: enter(teams.team_a))
        # What was refused or closed may not have ended yet, and would be the one that is permitted.
        eventually(lambda: teams.team_a.usage()["connections"] == 0, "no connections")
        teams.team_a.put(max_connections=1)
        first = enter(teams.team_a)
        refused(ConnectionException, "amqp:resource-limit-exceeded", lambda: enter(teams.team_a))
        teams.team_a.put()
        second = enter(teams.team_a)
        send(second, QUEUE, "after")
        first.close()
        second.close()


def refused(kind: type[Exception], text: str, enter) -> None:
    try:
        connection = enter()
        # The close comes behind the open.
        send(connection, QUEUE, "never")
    except kind as error:
        assert text in str(error), error
        return
    raise AssertionError("it was not refused")


@suite.case("wrong-key")
def wrong_key(context: Context):
    try:
        log_in(context, "WRONG_KEY")
    except ConnectionException as error:
        assert "unauthorized" in str(error) or "uthentication" in str(error), error
    else:
        raise AssertionError("logged in with a wrong key")


@suite.case("anonymous-refused")
def anonymous_refused(context: Context):
    broker = Broker({context.queue: {}}).start()
    try:
        there = Context(broker, context.transport, context.queue)
        try:
            connect(there).create_sender(context.queue)
        except LinkDetached as error:
            assert error.condition == "amqp:unauthorized-access", error.condition
        except ConnectionException as error:
            assert "unauthorized" in str(error), error
        else:
            raise AssertionError("a link was opened without any log-in")
    finally:
        broker.close()


@suite.case("missing-queue")
def missing_queue(context: Context):
    connection = connect(context)
    for create in (connection.create_sender, connection.create_receiver):
        try:
            create("no-such-queue")
        except LinkDetached as error:
            assert error.condition == "amqp:not-found", error.condition
            assert "no-such-queue" in str(error), error
        else:
            raise AssertionError("a link to a missing queue was opened")
    send(connection, context.queue, "the connection goes on")
    connection.close()


@suite.case("link-close-and-reopen")
def link_close_and_reopen(context: Context):
    connection = connect(context)
    for number in range(3):
        sender = connection.create_sender(context.queue, name="again")
        sender.send(Message(body=number))
        sender.close()
        receiver = connection.create_receiver(context.queue, name="again")
        assert received(receiver, 1)[0].body == number
        receiver.close()
    connection.close()


@suite.case("detach-and-reattach")
def detach_and_reattach(context: Context):
    connection = connect(context)
    sender = connection.create_sender(context.queue, name="resumed")
    sender.send(Message(body="before"))
    sender.link.detach()
    flush(sender)  # Proton writes attaches before detaches
    sender.link.free()
    again = connection.create_sender(context.queue, name="resumed")
    again.send(Message(body="after"))
    receiver = connection.create_receiver(context.queue)
    assert [message.body for message in received(receiver, 2)] == ["before", "after"]
    connection.close()


@suite.case("many-links")
def many_links(context: Context):
    connection = connect(context)
    senders = [connection.create_sender(context.queue, name=f"s{n}") for n in range(200)]
    for number, sender in enumerate(senders):
        sender.send(Message(body=number))
    receiver = connection.create_receiver(context.queue, credit=200)
    assert [message.body for message in received(receiver, 200)] == list(range(200))
    connection.close()


@suite.case("address-prefixes")
def address_prefixes(context: Context):
    config = (
        '[[address_prefix]]\nprefix = "place/"\nkind = "queue"\n'
        '[[address_prefix]]\nprefix = "news/"\nkind = "topic"\npart_of_name = true\n'
    )
    broker = Broker({}, anonymous=True, auto_create=True, more_config=config).start()
    try:
        connection = connect(Context(broker, context.transport, context.queue))
        send(connection, "place/orders", "cut off")
        assert [message.body for message in received(connection.create_receiver("orders"), 1)] == ["cut off"]
        subscribers = [connection.create_receiver("news/today", name=name) for name in ("one", "two")]
        send(connection, "news/today", "to each")
        for subscriber in subscribers:
            assert [message.body for message in received(subscriber, 1)] == ["to each"]
        try:
            connection.create_receiver("place/news/today")
        except LinkDetached as error:
            assert error.condition == "amqp:not-allowed", error.condition
        else:
            raise AssertionError("a prefix for queues led to a topic")
        connection.close()
    finally:
        broker.close()


@suite.case("heartbeat")
def heartbeat(context: Context):
    connection = connect(context, heartbeat=6)
    sender = connection.create_sender(context.queue)
    idle(connection, 10)  # without frames from the broker the client gives up after six seconds
    sender.send(Message(body="still connected"))
    connection.close()


@suite.case("broker-restart")
def broker_restart(context: Context):
    broker = Broker({context.queue: {}}, durability="fsync", anonymous=True).start()
    try:
        there = Context(broker, context.transport, context.queue)
        before = connect(there)
        send(before, context.queue, "before the crash")
        before.create_receiver(context.queue).receive(WAIT)  # locked when the broker dies
        broker.restart(kill=True)
        between = connect(there)
        send(between, context.queue, "after the crash")
        broker.restart()
        after = connect(there)
        receiver = after.create_receiver(context.queue)
        bodies = [message.body for message in received(receiver, 2)]
        assert bodies == ["before the crash", "after the crash"], bodies
        assert_empty(receiver)
        after.close()
    finally:
        broker.close()
