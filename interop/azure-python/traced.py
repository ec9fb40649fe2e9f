"""Sends and receives messages with the SDK's own tracing on, and writes the spans that the SDK made.

A process of its own: the SDK's tracing is on for all clients of a process or for none, and it changes their messages.
"""

from __future__ import annotations

import asyncio
import json
import sys

from azure.core.settings import settings
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

WAIT = 30  # seconds that a message which must come may take


def send_and_receive(bus, queue: str, texts: list[str]) -> None:
    with bus, bus.get_queue_sender(queue) as sender, bus.get_queue_receiver(queue) as receiver:
        for text in texts:
            sender.send_messages(ServiceBusMessage(text))
        for _ in texts:
            (message,) = receiver.receive_messages(1, max_wait_time=WAIT)
            receiver.complete_message(message)


async def send_and_receive_async(bus, queue: str, texts: list[str]) -> None:
    async with bus, bus.get_queue_sender(queue) as sender, bus.get_queue_receiver(queue) as receiver:
        for text in texts:
            await sender.send_messages(ServiceBusMessage(text))
        for _ in texts:
            (message,) = await receiver.receive_messages(1, max_wait_time=WAIT)
            await receiver.complete_message(message)


def main() -> None:
    order = json.load(sys.stdin)
    settings.tracing_implementation = "opentelemetry"
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    options = dict(order["options"])
    if "custom_endpoint_address" in options:
        options["transport_type"] = TransportType.Amqp
    kind = AsyncServiceBusClient if order["style"] == "async" else ServiceBusClient
    bus = kind.from_connection_string(order["connection_string"], **options)
    with trace.get_tracer("suite").start_as_current_span("order"):
        if order["style"] == "async":
            asyncio.run(send_and_receive_async(bus, order["queue"], order["texts"]))
        else:
            send_and_receive(bus, order["queue"], order["texts"])
    made = [
        {
            "name": span.name,
            "trace": f"{span.context.trace_id:032x}",
            "id": f"{span.context.span_id:016x}",
        }
        for span in spans.get_finished_spans()
    ]
    json.dump(made, sys.stdout)


if __name__ == "__main__":
    main()
