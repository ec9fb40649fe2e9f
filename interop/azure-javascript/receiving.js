"use strict";
// Messages under a lock and what becomes of them, receiving without a lock, looking only.

const assert = require("node:assert/strict");
const Long = require("long");
const { pause } = require("../lib/broker.js");
const { RENEWED_LOCK, SHORT_LOCK } = require("../lib/cases.js");
const { assertEmpty, bodies, many, one, queueCase, rejects, withClient } = require("./steps.js");

queueCase("peek-lock-complete", async ({ sender, receiver }) => {
  await sender.sendMessages([{ body: "one" }, { body: "two" }]);
  for (const expected of ["one", "two"]) {
    const message = await one(receiver);
    assert.equal(message.body, expected);
    assert.equal(message.deliveryCount, 0);
    await receiver.completeMessage(message);
  }
  await assertEmpty(receiver);
});

queueCase("peek-lock-abandon", async ({ sender, receiver }) => {
  await sender.sendMessages([{ body: "one" }, { body: "two" }]);
  const first = await one(receiver);
  await receiver.abandonMessage(first, { tried: "once" });
  const again = await one(receiver);
  assert.equal(again.body, "one", "an abandoned message keeps its place");
  assert.ok(again.sequenceNumber.equals(first.sequenceNumber));
  assert.equal(again.deliveryCount, 1);
  assert.equal(again.applicationProperties.tried, "once");
  assert.notEqual(again.lockToken, first.lockToken);
  await receiver.completeMessage(again);
  await receiver.completeMessage(await one(receiver));
  await assertEmpty(receiver);
});

queueCase("peek-lock-dead-letter", async ({ sender, receiver, deadLetters }) => {
  await sender.sendMessages([{ body: "bad" }, { body: "worse" }]);
  await receiver.deadLetterMessage(await one(receiver), {
    deadLetterReason: "unreadable",
    deadLetterErrorDescription: "the total is not a number",
    line: 5,
  });
  await receiver.deadLetterMessage(await one(receiver));
  await assertEmpty(receiver);
  const [bad, worse] = await many(deadLetters, 2);
  assert.equal(bad.body, "bad");
  assert.equal(bad.deadLetterReason, "unreadable");
  assert.equal(bad.deadLetterErrorDescription, "the total is not a number");
  assert.equal(bad.applicationProperties.line, 5);
  assert.equal(worse.body, "worse");
  assert.equal(worse.deadLetterReason, undefined);
  await deadLetters.completeMessage(bad);
  await deadLetters.completeMessage(worse);
  await assertEmpty(deadLetters);
});

queueCase("receive-and-delete", async ({ client, queue, sender }) => {
  await sender.sendMessages([{ body: "a" }, { body: "b" }, { body: "c" }]);
  const receiver = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
  assert.deepEqual(bodies(await many(receiver, 3)), ["a", "b", "c"]);
  await assertEmpty(receiver);
  assert.deepEqual(await receiver.peekMessages(1), []);
});

queueCase("subscribe", async ({ sender, receiver }) => {
  const seen = [];
  const all = new Promise((resolve, reject) => {
    receiver.subscribe(
      {
        processMessage: async ({ body }) => {
          seen.push(body);
          if (seen.length === 20) resolve();
        },
        processError: async ({ error }) => reject(error),
      },
      { maxConcurrentCalls: 4 },
    );
  });
  await sender.sendMessages(Array.from({ length: 20 }, (_, number) => ({ body: number })));
  await all;
  await receiver.close();
  assert.deepEqual(seen.sort((a, b) => a - b), [...Array(20).keys()]);
});

queueCase("lock-renewal", RENEWED_LOCK, async ({ client, queue, sender, receiver }) => {
  await sender.sendMessages({ body: "long work" });
  const message = await one(receiver);
  const firstEnd = message.lockedUntilUtc.getTime();
  await pause(7_000); // so that the renewed lock outlives the first one by as much
  const renewed = await receiver.renewMessageLock(message);
  assert.ok(renewed.getTime() >= firstEnd + 4_500, `${renewed.getTime() - firstEnd} ms`);
  await pause(firstEnd - Date.now() + 300);
  const other = client.createReceiver(queue);
  await assertEmpty(other);
  await receiver.completeMessage(message);
  assert.deepEqual(await receiver.peekMessages(1, { fromSequenceNumber: Long.ONE }), []);
});

