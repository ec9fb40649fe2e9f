"""Messages under a lock, and what becomes of them."""

from __future__ import annotations

import time

from proton import Delivery
from proton.reactor import AtMostOnce

from cases import RENEWED_LOCK, SHORT_LOCK, Context
from client import (
    WAIT,
    Management,
    ServiceBusLink,
    annotation,
    assert_empty,
    connect,
    dead_letter,
    flush,
    idle,
    lock_token,
    received,
    send,
    settle,
)
from declared import suite


@suite.case("peek-lock-complete")
def peek_lock_complete(context: Context):
    connection = connect(context)
    send(connection, context.queue, "one", "two")
    receiver = connection.create_receiver(context.queue)
    for expected in ("one", "two"):
        message = receiver.receive(WAIT)
        assert message.body == expected and message.delivery_count == 0
        receiver.accept()
    assert_empty(receiver)
    assert Management(connection, context.queue).peek(1, 10) == []
    connection.close()


@suite.case("peek-lock-abandon")
def peek_lock_abandon(context: Context):
    connection = connect(context)
    send(connection, context.queue, "one", "two")
    receiver = connection.create_receiver(context.queue)
    first = receiver.receive(WAIT)
    settle(receiver, Delivery.MODIFIED, failed=True)
    again = receiver.receive(WAIT)
    assert again.body == "one", "an abandoned message keeps its place"
    assert again.delivery_count == 1
    number = "x-opt-sequence-number"
    assert annotation(again, number) == annotation(first, number)
    receiver.accept()
    assert received(receiver, 1)[0].body == "two"
    assert_empty(receiver)
    connection.close()


@suite.case("peek-lock-release")
def peek_lock_release(context: Context):
    connection = connect(context)
    send(connection, context.queue, "one", "two")
    receiver = connection.create_receiver(context.queue)
    receiver.receive(WAIT)
    settle(receiver, Delivery.RELEASED)
    again = receiver.receive(WAIT)
    assert again.body == "one" and again.delivery_count == 0
    receiver.accept()
    assert received(receiver, 1)[0].body == "two"
    assert_empty(receiver)
    connection.close()


@suite.case("peek-lock-dead-letter")
def peek_lock_dead_letter(context: Context):
    connection = connect(context)
    send(connection, context.queue, "bad", "worse")
    receiver = connection.create_receiver(context.queue)
    receiver.receive(WAIT)
    dead_letter(receiver, "unreadable", "the total is not a number")
    receiver.receive(WAIT)
    settle(receiver, Delivery.REJECTED)
    assert_empty(receiver)
    dead_letters = connection.create_receiver(f"{context.queue}/$DeadLetterQueue")
    bad, worse = received(dead_letters, 2)
    assert bad.body == "bad"
    assert bad.properties["DeadLetterReason"] == "unreadable"
    assert bad.properties["DeadLetterErrorDescription"] == "the total is not a number"
    assert worse.body == "worse" and "DeadLetterReason" not in (worse.properties or {})
    assert_empty(dead_letters)
    connection.close()


@suite.case("undeliverable-here")
def undeliverable_here(context: Context):
    connection = connect(context)
    send(connection, context.queue, "not for me", "for me")
    receiver = connection.create_receiver(context.queue)
    receiver.receive(WAIT)
    settle(receiver, Delivery.MODIFIED, undeliverable=True)
    assert received(receiver, 1)[0].body == "for me"
    assert_empty(receiver)
    dead_letters = connection.create_receiver(f"{context.queue}/$DeadLetterQueue")
    (message,) = received(dead_letters, 1)
    assert message.body == "not for me"
    assert message.properties["DeadLetterReason"] == "UndeliverableHere"
    connection.close()


@suite.case("modified-without-failure")
def modified_without_failure(context: Context):
    connection = connect(context)
    send(connection, context.queue, "one")
    receiver = connection.create_receiver(context.queue)
    receiver.receive(WAIT)
    settle(receiver, Delivery.MODIFIED)
    (again,) = received(receiver, 1)
    assert again.delivery_count == 0
    connection.close()


@suite.case("peek-lock-defer")
def peek_lock_defer(context: Context):
    connection = connect(context)
    send(connection, context.queue, "later", "now")
    receiver = connection.create_receiver(context.queue, options=ServiceBusLink())
    deferred = receiver.receive(WAIT)
    settle(receiver, Delivery.MODIFIED, undeliverable=True)
    assert received(receiver, 1)[0].body == "now"
    assert_empty(receiver)
    (peeked,) = Management(connection, context.queue).peek(1, 10)
    assert peeked.body == "later" and annotation(peeked, "x-opt-message-state") == 1
    number = "x-opt-sequence-number"
    assert annotation(peeked, number) == annotation(deferred, number)
    connection.close()


@suite.case("receive-and-delete")
def receive_and_delete(context: Context):
    connection = connect(context)
    send(connection, context.queue, "a", "b", "c")
    receiver = connection.create_receiver(context.queue, options=AtMostOnce())
    assert [receiver.receive(WAIT).body for _ in range(3)] == ["a", "b", "c"]
    assert not receiver.fetcher.unsettled, "each delivery must arrive settled"
    assert_empty(receiver)
    assert Management(connection, context.queue).peek(1, 10) == []
    connection.close()


