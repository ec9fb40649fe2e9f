"use strict";
// Topics, subscriptions and their sessions, and what is sent on, with `@azure/service-bus`.

const assert = require("node:assert/strict");
const Long = require("long");
const { Broker } = require("../lib/broker.js");

const KEEP = { maxAutoLockRenewalDurationInMs: 0 };

/** Adds the cases to a suite. */
function declare(suite, kit) {
  const { withClient, one, many, assertEmpty, rejects, bodies, forSessions, certificate } = kit;

  /** Receives `count` messages of a subscription and completes them; then nothing may be left. */
  async function take(client, topic, subscription, count, options = {}) {
    const receiver = client.createReceiver(topic, subscription, { ...KEEP, ...options });
    const taken = count > 0 ? await many(receiver, count) : [];
    for (const message of taken) await receiver.completeMessage(message);
    await assertEmpty(receiver);
    await receiver.close();
    return taken;
  }

  /** Gives a subscription these rules and no others. */
  async function setRules(client, topic, subscription, rules) {
    const manager = client.createRuleManager(topic, subscription);
    for (const [name, filter, action] of rules) await manager.createRule(name, filter, action);
    await manager.deleteRule("$Default");
  }

  suite.case("topics/each-subscription-gets-its-copy", { subscriptions: { a: {}, b: {} } }, (context) =>
    withClient(context, async (client) => {
      const sender = client.createSender(context.queue);
      await sender.sendMessages({ body: "one", messageId: "m1" });
      await sender.sendMessages([{ body: "two" }, { body: "three" }]);
      for (const subscription of ["a", "b"]) {
        const got = await take(client, context.queue, subscription, 3);
        assert.deepEqual(bodies(got), ["one", "two", "three"]);
        assert.deepEqual(got.map(({ sequenceNumber }) => sequenceNumber.toNumber()), [1, 2, 3]);
        assert.equal(got[0].messageId, "m1");
      }
    }),
  );

  suite.case("topics/copies-are-settled-apart", { subscriptions: { a: {}, b: {} } }, (context) =>
    withClient(context, async (client) => {
      await client.createSender(context.queue).sendMessages(["m0", "m1", "m2", "m3"].map((body) => ({ body })));
      const receiver = client.createReceiver(context.queue, "a", KEEP);
      const got = await many(receiver, 4);
      await receiver.completeMessage(got[0]);
      await receiver.deadLetterMessage(got[1], { deadLetterReason: "why" });
      await receiver.deferMessage(got[2]);
      await receiver.abandonMessage(got[3]);
      const [deferred] = await receiver.receiveDeferredMessages(got[2].sequenceNumber);
      assert.equal(deferred.body, "m2");
      await receiver.completeMessage(deferred);
      const again = await one(receiver);
      assert.deepEqual([again.body, again.deliveryCount], ["m3", 1]);
      await receiver.completeMessage(again);
      const [dead] = await take(client, context.queue, "a", 1, { subQueueType: "deadLetter" });
      assert.deepEqual([dead.body, dead.deadLetterReason], ["m1", "why"]);
      assert.deepEqual(bodies(await take(client, context.queue, "b", 4)), ["m0", "m1", "m2", "m3"]);
    }),
  );

  const chosen = { all: {}, none: {}, big: {}, red: {}, changed: {} };
  suite.case("topics/rules-choose", { subscriptions: chosen }, (context) =>
    withClient(context, async (client) => {
      const topic = context.queue;
      await setRules(client, topic, "none", [["never", { sqlExpression: "1 = 0" }]]);
      await setRules(client, topic, "big", [["amount", { sqlExpression: "amount > 100 AND sys.Label LIKE 'o%'" }]]);
      await setRules(client, topic, "red", [["colour", { subject: "order", applicationProperties: { Colour: "red" } }]]);
      const sender = client.createSender(topic);
      const order = (body, applicationProperties) => ({ body, subject: "order", applicationProperties });
      await sender.sendMessages([
        order("small", { amount: 5, colour: "red" }),
        order("large", { amount: 500, colour: "blue" }),
        { body: "other", subject: "x", applicationProperties: { amount: 500 } },
        order("bare"),
      ]);
      const expected = { all: ["small", "large", "other", "bare"], none: [], big: ["large"], red: ["small"] };
      for (const [subscription, wanted] of Object.entries(expected)) {
        assert.deepEqual(bodies(await take(client, topic, subscription, wanted.length)), wanted, subscription);
      }
    }),
  );

  suite.case("topics/actions-change-their-copy", { subscriptions: { changed: {}, all: {} } }, (context) =>
    withClient(context, async (client) => {
      const topic = context.queue;
      await setRules(client, topic, "changed", [
        ["first", { sqlExpression: "amount > 100" }, { sqlExpression: "SET priority = 'high'; REMOVE colour" }],
        ["second", { sqlExpression: "amount > 1000" }, { sqlExpression: "SET amount = amount + 1" }],
      ]);
      const given = { amount: 5_000, colour: "red", priority: "low" };
      await client.createSender(topic).sendMessages({ body: "m", applicationProperties: given });
      const got = await take(client, topic, "changed", 2);
      const byRule = Object.fromEntries(got.map((each) => [each.applicationProperties.RuleName, each]));
      assert.deepEqual(byRule.first.applicationProperties, { amount: 5_000, priority: "high", RuleName: "first" });
      assert.deepEqual(byRule.second.applicationProperties, { ...given, amount: 5_001, RuleName: "second" });
      const [untouched] = await take(client, topic, "all", 1);
      assert.deepEqual(untouched.applicationProperties, given);
    }),
  );

  suite.case("topics/peek", { subscriptions: { a: {} } }, (context) =>
    withClient(context, async (client) => {
      await client.createSender(context.queue).sendMessages({ body: "m" });
      const [message] = await client.createReceiver(context.queue, "a").peekMessages(5);
      assert.deepEqual([message.body, message.state], ["m", "active"]);
    }),
  );

  const expiring = { short: { default_time_to_live: "1s", dead_letter_on_expiration: true }, long: {} };
  suite.case("topics/copies-expire-apart", { subscriptions: expiring }, (context) =>
    withClient(context, async (client) => {
      await client.createSender(context.queue).sendMessages({ body: "m" });
      const [dead] = await take(client, context.queue, "short", 1, { subQueueType: "deadLetter" });
      assert.deepEqual([dead.body, dead.deadLetterReason], ["m", "TTLExpiredException"]);
      assert.deepEqual(bodies(await take(client, context.queue, "long", 1)), ["m"]);
    }),
  );

  suite.case("topics/what-is-refused", { subscriptions: { a: {} } }, (context) =>
    withClient(
      context,
      async (client) => {
        const missing = client.createReceiver(context.queue, "missing", KEEP);
        await rejects(missing.receiveMessages(1, { maxWaitTimeInMs: kit.WAIT }), "MessagingEntityNotFound");
        const topic = client.createReceiver(context.queue, KEEP);
        await assert.rejects(topic.receiveMessages(1, { maxWaitTimeInMs: kit.WAIT }));
        await assert.rejects(client.createSender(`${context.queue}/Subscriptions/a`).sendMessages({ body: "m" }));
      },
      { retryOptions: { maxRetries: 0, timeoutInMs: 10_000 } },
    ),
  );

  suite.case("topics/schedule-and-cancel", async ({ tls, queue }) => {
    const broker = await Broker.start({ [queue]: { subscriptions: { a: {} } } }, { certificate });
    const due = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 600_000);
    try {
      await withClient({ broker, tls }, async (client) => {
        const sender = client.createSender(queue);
        const numbers = await sender.scheduleMessages([{ body: "later" }, { body: "never" }], due);
        await sender.cancelScheduledMessages(numbers[1]);
        await rejects(sender.cancelScheduledMessages(numbers[1]), "MessageNotFound");
        const receiver = client.createReceiver(queue, "a");
        assert.deepEqual(await receiver.peekMessages(5), [], "it waits at the topic");
        await broker.advanceClock(601_000);
        const message = await one(receiver);
        assert.equal(message.body, "later");
        assert.ok(message.enqueuedTimeUtc >= due);
        await receiver.completeMessage(message);
        await assertEmpty(receiver);
      });
    } finally {
      broker.remove();
    }
  });

  suite.case("topics/sessions", { subscriptions: { each: { requires_session: true }, plain: {} } }, (context) =>
    withClient(context, async (client) => {
      const topic = context.queue;
      const sender = client.createSender(topic);
      await sender.sendMessages(forSessions("b1", "a2", "b3", "a4"));
      await sender.sendMessages({ body: "of no session" });
      const first = await client.acceptNextSession(topic, "each", KEEP);
      assert.equal(first.sessionId, "b");
      await first.setSessionState("half way");
      const second = await client.acceptSession(topic, "each", "a", KEEP);
      for (const [receiver, expected] of [[second, ["a2", "a4"]], [first, ["b1", "b3"]]]) {
        assert.deepEqual(bodies(await receiver.peekMessages(9, { fromSequenceNumber: Long.ONE })), expected);
        for (const body of expected) {
          const message = await one(receiver);
          assert.equal(message.body, body);
          await receiver.completeMessage(message);
        }
      }
      assert.equal(await first.getSessionState(), "half way");
      await first.close();
      await second.close();
      const [dead] = await take(client, topic, "each", 1, { subQueueType: "deadLetter" });
      assert.deepEqual([dead.body, dead.deadLetterReason], ["of no session", "Session id is null."]);
      assert.equal((await take(client, topic, "plain", 5)).length, 5);
    }),
  );

  suite.case("transfer-dead-letters", async ({ tls, queue }) => {
    const closed = `${queue}-closed`;
    const queues = { [queue]: { forward_dead_lettered_to: closed }, [closed]: { status: "send-disabled" } };
    const broker = await Broker.start(queues, { certificate });
    try {
      await withClient({ broker, tls }, async (client) => {
        await client.createSender(queue).sendMessages({ body: "bad" });
        const receiver = client.createReceiver(queue, KEEP);
        await receiver.deadLetterMessage(await one(receiver), { deadLetterReason: "unreadable" });
        const transfers = client.createReceiver(queue, { subQueueType: "transferDeadLetter" });
        const message = await one(transfers);
        assert.equal(message.body, "bad");
        assert.ok(message.deadLetterReason && message.deadLetterReason !== "unreadable");
        await transfers.completeMessage(message);
        await assertEmpty(transfers);
      });
    } finally {
      broker.remove();
    }
  });
}

module.exports = { declare };
