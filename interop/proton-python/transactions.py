"""Transactions with the coordinator of AMQP."""

from __future__ import annotations

from proton import Delivery, Message

from broker import Broker
from cases import Context
from client import WAIT, Management, Work, assert_empty, connect, lose_connection, received, send
from declared import suite

ACCEPTED_IN_TRANSACTION = REFUSED_IN_TRANSACTION = 0x34


@suite.case("transaction-commit")
def transaction_commit(context: Context):
    connection = connect(context)
    send(connection, context.queue, "work")
    sender = connection.create_sender(context.queue, name="results")
    receiver = connection.create_receiver(context.queue, name="work")
    work = Work(connection)
    assert receiver.receive(WAIT).body == "work"
    work.accept(receiver)
    for body in ("one", "two"):
        state, data = work.send(sender, Message(body=body))
        assert state == ACCEPTED_IN_TRANSACTION, state
        assert data[1].descriptor == Delivery.ACCEPTED, data
    other = connection.create_receiver(context.queue, name="other")
    assert_empty(other)  # one is locked, the others are not there yet
    other.close()
    assert work.commit() == "committed"
    assert [message.body for message in received(receiver, 2)] == ["one", "two"]
    assert_empty(receiver)
    assert Management(connection, context.queue).peek(1, 10) == []
    connection.close()


@suite.case("transaction-rollback")
def transaction_rollback(context: Context):
    connection = connect(context)
    send(connection, context.queue, "work")
    sender = connection.create_sender(context.queue, name="results")
    receiver = connection.create_receiver(context.queue, name="work")
    work = Work(connection)
    assert receiver.receive(WAIT).body == "work"
    work.accept(receiver)
    work.send(sender, Message(body="never"))
    assert work.abort() == "aborted"
    again = receiver.receive(WAIT)
    # It was settled in advance, so its return counts as a failed delivery.
    assert again.body == "work" and again.delivery_count == 1
    receiver.accept()
    assert_empty(receiver)
    connection.close()


@suite.case("transaction-rollback-then-settle")
def transaction_rollback_then_settle(context: Context):
    """A receiver that has not settled keeps its delivery over a rollback, and settles it then."""
    connection = connect(context)
    send(connection, context.queue, "rolled back", "committed")
    receiver = connection.create_receiver(context.queue, name="work", credit=2)
    other = connection.create_receiver(context.queue, name="other")
    bodies = [receiver.receive(WAIT).body for _ in range(2)]
    assert bodies == ["rolled back", "committed"]
    rolled_back, committed = (receiver.fetcher.unsettled.popleft() for _ in range(2))
    for held, commits in ((rolled_back, False), (committed, True)):
        work = Work(connection, settle_before_discharge=False)
        work.update(held)
        assert work.answered(held) == ACCEPTED_IN_TRANSACTION and not held.settled
        assert (work.commit() if commits else work.abort()) == ("committed" if commits else "aborted")
        assert_empty(other)
    connection.wait(lambda: committed.settled, timeout=WAIT, msg="the settlement of the commit")
    assert not rolled_back.settled
    # Outside of a transaction: the library adds the state of a second one to that of the first, which is no valid frame.
    rolled_back.update(Delivery.ACCEPTED)
    connection.wait(lambda: rolled_back.settled, timeout=WAIT, msg="the settlement after the rollback")
    connection.close()
    later = connect(context)
    assert_empty(later.create_receiver(context.queue))
    later.close()


@suite.case("transaction-several")
def transaction_several(context: Context):
    """One after the other, ended in both ways, with work outside of them between."""
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    for number in range(6):
        work = Work(connection)
        work.send(sender, Message(body=f"in {number}"))
        sender.send(Message(body=f"outside {number}"))
        ended = work.commit() if number % 2 else work.abort()
        assert ended == ("committed" if number % 2 else "aborted"), ended
    bodies = []
    for number in range(6):
        bodies += [f"outside {number}"] + ([f"in {number}"] if number % 2 else [])
    receiver = connection.create_receiver(context.queue, credit=20)
    assert [message.body for message in received(receiver, 9)] == bodies
    assert_empty(receiver)
    connection.close()


@suite.case("transaction-refused-operation")
def transaction_refused_operation(context: Context):
    connection = connect(context)
    sender = connection.create_sender(context.queue)
    relay = connection.create_sender(None)
    work = Work(connection)
    work.send(sender, Message(body="never"))
    state, data = work.send(relay, Message(address="no-such-queue", body="lost"))
    assert state == REFUSED_IN_TRANSACTION, state
    assert data[1].descriptor == Delivery.REJECTED, data
    ended = work.commit()
    assert ended == "refused: amqp:transaction:rollback", ended
    assert_empty(connection.create_receiver(context.queue))
    connection.close()


@suite.case("transaction-connection-loss")
def transaction_connection_loss(context: Context):
    connection, holder = connect(context), connect(context)
    send(connection, context.queue, "work")
    receiver = holder.create_receiver(context.queue)
    work = Work(holder)
    assert receiver.receive(WAIT).body == "work"
    work.accept(receiver)
    work.send(holder.create_sender(context.queue, name="results"), Message(body="never"))
    lose_connection(holder)
    receiver = connection.create_receiver(context.queue)
    assert [message.body for message in received(receiver, 1)] == ["work"]
    assert_empty(receiver)
    connection.close()


@suite.case("transaction-broker-restart")
def transaction_broker_restart(context: Context):
    broker = Broker({context.queue: {}}, durability="fsync", anonymous=True).start()
    try:
        there = Context(broker, context.transport, context.queue)
        before = connect(there)
        send(before, context.queue, "work", "more work")
        receiver = before.create_receiver(context.queue)
        sender = before.create_sender(context.queue, name="results")
        done = Work(before)
        assert receiver.receive(WAIT).body == "work"
        done.accept(receiver)
        done.send(sender, Message(body="done"))
        assert done.commit() == "committed"
        receiver.close()
        open_work = Work(before)
        receiver = before.create_receiver(context.queue, name="again")
        assert receiver.receive(WAIT).body == "more work"
        open_work.accept(receiver)
        open_work.send(sender, Message(body="never"))
        broker.restart(kill=True)
        after = connect(there)
        receiver = after.create_receiver(context.queue)
        bodies = [message.body for message in received(receiver, 2)]
        assert bodies == ["more work", "done"], bodies
        assert_empty(receiver)
        after.close()
    finally:
        broker.close()