@suite.case("lock-renewal", **RENEWED_LOCK)
def lock_renewal(context: Context):
    connection = connect(context)
    send(connection, context.queue, "long work")
    receiver = connection.create_receiver(context.queue, options=ServiceBusLink())
    message = receiver.receive(WAIT)
    first_end = annotation(message, "x-opt-locked-until")
    management = Management(connection, context.queue)
    idle(connection, 7)  # so that the renewed lock outlives the first one by as much
    status, answer = management.renew_lock(lock_token(message))
    assert status == 200, status
    (renewed,) = answer.body["expirations"].elements
    assert renewed >= first_end + 4_500, (first_end, renewed)
    idle(connection, first_end / 1000 - time.time() + 0.3)
    other = connection.create_receiver(context.queue, name="other")
    assert_empty(other)
    receiver.accept()
    flush(receiver)
    assert_empty(other)
    assert management.peek(1, 10) == []
    connection.close()


@suite.case("lock-loss", **SHORT_LOCK)
def lock_loss(context: Context):
    connection = connect(context)
    send(connection, context.queue, "too slow")
    receiver = connection.create_receiver(context.queue, options=ServiceBusLink())
    first = receiver.receive(WAIT)
    management = Management(connection, context.queue)
    idle(connection, annotation(first, "x-opt-locked-until") / 1000 - time.time() + 0.3)
    status, _ = management.renew_lock(lock_token(first))
    assert status == 410, status
    receiver.accept()  # too late: must complete nothing
    again = receiver.receive(WAIT)
    assert again.body == "too slow" and again.delivery_count == 1
    receiver.accept()
    assert_empty(receiver)
    connection.close()


@suite.case("held-without-timer", lock_duration="PT2S")
def held_without_timer(context: Context):
    connection = connect(context)
    send(connection, context.queue, "long work")
    receiver = connection.create_receiver(context.queue, name="one")
    message = receiver.receive(WAIT)
    assert message.annotations is None or "x-opt-locked-until" not in message.annotations
    idle(connection, 3)
    other = connection.create_receiver(context.queue, name="other")
    assert_empty(other)
    receiver.accept()
    flush(receiver)
    assert_empty(other)
    assert Management(connection, context.queue).peek(1, 10) == []
    connection.close()


@suite.case("delivery-count-to-dead-letter", max_delivery_count=3)
def delivery_count_to_dead_letter(context: Context):
    connection = connect(context)
    send(connection, context.queue, "poison")
    receiver = connection.create_receiver(context.queue)
    for failed in range(3):
        assert receiver.receive(WAIT).delivery_count == failed
        settle(receiver, Delivery.MODIFIED, failed=True)
    assert_empty(receiver)
    dead_letters = connection.create_receiver(f"{context.queue}/$DeadLetterQueue")
    (message,) = received(dead_letters, 1)
    assert message.body == "poison"
    assert message.properties["DeadLetterReason"] == "MaxDeliveryCountExceeded"
    assert message.properties["DeadLetterErrorDescription"]
    connection.close()


@suite.case("peek")
def peek(context: Context):
    connection = connect(context)
    send(connection, context.queue, *range(10))
    management = Management(connection, context.queue)
    seen = management.peek(1, 4)
    while len(seen) < 10:
        more = management.peek(annotation(seen[-1], "x-opt-sequence-number") + 1, 4)
        assert more, f"peeked {len(seen)} of 10"
        seen += more
    assert [message.body for message in seen] == list(range(10))
    assert all(annotation(message, "x-opt-message-state") == 0 for message in seen)
    receiver = connection.create_receiver(context.queue)
    taken = received(receiver, 10)
    assert all(message.delivery_count == 0 for message in taken), "peeking is not delivering"
    assert management.peek(1, 1) == []
    connection.close()


@suite.case("two-competing-receivers")
def two_competing_receivers(context: Context):
    left_connection, right_connection = connect(context), connect(context)
    send(left_connection, context.queue, *range(10))
    left = left_connection.create_receiver(context.queue)
    right = right_connection.create_receiver(context.queue)
    seen = []
    for _ in range(5):
        seen += [left.receive(WAIT).body, right.receive(WAIT).body]
    assert sorted(seen) == list(range(10)), f"delivered twice or not at all: {seen}"
    for receiver in (left, right):
        for _ in range(5):
            receiver.accept()
        flush(receiver)
    assert_empty(left)
    left_connection.close()
    right_connection.close()


@suite.case("drain")
def drain(context: Context):
    connection = connect(context)
    receiver = connection.create_receiver(context.queue)
    link = receiver.link
    link.drain(5)
    connection.wait(lambda: not link.draining(), msg="an empty queue to be drained", timeout=WAIT)
    assert link.drained() >= 5 and link.credit == 0
    link.drain_mode = False
    send(connection, context.queue, "a", "b")
    link.drain(5)
    # The answer may have been read while the second message still waits to be handled.
    connection.wait(
        lambda: not link.draining() and receiver.fetcher.has_message == 2,
        msg="a queue of two to be drained",
        timeout=WAIT,
    )
    bodies = []
    while receiver.fetcher.has_message:
        bodies.append(receiver.fetcher.pop().body)
        receiver.accept()
    assert bodies == ["a", "b"], bodies
    link.drain_mode = False
    send(connection, context.queue, "c")
    assert received(receiver, 1)[0].body == "c"
    connection.close()
