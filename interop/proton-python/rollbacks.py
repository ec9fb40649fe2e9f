"""What a message may go through when its transactions are rolled back, again and again: it is neither lost nor endless."""

from __future__ import annotations

import cproton
from proton import Data, Delivery

from broker import Broker
from cases import Context
from client import WAIT, ServiceBusLink, Work, assert_empty, connect, received, send
from declared import suite

ROLLBACKS = 50
DELIVERIES_MAX = 3
LOCK_SECONDS = 60


def accept_in(work: Work, delivery: Delivery) -> None:
    """Accepts a delivery in one more transaction. The library adds a state to that of the transaction before."""
    Data(cproton.pn_disposition_data(delivery.local._impl)).clear()
    work.update(delivery)


def still_held(context: Context, *options) -> None:
    """A receiver that has not settled keeps its deliveries over 50 rollbacks, and settles them then."""
    connection = connect(context)
    send(connection, context.queue, "settled outside", "settled by a commit")
    receiver = connection.create_receiver(context.queue, name="work", credit=2, options=list(options))
    bodies = [receiver.receive(WAIT).body for _ in range(2)]
    assert bodies == ["settled outside", "settled by a commit"]
    held = list(receiver.fetcher.unsettled)
    receiver.fetcher.unsettled.clear()
    for _ in range(ROLLBACKS):
        work = Work(connection, settle_before_discharge=False)
        for delivery in held:
            accept_in(work, delivery)
        for delivery in held:
            connection.wait(lambda: work.has_answered(delivery), timeout=WAIT, msg="an answer")
        assert work.abort() == "aborted"
        assert not any(delivery.settled for delivery in held)
    other = connection.create_receiver(context.queue, name="other")
    letters = connection.create_receiver(f"{context.queue}/$DeadLetterQueue", name="letters")
    assert_empty(other)
    assert_empty(letters)
    outside, by_commit = held
    outside.update(Delivery.ACCEPTED)
    connection.wait(lambda: outside.settled, timeout=WAIT, msg="the settlement outside")
    work = Work(connection, settle_before_discharge=False)
    accept_in(work, by_commit)
    assert work.commit() == "committed"
    connection.wait(lambda: by_commit.settled, timeout=WAIT, msg="the settlement of the commit")
    receiver.close()
    connection.close()
    later = connect(context)
    assert_empty(later.create_receiver(context.queue))
    later.close()


@suite.case("fifty-rollbacks", max_delivery_count=DELIVERIES_MAX)
def fifty_rollbacks(context: Context) -> None:
    still_held(context)


@suite.case("fifty-rollbacks-with-lock", max_delivery_count=DELIVERIES_MAX)
def fifty_rollbacks_with_lock(context: Context) -> None:
    still_held(context, ServiceBusLink())


def given_up(context: Context, *options, after_rollback=lambda: None) -> None:
    """A receiver that settles in advance gives the message up at each rollback, which counts as a failed delivery."""
    connection = connect(context)
    send(connection, context.queue, "work")
    receiver = connection.create_receiver(context.queue, name="work", options=list(options))
    for count in range(DELIVERIES_MAX):
        message = receiver.receive(WAIT)
        assert (message.body, message.delivery_count) == ("work", count)
        work = Work(connection)
        work.accept(receiver)
        assert work.abort() == "aborted"
        after_rollback()
    assert_empty(receiver)
    letters = connection.create_receiver(f"{context.queue}/$DeadLetterQueue", name="letters")
    (letter,) = received(letters, 1)
    assert letter.body == "work"
    assert letter.properties["DeadLetterReason"] == "MaxDeliveryCountExceeded"
    connection.close()


@suite.case("rollbacks-to-dead-letter", max_delivery_count=DELIVERIES_MAX)
def rollbacks_to_dead_letter(context: Context) -> None:
    given_up(context)


@suite.case("rollbacks-to-dead-letter-with-lock")
def rollbacks_to_dead_letter_with_lock(context: Context) -> None:
    """With a broker of its own, whose clock is moved: the message returns when its lock ends."""
    settings = {"max_delivery_count": DELIVERIES_MAX, "lock_duration": f"PT{LOCK_SECONDS}S"}
    broker = Broker({context.queue: settings}, anonymous=True).start()
    try:
        there = Context(broker, context.transport, context.queue)
        given_up(there, ServiceBusLink(), after_rollback=lambda: broker.advance_clock(LOCK_SECONDS + 1))
    finally:
        broker.close()
