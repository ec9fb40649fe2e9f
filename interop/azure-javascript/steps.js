"use strict";
// The suite, and what its cases do over and over.

const assert = require("node:assert/strict");
const { ServiceBusClient } = require("@azure/service-bus");
const { Suite } = require("../lib/cases.js");
const { trustedCertificate } = require("../lib/trusted.js");

const SESSIONS = { requires_session: true };
const WAIT = 30_000; // ms that a message which must come may take
const SILENCE = 1_000; // ms after which a queue counts as empty

const certificate = trustedCertificate();
const suite = new Suite("azure-javascript", { certificate });

/** Runs `use` with a client and closes it, whatever happens. */
async function withClient({ broker, tls }, use, { key, ...options } = {}) {
  const retryOptions = { maxRetries: 3, retryDelayInMs: 200, timeoutInMs: 20_000 };
  const client = new ServiceBusClient(broker.connectionString({ key, tls }), { retryOptions, ...options });
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

async function one(receiver) {
  const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: WAIT });
  assert.ok(message, "no message came");
  return message;
}

async function many(receiver, count) {
  const taken = [];
  while (taken.length < count) {
    const more = await receiver.receiveMessages(count - taken.length, { maxWaitTimeInMs: WAIT });
    assert.ok(more.length > 0, `${taken.length} of ${count} messages came`);
    taken.push(...more);
  }
  return taken;
}

async function assertEmpty(receiver) {
  const left = await receiver.receiveMessages(1, { maxWaitTimeInMs: SILENCE });
  assert.deepEqual(left.map(({ body }) => body), []);
}

async function rejects(promise, code) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.code, code, `${error.code}: ${error.message}`);
    return true;
  });
}

function bodies(messages) {
  return messages.map(({ body }) => body);
}

/** Declares a case that gets a client with a sender and a receiver of its queue. */
function queueCase(name, settings, body) {
  if (typeof settings === "function") [settings, body] = [{}, settings];
  suite.case(name, settings, (context) =>
    withClient(context, async (client) => {
      const sender = client.createSender(context.queue);
      const receiver = client.createReceiver(context.queue, { maxAutoLockRenewalDurationInMs: 0 });
      const deadLetters = client.createReceiver(context.queue, { subQueueType: "deadLetter" });
      await body({ ...context, client, sender, receiver, deadLetters });
    }),
  );
}

/** Messages for sessions: `a1` is of session `a`. */
function forSessions(...texts) {
  return texts.map((text) => ({ body: text, sessionId: text[0] }));
}

module.exports = {
  SESSIONS,
  SILENCE,
  WAIT,
  assertEmpty,
  bodies,
  certificate,
  forSessions,
  many,
  one,
  queueCase,
  rejects,
  suite,
  withClient,
};
