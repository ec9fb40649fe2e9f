"use strict";
// Ways in: keys, tokens of an identity provider, WebSockets.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { ServiceBusClient } = require("@azure/service-bus");
const WebSocket = require("ws");
const { Broker } = require("../lib/broker.js");
const { Provider } = require("../lib/provider.js");
const { assertEmpty, bodies, certificate, many, one, rejects, suite, withClient } = require("./steps.js");

// The SDK always says `wss`, so over plain TCP the WebSocket that it is given says `ws` instead.
class PlainWebSocket extends WebSocket {
  constructor(url, protocols) {
    super(url.replace(/^wss:/, "ws:"), protocols);
  }
}

suite.case("web-socket", (context) =>
  withClient(
    context,
    async (client) => {
      const sender = client.createSender(context.queue);
      const receiver = client.createReceiver(context.queue, { maxAutoLockRenewalDurationInMs: 0 });
      await Promise.all(Array.from({ length: 100 }, (_, number) => sender.sendMessages({ body: number })));
      await sender.sendMessages({ body: "x".repeat(200_000) });
      const taken = await many(receiver, 101);
      assert.deepEqual(bodies(taken), [...Array(100).keys(), "x".repeat(200_000)]);
      await receiver.renewMessageLock(taken[0]);
      for (const message of taken) await receiver.completeMessage(message);
      await assertEmpty(receiver);
    },
    { webSocketOptions: { webSocket: context.tls ? WebSocket : PlainWebSocket } },
  ),
);

suite.case("token-credential", async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "ferrybus-interop-provider-"));
  const provider = new Provider(directory);
  const broker = await Broker.start({ orders: {} }, { certificate, moreConfig: provider.config });
  // The SDK has no token credentials without TLS.
  const namespace = `localhost:${broker.tlsPort}`;
  const withToken = async (token, use, options) => {
    const credential = {
      async getToken(scopes) {
        assert.equal(String(scopes), "https://servicebus.azure.net//.default");
        return { token, expiresOnTimestamp: Date.now() + 3_600_000 };
      },
    };
    const client = new ServiceBusClient(namespace, credential, options);
    try {
      return await use(client);
    } finally {
      await client.close();
    }
  };
  try {
    await withToken(provider.token("clerk"), async (client) => {
      await client.createSender("orders").sendMessages({ body: "by token" });
      const receiver = client.createReceiver("orders");
      const message = await one(receiver);
      assert.equal(message.body, "by token");
      await receiver.renewMessageLock(message);
      await receiver.completeMessage(message);
    });
    for (const token of [provider.token("guest"), provider.token("clerk", -600), "a.b.c"]) {
      const send = (client) => client.createSender("orders").sendMessages({ body: "refuse me" });
      const options = { retryOptions: { maxRetries: 0 } };
      await rejects(withToken(token, send, options), "UnauthorizedAccess");
    }
  } finally {
    broker.remove();
    fs.rmSync(directory, { recursive: true, force: true });
  }
});

suite.case("wrong-key", (context) =>
  withClient(
    context,
    async (client) => {
      await rejects(client.createSender(context.queue).sendMessages({ body: "" }), "UnauthorizedAccess");
      await rejects(client.createReceiver(context.queue).receiveMessages(1), "UnauthorizedAccess");
    },
    { key: "WRONG_KEY", retryOptions: { maxRetries: 0 } },
  ),
);

module.exports = { PlainWebSocket };
