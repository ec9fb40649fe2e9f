"""How long single steps of the SDK take, for `cargo xtask bench --scenario sdk-latency`.

Prints a line for each time a step was done: its name, a tab, milliseconds. `FERRYBUS_CONNECTION` is the connection
string of a broker with the queues `latency` and `latency-sessions`, `FERRYBUS_REPETITIONS` says how often.
"""

from __future__ import annotations

import datetime
import os
import threading
import time
from contextlib import contextmanager
from typing import Iterator

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusClient, ServiceBusMessage

QUEUE = "latency"
SESSIONS = "latency-sessions"
CONNECTION = os.environ["FERRYBUS_CONNECTION"]
REPETITIONS = int(os.environ["FERRYBUS_REPETITIONS"])
WAIT = 30
# Until a receiver that was just told to wait does so.
SETTLED = 0.1
BODY = "x" * 1024


def told(step: str, seconds: float) -> None:
    print(f"{step}\t{seconds * 1000:.3f}", flush=True)


@contextmanager
def timed(step: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    told(step, time.perf_counter() - begun)


def connect() -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(CONNECTION)


def one(receiver):
    (message,) = receiver.receive_messages(max_message_count=1, max_wait_time=WAIT)
    return message


def arrivals() -> None:
    with connect() as sending, connect() as receiving:
        with sending.get_queue_sender(QUEUE) as sender, receiving.get_queue_receiver(QUEUE) as receiver:
            sender.send_messages(ServiceBusMessage("warm"))
            receiver.complete_message(one(receiver))
            for _ in range(REPETITIONS):
                came = []

                def wait() -> None:
                    message = one(receiver)
                    came.append(time.perf_counter())
                    receiver.complete_message(message)

                waiting = threading.Thread(target=wait)
                waiting.start()
                time.sleep(SETTLED)
                begun = time.perf_counter()
                sender.send_messages(ServiceBusMessage(BODY))
                waiting.join()
                told("a message arrives at a waiting receiver", came[0] - begun)


def connects() -> None:
    for _ in range(REPETITIONS):
        begun = time.perf_counter()
        with connect() as client, client.get_queue_sender(QUEUE) as sender:
            sender.send_messages(ServiceBusMessage(BODY))
            told("connect and send", time.perf_counter() - begun)


def new_receivers() -> None:
    with connect() as client:
        for _ in range(REPETITIONS):
            begun = time.perf_counter()
            with client.get_queue_receiver(QUEUE) as receiver:
                message = one(receiver)
                told("new receiver and first message", time.perf_counter() - begun)
                receiver.complete_message(message)


def sessions() -> None:
    with connect() as client, client.get_queue_sender(SESSIONS) as sender:
        for number in range(REPETITIONS):
            sender.send_messages(ServiceBusMessage(BODY, session_id=f"s{number}"))
            with timed("accept a session, receive, complete, close"):
                with client.get_queue_receiver(SESSIONS, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=WAIT) as it:
                    it.complete_message(one(it))


def requests() -> None:
    with connect() as client:
        with client.get_queue_sender(QUEUE) as sender, client.get_queue_receiver(QUEUE) as receiver:
            tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
            (warm,) = sender.schedule_messages([ServiceBusMessage(BODY)], tomorrow)
            sender.cancel_scheduled_messages([warm])
            receiver.peek_messages()
            for _ in range(REPETITIONS):
                with timed("schedule"):
                    (number,) = sender.schedule_messages([ServiceBusMessage(BODY)], tomorrow)
                with timed("cancel a schedule"):
                    sender.cancel_scheduled_messages([number])
                sender.send_messages(ServiceBusMessage(BODY))
                with timed("peek"):
                    receiver.peek_messages()
                message = one(receiver)
                with timed("renew a lock"):
                    receiver.renew_message_lock(message)
                receiver.defer_message(message)
                with timed("receive a deferred message"):
                    (deferred,) = receiver.receive_deferred_messages([message.sequence_number])
                receiver.complete_message(deferred)


arrivals()
connects()
new_receivers()
sessions()
requests()