queueCase("lock-loss", SHORT_LOCK, async ({ sender, receiver }) => {
  await sender.sendMessages({ body: "too slow" });
  const message = await one(receiver);
  await pause(message.lockedUntilUtc.getTime() - Date.now() + 300);
  await rejects(receiver.renewMessageLock(message), "MessageLockLost");
  await rejects(receiver.completeMessage(message), "MessageLockLost");
  const again = await one(receiver);
  assert.equal(again.body, "too slow");
  assert.equal(again.deliveryCount, 1);
  await receiver.completeMessage(again);
});

queueCase("delivery-count-to-dead-letter", { max_delivery_count: 3 }, async ({ sender, receiver, deadLetters }) => {
  await sender.sendMessages({ body: "poison" });
  for (let failed = 0; failed < 3; failed++) {
    const message = await one(receiver);
    assert.equal(message.deliveryCount, failed);
    await receiver.abandonMessage(message);
  }
  await assertEmpty(receiver);
  const message = await one(deadLetters);
  assert.equal(message.body, "poison");
  assert.equal(message.deadLetterReason, "MaxDeliveryCountExceeded");
  assert.ok(message.deadLetterErrorDescription);
  await deadLetters.completeMessage(message);
});

queueCase("peek", async ({ sender, receiver }) => {
  await sender.sendMessages(Array.from({ length: 10 }, (_, number) => ({ body: number })));
  const held = await one(receiver);
  const seen = [];
  while (seen.length < 10) {
    const fromSequenceNumber = seen.length > 0 ? seen.at(-1).sequenceNumber.add(1) : held.sequenceNumber;
    const more = await receiver.peekMessages(4, { fromSequenceNumber });
    assert.ok(more.length > 0, `peeked ${seen.length} of 10`);
    seen.push(...more);
  }
  assert.deepEqual(bodies(seen), [...Array(10).keys()]);
  assert.ok(seen.every(({ state, lockToken }) => state === "active" && lockToken === undefined));
  const [bare] = await receiver.peekMessages(1, { fromSequenceNumber: held.sequenceNumber, omitMessageBody: true });
  assert.ok(bare.sequenceNumber.equals(held.sequenceNumber));
  assert.deepEqual([bare.body, bare.messageId], [undefined, held.messageId]);
  await receiver.completeMessage(held);
  for (const message of await many(receiver, 9)) {
    assert.equal(message.deliveryCount, 0, "peeking is not delivering");
    await receiver.completeMessage(message);
  }
});

queueCase("two-competing-receivers", async (context) => {
  const { sender, receiver: left } = context;
  await sender.sendMessages(Array.from({ length: 10 }, (_, number) => ({ body: number })));
  await withClient(context, async (otherClient) => {
    const right = otherClient.createReceiver(context.queue);
    const [mine, theirs] = await Promise.all([many(left, 5), many(right, 5)]);
    const seen = bodies([...mine, ...theirs]).sort((a, b) => a - b);
    assert.deepEqual(seen, [...Array(10).keys()]);
    await Promise.all(mine.map((message) => left.completeMessage(message)));
    await Promise.all(theirs.map((message) => right.completeMessage(message)));
    await assertEmpty(left);
  });
});

queueCase("receive-time-out-on-empty-queue", async ({ sender, receiver }) => {
  const started = Date.now();
  assert.deepEqual(await receiver.receiveMessages(5, { maxWaitTimeInMs: 1_000 }), []);
  assert.ok(Date.now() - started < 15_000);
  // The drain was answered in time, so the receiver still works.
  await sender.sendMessages({ body: "after the silence" });
  const message = await one(receiver);
  assert.equal(message.body, "after the silence");
  await receiver.completeMessage(message);
});

queueCase("settle-after-the-link-is-gone", async ({ client, queue, sender, deadLetters }) => {
  await sender.sendMessages([{ body: "complete me" }, { body: "dead-letter me" }]);
  const gone = client.createReceiver(queue);
  const [first, second] = await many(gone, 2);
  await gone.close();
  // The SDK settles through `$management` by lock token when the link is closed.
  const other = client.createReceiver(queue);
  await other.completeMessage(first);
  await other.deadLetterMessage(second, { deadLetterReason: "late" });
  await assertEmpty(other);
  const message = await one(deadLetters);
  assert.equal(message.body, "dead-letter me");
  assert.equal(message.deadLetterReason, "late");
  await deadLetters.completeMessage(message);
});
