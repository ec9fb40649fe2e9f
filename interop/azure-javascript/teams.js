"use strict";
// Three namespaces of one broker: each with its queue of one name and its own key, and with limits.

const assert = require("node:assert/strict");
const { ServiceBusClient } = require("@azure/service-bus");
const WebSocket = require("ws");
const { QUEUE, withThreeNamespaces } = require("../lib/namespaces.js");
const { PlainWebSocket } = require("./login.js");
const { bodies, certificate, one, rejects, suite } = require("./steps.js");

const LARGE = "x".repeat(30_000);

/** Runs `use` with a client of a namespace, and closes it. */
async function withTeam(namespace, tls, use, { key, byName = false, ...options } = {}) {
  const retryOptions = { maxRetries: 0, timeoutInMs: 20_000 };
  // The SDK is told that one address has all names of the domain, which no DNS knows.
  const named = byName ? { customEndpointAddress: `sb://127.0.0.1:${namespace.broker.tlsPort}` } : {};
  const text = namespace.connectionString({ tls, key, host: byName ? namespace.domain : namespace.host });
  const client = new ServiceBusClient(text, { retryOptions, ...named, ...options });
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

/** A client of each, all at the same time: each finds in its queue what it has sent, and nothing else. */
async function sendToEach(namespaces, tls, options) {
  let waiting = namespaces.length;
  let go;
  const allSent = new Promise((resolve) => (go = resolve));
  const play = (namespace) =>
    withTeam(
      namespace,
      tls,
      async (client) => {
        await client.createSender(QUEUE).sendMessages({ body: `for ${namespace.name}` });
        if (--waiting === 0) go();
        await allSent;
        const receiver = client.createReceiver(QUEUE);
        assert.deepEqual(bodies(await receiver.peekMessages(10)), [`for ${namespace.name}`]);
        await receiver.completeMessage(await one(receiver));
        assert.equal((await namespace.usage()).connections, 1);
      },
      options,
    );
  await Promise.all(namespaces.map(play));
}

suite.case("namespaces", async ({ tls }) => {
  await withThreeNamespaces(certificate, async (broker, namespaces) => {
    await sendToEach(namespaces, tls, { byName: tls });
    const [standard, teamA, teamB] = namespaces;
    for (const [namespace, other] of [[teamA, teamB], [standard, teamA]]) {
      const send = (client) => client.createSender(QUEUE).sendMessages({ body: "" });
      await rejects(withTeam(namespace, tls, send, { key: other.key }), "UnauthorizedAccess");
    }
  });
});

suite.case("namespaces-web-socket", async ({ tls }) => {
  await withThreeNamespaces(certificate, async (broker, namespaces) => {
    await sendToEach(namespaces, tls, { webSocketOptions: { webSocket: tls ? WebSocket : PlainWebSocket } });
  });
});

suite.case("namespace-max-bytes", async ({ tls }) => {
  await withThreeNamespaces(certificate, async (broker, [, teamA, teamB]) => {
    await teamA.put({ max_bytes: 20_000 });
    await withTeam(teamA, tls, async (client) => {
      const sender = client.createSender(QUEUE);
      const full = async () => {
        for (let sent = 0; sent < 3; sent++) await sender.sendMessages({ body: LARGE });
      };
      await assert.rejects(full(), ({ code, message }) => {
        assert.equal(code, "QuotaExceeded", message);
        assert.match(message, /takes at most 20000/);
        return true;
      });
      await withTeam(teamB, tls, (other) => other.createSender(QUEUE).sendMessages({ body: LARGE }));
      // Receiving goes on, and makes room.
      const receiver = client.createReceiver(QUEUE);
      await receiver.completeMessage(await one(receiver));
      await sender.sendMessages({ body: "small" });
      await teamA.put();
      await sender.sendMessages({ body: LARGE });
    });
  });
});
