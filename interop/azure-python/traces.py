"""Spans of the broker in traces that `azure-servicebus` for Python began."""

from __future__ import annotations

import http.server
import json
import pathlib
import queue
import subprocess
import sys
import threading

from azure.servicebus import ServiceBusMessage

from broker import KEY, Broker
from cases import Context
from declared import case
from facade import client

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
WAIT = 30  # seconds that a span which must come may take
TRACED = pathlib.Path(__file__).resolve().parent / "traced.py"
TRACED_SECONDS_MAX = 60


class Collector:
    """Takes OTLP over HTTP as a collector does."""

    def __init__(self):
        taken: queue.Queue[dict] = queue.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/v1/traces":
                    for resource in json.loads(body)["resourceSpans"]:
                        for scope in resource["scopeSpans"]:
                            for span in scope["spans"]:
                                taken.put(span)
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self._taken = taken
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def spans(self, count: int) -> list[dict]:
        return [self._taken.get(timeout=WAIT) for _ in range(count)]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@case("trace-context")
async def trace_context(context, style):
    collector = Collector()
    config = f'\n[telemetry]\notlp_endpoint = "{collector.url}"\n'
    broker = Broker({context.queue: {}}, more_config=config).start()
    try:
        there = Context(broker, context.transport, context.queue)
        async with client(there, style) as bus:
            async with bus.get_queue_sender(context.queue) as sender:
                for name in ("traceparent", "Diagnostic-Id"):
                    properties = {name: f"00-{TRACE}-{PARENT}-01"}
                    await sender.send_messages(ServiceBusMessage("tea", application_properties=properties))
                await sender.send_messages(ServiceBusMessage("untraced"))
            async with bus.get_queue_receiver(context.queue) as receiver:
                taken = []
                while len(taken) < 3:
                    taken += await receiver.receive_messages(3 - len(taken), max_wait_time=WAIT)
                for message in taken:
                    await receiver.complete_message(message)
        spans = collector.spans(6)
        names = sorted(span["name"] for span in spans)
        kinds = ("deliver", "publish", "settle")
        assert names == sorted(f"{kind} {context.queue}" for kind in kinds for _ in range(2)), names
        for span in spans:
            assert (span["traceId"], span["parentSpanId"]) == (TRACE, PARENT), span
        assert len({span["spanId"] for span in spans}) == 6, spans
    finally:
        broker.close()
        collector.close()


@case("sdk-tracing")
async def sdk_tracing(context, style):
    collector = Collector()
    config = f'\n[telemetry]\notlp_endpoint = "{collector.url}"\n'
    broker = Broker({context.queue: {}}, more_config=config).start()
    try:
        there = Context(broker, context.transport, context.queue)
        texts = ["tea", "milk"]
        made = traced(there, style, texts)
        (trace,) = {span["trace"] for span in made}
        messages = [span["id"] for span in made if span["name"] == "ServiceBus.message"]
        assert len(set(messages)) == len(texts), made
        found = collector.spans(3 * len(texts))
        assert {span["traceId"] for span in found} == {trace}, (found, made)
        kinds = ("deliver", "publish", "settle")
        expected = sorted((f"{kind} {context.queue}", message) for kind in kinds for message in messages)
        assert sorted((span["name"], span["parentSpanId"]) for span in found) == expected, (found, made)
    finally:
        broker.close()
        collector.close()


def traced(context: Context, style: str, texts: list[str]) -> list[dict]:
    """Sends and receives the texts with the SDK's own tracing on; the spans that the SDK made."""
    options = {}
    if context.tls:
        options = {"custom_endpoint_address": f"sb://localhost:{context.port}", "connection_verify": context.ca}
    order = {
        "style": style,
        "queue": context.queue,
        "texts": texts,
        "connection_string": context.broker.connection_string(key=KEY, tls=context.tls),
        "options": options,
    }
    done = subprocess.run(
        [sys.executable, str(TRACED)],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=TRACED_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
