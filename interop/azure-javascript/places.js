"use strict";
// Where messages end up, and links that are refused, come back, and meet a broker that was restarted.

const assert = require("node:assert/strict");
const Long = require("long");
const { Broker } = require("../lib/broker.js");
const { WAIT, assertEmpty, bodies, certificate, many, one, queueCase, rejects, suite, withClient } = require("./steps.js");

queueCase("missing-queue", async ({ client }) => {
  const [sender, receiver] = [client.createSender("no-such-queue"), client.createReceiver("no-such-queue")];
  await rejects(sender.sendMessages({ body: "" }), "MessagingEntityNotFound");
  await rejects(receiver.receiveMessages(1), "MessagingEntityNotFound");
  await rejects(receiver.peekMessages(1), "MessagingEntityNotFound");
});

queueCase("link-close-and-reopen", async ({ client, queue }) => {
  for (let round = 0; round < 3; round++) {
    const sender = client.createSender(queue);
    await sender.sendMessages({ body: round });
    await sender.close();
    const receiver = client.createReceiver(queue);
    const message = await one(receiver);
    assert.equal(message.body, round);
    await receiver.completeMessage(message);
    await receiver.close();
  }
});

queueCase("duplicate-detection", { requires_duplicate_detection: true }, async ({ sender, receiver }) => {
  await sender.sendMessages({ body: "first", messageId: "one" });
  await sender.sendMessages({ body: "again", messageId: "one" });
  await sender.sendMessages([
    { body: "number", messageId: 5 },
    { body: "text", messageId: "5" },
    { body: "other", messageId: "two" },
  ]);
  await sender.scheduleMessages({ body: "scheduled", messageId: "two" }, new Date(Date.now() + 3_600_000));
  const taken = await many(receiver, 3);
  assert.deepEqual(bodies(taken), ["first", "number", "other"]);
  for (const message of taken) await receiver.completeMessage(message);
  assert.deepEqual(await receiver.peekMessages(9, { fromSequenceNumber: Long.ONE }), []);
  await sender.sendMessages({ body: "completed before", messageId: "one" });
  await assertEmpty(receiver);
});

queueCase("forwarding", { forward_to: "{queue}-target" }, async ({ client, queue, sender }) => {
  await sender.sendMessages([{ body: "a" }, { body: "b" }]);
  const target = client.createReceiver(`${queue}-target`);
  const taken = await many(target, 2);
  assert.deepEqual(bodies(taken), ["a", "b"]);
  assert.deepEqual(taken.map((message) => message.enqueuedSequenceNumber), [1, 2]);
  for (const message of taken) await target.completeMessage(message);
  const refused = client.createReceiver(queue).receiveMessages(1, { maxWaitTimeInMs: WAIT });
  await assert.rejects(refused, /forwards its messages/);
});

queueCase(
  "forwarding-of-dead-letters",
  { forward_dead_lettered_to: "{queue}-morgue" },
  async ({ client, queue, sender, receiver }) => {
    await sender.sendMessages({ body: "bad" });
    await receiver.deadLetterMessage(await one(receiver), { deadLetterReason: "unreadable" });
    const morgue = client.createReceiver(`${queue}-morgue`);
    const message = await one(morgue);
    assert.equal(message.deadLetterReason, "unreadable");
    assert.equal(message.deadLetterSource, queue);
    await morgue.completeMessage(message);
  },
);

suite.case("topics/rules-are-managed", { subscriptions: { s: {} } }, (context) =>
  withClient(context, async (client) => {
    const rules = client.createRuleManager(context.queue, "s");
    const listed = async () => {
      const found = [];
      // The SDK shows one rule that is none behind the last page.
      for await (const rule of rules.listRules()) if (rule) found.push(rule);
      return found;
    };
    assert.deepEqual((await listed()).map(({ name, filter }) => [name, filter.sqlExpression]), [["$Default", "1=1"]]);
    await rules.createRule("equal", { subject: "order", applicationProperties: { colour: "red", n: 5 } });
    await rules.createRule("large", { sqlExpression: "n > 3" }, { sqlExpression: "SET big = 'yes'" });
    const [, equal, large] = await listed();
    assert.equal(equal.filter.subject, "order");
    assert.deepEqual(equal.filter.applicationProperties, { colour: "red", n: 5 });
    assert.deepEqual([large.filter.sqlExpression, large.action.sqlExpression], ["n > 3", "SET big = 'yes'"]);
    await rejects(rules.createRule("large", { sqlExpression: "1=1" }), "MessagingEntityAlreadyExists");
    await assert.rejects(rules.createRule("bad", { sqlExpression: "n >" }), /line 1, column 4/);
    await rejects(rules.deleteRule("missing"), "MessagingEntityNotFound");
    await rules.deleteRule("$Default");

    const wanted = { colour: "red", n: 5 };
    const sender = client.createSender(context.queue);
    await sender.sendMessages([
      { body: "both", subject: "order", applicationProperties: wanted },
      { body: "neither", applicationProperties: { n: 1 } },
    ]);
    const receiver = client.createReceiver(context.queue, "s");
    const [plain, changed] = await many(receiver, 2);
    assert.deepEqual([plain.body, plain.applicationProperties], ["both", wanted]);
    assert.deepEqual([changed.body, changed.applicationProperties], ["both", { ...wanted, big: "yes", RuleName: "large" }]);
    await receiver.completeMessage(plain);
    await receiver.deadLetterMessage(changed, { deadLetterReason: "why" });
    await assertEmpty(receiver);
    const dead = client.createReceiver(context.queue, "s", { subQueueType: "deadLetter" });
    const letter = await one(dead);
    assert.deepEqual([letter.deadLetterReason, letter.applicationProperties.RuleName], ["why", "large"]);
    await dead.completeMessage(letter);
  }),
);

suite.case("broker-restart", async ({ tls, queue }) => {
  const broker = await Broker.start({ [queue]: {} }, { durability: "fsync", certificate });
  try {
    await withClient(
      { broker, tls },
      async (client) => {
        const sender = client.createSender(queue);
        await sender.sendMessages({ body: "before the crash" });
        await one(client.createReceiver(queue)); // locked when the broker dies
        await broker.restart({ kill: true });
        await sender.sendMessages({ body: "after the crash" });
        await broker.restart();
        const receiver = client.createReceiver(queue);
        for (const expected of ["before the crash", "after the crash"]) {
          const message = await one(receiver);
          assert.equal(message.body, expected);
          await receiver.completeMessage(message);
        }
        await assertEmpty(receiver);
      },
      { retryOptions: { maxRetries: 10, retryDelayInMs: 200, timeoutInMs: 20_000 } },
    );
  } finally {
    broker.remove();
  }
});
