"use strict";
// What entities permit, drop, cap, number and pass on, with `@azure/service-bus`: status, size, partitions, and what a
// topic does before it copies.

const assert = require("node:assert/strict");
const Long = require("long");
const { Broker } = require("../lib/broker.js");

const KEEP = { maxAutoLockRenewalDurationInMs: 0 };
const PARTITIONED = { enable_partitioning: true };

// Queue, its status, whether it takes and whether it gives messages.
const QUEUES = [
  ["open", "active", true, true],
  ["send", "send-disabled", false, true],
  ["receive", "receive-disabled", true, false],
  ["off", "disabled", false, false],
];
const TOPICS = {
  shut: { status: "disabled", subscriptions: { s: {} } },
  news: { subscriptions: { off: { status: "disabled" }, shut: { status: "receive-disabled" }, on: {} } },
};

/** Partition and count of a number. */
function place({ sequenceNumber }) {
  const number = BigInt(sequenceNumber.toString());
  return [Number(number >> 48n), Number(number & ((1n << 48n) - 1n))];
}

function inAnHour() {
  return new Date(Date.now() + 3_600_000);
}

/** Adds the cases to a suite. */
function declare(suite, kit) {
  const { withClient, queueCase, one, many, assertEmpty, rejects, bodies, certificate } = kit;

  /** Declares a case with a broker of its own that has these entities. */
  function ownBroker(name, entitiesOf, options, body) {
    suite.case(name, async ({ tls, queue }) => {
      const broker = await Broker.start(entitiesOf(queue), { certificate });
      try {
        await withClient({ broker, tls }, (client) => body({ broker, client, queue }), options);
      } finally {
        broker.remove();
      }
    });
  }

  /** Receives `count` messages and completes them; then nothing may be left. */
  async function take(receiver, count) {
    const taken = count > 0 ? await many(receiver, count) : [];
    for (const message of taken) await receiver.completeMessage(message);
    await assertEmpty(receiver);
    await receiver.close();
    return taken;
  }

  /** The call is done where it is permitted, and elsewhere refused as disabled. */
  function permitted(permits, call) {
    return permits ? call() : rejects(call(), "MessagingEntityDisabled");
  }

  const impatient = { retryOptions: { maxRetries: 0, timeoutInMs: 20_000 } };
  const queues = Object.fromEntries(QUEUES.map(([name, status]) => [name, { status }]));
  ownBroker("entity-status", () => ({ ...queues, ...TOPICS }), impatient, async ({ client }) => {
    for (const [name, , takes, gives] of QUEUES) {
      await permitted(takes, () => client.createSender(name).sendMessages({ body: "m" }));
      await permitted(gives, () => take(client.createReceiver(name, KEEP), Number(takes)));
    }
    await permitted(false, () => client.createSender("shut").sendMessages({ body: "m" }));
    await take(client.createReceiver("shut", "s", KEEP), 0);
    await client.createSender("news").sendMessages({ body: "m" });
    for (const [name, gives] of [["off", false], ["shut", false], ["on", true]]) {
      await permitted(gives, () => take(client.createReceiver("news", name, KEEP), 1));
    }
  });

  queueCase("entity-full", { max_size_bytes: 20_000 }, async ({ client, queue, sender }) => {
    const half = "x".repeat(12_000);
    await sender.sendMessages({ body: half });
    for (const more of [{ body: half }, [{ body: "small" }, { body: half }]]) {
      await rejects(sender.sendMessages(more), "QuotaExceeded");
    }
    // What fits is taken all the same, and there is room again when something has gone.
    await sender.sendMessages({ body: "small" });
    assert.deepEqual(bodies(await take(client.createReceiver(queue, KEEP), 2)), [half, "small"]);
    await sender.sendMessages({ body: half });
  });

  queueCase("partitions", PARTITIONED, async ({ sender, receiver, deadLetters }) => {
    for (const body of ["a0", "a1", "b0", "a2", "b1"]) {
      await sender.sendMessages({ body, partitionKey: body[0] });
    }
    await sender.sendMessages([{ body: "c0" }, { body: "c1" }]);
    const peeked = await receiver.peekMessages(20, { fromSequenceNumber: Long.ONE });
    const taken = await many(receiver, 7);
    assert.deepEqual(bodies(peeked).sort(), bodies(taken).sort());
    for (const [name, count] of [["a", 3], ["b", 2], ["c", 2]]) {
      const mine = taken.filter(({ body }) => body[0] === name);
      const expected = Array.from({ length: count }, (_, number) => `${name}${number}`);
      assert.deepEqual(bodies(mine), expected, "in order");
      const partition = place(mine[0])[0];
      assert.deepEqual(mine.map(place), expected.map((_, number) => [partition, number + 1]));
      for (const message of mine) {
        assert.equal(message._rawAmqpMessage.messageAnnotations["x-opt-partition-id"], partition);
        assert.equal(message.partitionKey, name === "c" ? undefined : name);
      }
    }
    const [dead, ...others] = taken;
    await receiver.deadLetterMessage(dead, { deadLetterReason: "seen" });
    for (const message of others) await receiver.completeMessage(message);
    const letter = await one(deadLetters);
    assert.ok(letter.sequenceNumber.equals(dead.sequenceNumber), "a dead letter keeps its number");
    await deadLetters.completeMessage(letter);
  });

  queueCase("partitions-by-number", PARTITIONED, async ({ sender, receiver }) => {
    await sender.sendMessages({ body: "now", partitionKey: "b" });
    const later = ["a", "b"].map((key) => ({ body: key, partitionKey: key }));
    const numbers = await sender.scheduleMessages(later, inAnHour());
    const [first, second] = numbers.map((sequenceNumber) => place({ sequenceNumber })[0]);
    assert.notEqual(first, second);
    await sender.cancelScheduledMessages(numbers[0]);
    await rejects(sender.cancelScheduledMessages(numbers[0]), "MessageNotFound");
    const message = await one(receiver);
    await receiver.deferMessage(message);
    const shown = await receiver.peekMessages(9, { fromSequenceNumber: message.sequenceNumber });
    assert.deepEqual(shown.map(({ state }) => state), ["deferred", "scheduled"]);
    const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
    assert.equal(deferred.body, "now");
    await receiver.completeMessage(deferred);
  });

  queueCase("partition-keys-refused", PARTITIONED, async ({ sender, receiver }) => {
    const several = ["a", "b"].map((key) => ({ body: key, partitionKey: key }));
    await assert.rejects(sender.sendMessages(several), /partition key/);
    await sender.sendMessages({ body: "s", sessionId: "s", partitionKey: "s" });
    const message = await one(receiver);
    assert.equal(message.body, "s");
    await receiver.completeMessage(message);
    await assertEmpty(receiver);
  });

  suite.case("topics/a-failing-rule-makes-a-dead-letter", { subscriptions: { bad: {}, good: {} } }, (context) =>
    withClient(context, async (client) => {
      const topic = context.queue;
      const rules = client.createRuleManager(topic, "bad");
      await rules.deleteRule("$Default");
      await rules.createRule("r", { sqlExpression: "sys.Nope = 1" });
      await client.createSender(topic).sendMessages({ body: "m" });
      assert.deepEqual(bodies(await take(client.createReceiver(topic, "good", KEEP), 1)), ["m"]);
      await take(client.createReceiver(topic, "bad", KEEP), 0);
      const [dead] = await take(client.createReceiver(topic, "bad", { subQueueType: "deadLetter" }), 1);
      assert.deepEqual([dead.body, dead.deadLetterReason], ["m", "FilterException"]);
    }),
  );

  const detecting = { requires_duplicate_detection: true, subscriptions: { a: {}, b: {} } };
  suite.case("topics/duplicate-detection", detecting, (context) =>
    withClient(context, async (client) => {
      const sender = client.createSender(context.queue);
      await sender.sendMessages({ body: "first", messageId: "one" });
      await sender.sendMessages({ body: "again", messageId: "one" });
      const batch = [["two", "a"], ["two", "b"], ["one", "c"], ["three", "d"]];
      await sender.sendMessages(batch.map(([messageId, body]) => ({ messageId, body })));
      await sender.scheduleMessages({ body: "scheduled", messageId: "three" }, inAnHour());
      for (const name of ["a", "b"]) {
        const taken = await take(client.createReceiver(context.queue, name, KEEP), 3);
        assert.deepEqual(bodies(taken), ["first", "a", "d"], name);
      }
      // The copies are gone, the id is known still.
      await sender.sendMessages({ body: "completed before", messageId: "one" });
      await take(client.createReceiver(context.queue, "a", KEEP), 0);
    }),
  );

  const brief = { default_time_to_live: "PT100S", dead_letter_on_expiration: true };
  const long = { default_time_to_live: "PT1H", dead_letter_on_expiration: true };
  const expiring = (queue) => ({ [queue]: { default_time_to_live: "PT200S", subscriptions: { brief, long } } });
  ownBroker("topics/shorter-lifetime", expiring, {}, async ({ broker, client, queue: topic }) => {
    await client.createSender(topic).sendMessages({ body: "m", timeToLive: 86_400_000 });
    const receiver = client.createReceiver(topic, "long", KEEP);
    const [peeked] = await receiver.peekMessages(9);
    assert.equal(peeked.timeToLive, 200_000, "the topic's is smaller than the subscription's");
    for (const [name, time] of [["brief", 110_000], ["long", 100_000]]) {
      assert.deepEqual(bodies(await receiver.peekMessages(9, { fromSequenceNumber: Long.ONE })), ["m"]);
      await broker.advanceClock(time);
      const [letter] = await take(client.createReceiver(topic, name, { subQueueType: "deadLetter" }), 1);
      assert.deepEqual([letter.body, letter.deadLetterReason], ["m", "TTLExpiredException"], name);
    }
    assert.deepEqual(await receiver.peekMessages(9, { fromSequenceNumber: Long.ONE }), []);
  });

  const passing = (queue) => ({
    work: {},
    morgue: {},
    [queue]: { subscriptions: { on: { forward_to: "work" }, dead: { forward_dead_lettered_to: "morgue" } } },
  });
  ownBroker("topics/forwarding", passing, {}, async ({ client, queue: topic }) => {
    const rules = client.createRuleManager(topic, "on");
    await rules.createRule("r", { sqlExpression: "n = 1" }, { sqlExpression: "SET seen = 'yes'" });
    await rules.deleteRule("$Default");
    const sender = client.createSender(topic);
    await sender.sendMessages({ body: "zero", applicationProperties: { n: 0 } });
    await sender.sendMessages({ body: "one", applicationProperties: { n: 1 } });
    const [forwarded] = await take(client.createReceiver("work", KEEP), 1);
    assert.deepEqual([forwarded.body, forwarded.enqueuedSequenceNumber], ["one", 2]);
    assert.deepEqual(forwarded.applicationProperties, { n: 1, seen: "yes", RuleName: "r" });
    const receiver = client.createReceiver(topic, "dead", KEEP);
    await receiver.deadLetterMessage(await one(receiver), { deadLetterReason: "unreadable" });
    const [letter] = await take(client.createReceiver("morgue", KEEP), 1);
    assert.deepEqual([letter.body, letter.deadLetterReason], ["zero", "unreadable"]);
    assert.equal(letter.deadLetterSource, `${topic}/Subscriptions/dead`);
  });
}

module.exports = { declare };
