"use strict";
// Three namespaces of one broker: each with its queue of one name and its own key, and with limits.

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { ServiceBusClient } = require("@azure/service-bus");
const WebSocket = require("ws");
const { pause } = require("../lib/broker.js");
const { QUEUE, withThreeNamespaces } = require("../lib/namespaces.js");
const { run } = require("../lib/programs.js");
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
        // That of the program which made the queue has ended.
        for (const end = Date.now() + 10_000; (await namespace.usage()).connections !== 1; await pause(20)) {
          assert.ok(Date.now() < end, "one connection");
        }
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

/** What must fail in each of its tries, all of which the SDK makes again, with this text. */
async function turnedAway(promise, text) {
  await assert.rejects(promise, (error) => {
    const tries = error.errors ?? [error];
    // A try may have begun on the connection that the broker closes, and does not see that.
    const last = tries.at(-1);
    assert.match(last.message, text);
    assert.deepEqual([last.code, last.retryable], ["GeneralError", true], last.message);
    return true;
  });
}

const TWICE = { retryOptions: { maxRetries: 1, retryDelayInMs: 100, timeoutInMs: 20_000 } };

suite.case("namespace-held", async ({ tls }) => {
  await withThreeNamespaces(certificate, async (broker, [, teamA, teamB]) => {
    const use = async (client) => {
      const sender = client.createSender(QUEUE);
      await sender.sendMessages({ body: "before" });
      await teamA.put({}, { held: true });
      while ((await teamA.usage()).connections > 0) await pause(5);
      await turnedAway(sender.sendMessages({ body: "never" }), /is held for maintenance/);
      const receiver = client.createReceiver(QUEUE);
      await turnedAway(receiver.receiveMessages(1), /is held for maintenance/);
      await withTeam(teamB, tls, (other) => other.createSender(QUEUE).sendMessages({ body: "elsewhere" }));
      await teamA.put();
      await sender.sendMessages({ body: "after" });
      for (const body of ["before", "after"]) {
        const message = await one(receiver);
        assert.equal(message.body, body);
        await receiver.completeMessage(message);
      }
    };
    await withTeam(teamA, tls, use, TWICE);
  });
});

suite.case("namespace-max-connections", async ({ tls }) => {
  await withThreeNamespaces(certificate, async (broker, [, teamA]) => {
    const use = async (first) => {
      const sender = first.createSender(QUEUE);
      await sender.sendMessages({ body: "first" });
      await teamA.put({ max_connections: 1 });
      await withTeam(
        teamA,
        tls,
        async (second) => {
          const late = second.createSender(QUEUE);
          await turnedAway(late.sendMessages({ body: "never" }), /ConnectionsQuotaExceeded/);
          await sender.sendMessages({ body: "the first one goes on" });
          await teamA.put({ max_connections: 2 });
          await late.sendMessages({ body: "second" });
        },
        TWICE,
      );
    };
    await withTeam(teamA, tls, use, TWICE);
  });
});

/** What fails with the SDK's own error for a limit, which it does not try again. */
async function overQuota(promise, text) {
  await assert.rejects(promise, ({ name, code, retryable, message }) => {
    assert.deepEqual([name, code, retryable], ["ServiceBusError", "QuotaExceeded", false], message);
    assert.match(message, text);
    return true;
  });
}

suite.case("namespace-limits-web-socket", async ({ tls }) => {
  const options = { webSocketOptions: { webSocket: tls ? WebSocket : PlainWebSocket } };
  const bytes = async (teamA, teamB, client) => {
    const sender = client.createSender(QUEUE);
    await teamA.put({ max_bytes: 20_000 });
    await sender.sendMessages({ body: LARGE });
    await overQuota(sender.sendMessages({ body: LARGE }), /takes at most 20000/);
    await withTeam(teamB, tls, (other) => other.createSender(QUEUE).sendMessages({ body: LARGE }), options);
    const receiver = client.createReceiver(QUEUE);
    await receiver.completeMessage(await one(receiver));
    await sender.sendMessages({ body: "there is room" });
  };
  const entities = async (teamA, client) => {
    await teamA.put({ max_entities: 1 });
    // On a broker that creates queues by itself, a sender to another one is an entity more.
    const second = client.createSender("second");
    await overQuota(second.sendMessages({ body: "never" }), /The limit of 1 entities is reached/);
    await client.createSender(QUEUE).sendMessages({ body: "the first queue goes on" });
    await teamA.put({ max_entities: 2 });
    await second.sendMessages({ body: "there is room" });
    assert.deepEqual(bodies(await client.createReceiver("second").peekMessages(10)), ["there is room"]);
  };
  const connections = async (teamA, client) => {
    await teamA.put({ max_connections: 1 });
    const use = async (other) => {
      const late = other.createSender(QUEUE);
      await turnedAway(late.sendMessages({ body: "never" }), /ConnectionsQuotaExceeded/);
      await client.createSender(QUEUE).sendMessages({ body: "the first client goes on" });
      await teamA.put({ max_connections: 2 });
      await late.sendMessages({ body: "there is room" });
    };
    await withTeam(teamA, tls, use, { ...options, ...TWICE });
  };
  const use = (broker, [, teamA, teamB]) => {
    const all = async (client) => {
      await bytes(teamA, teamB, client);
      await entities(teamA, client);
      await connections(teamA, client);
    };
    return withTeam(teamA, tls, all, options);
  };
  await withThreeNamespaces(certificate, use, { autoCreate: true });
});

suite.case("documented-namespaces", async () => {
  const page = fs.readFileSync(path.join(__dirname, "..", "..", "docs", "features", "namespaces.md"), "utf8");
  const program = page.split("```javascript\n")[1].split("\n```\n")[0];
  await withThreeNamespaces(certificate, async (broker, [, teamA, teamB]) => {
    for (const [team, text] of [[teamA, "tea"], [teamB, "coffee"]]) {
      // Behind `-e` the first argument of a program has the place of its path: a word stands for that.
      const words = ["-e", program, "team.js", team.connectionString({ tls: false }), text];
      const done = await run(process.execPath, words, { cwd: __dirname });
      assert.deepEqual([done.status, done.stdout], [0, `${text}\n`], done.stderr);
    }
  });
});
