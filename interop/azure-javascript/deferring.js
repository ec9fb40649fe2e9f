"use strict";
// Messages that are set aside and fetched by their numbers.

const assert = require("node:assert/strict");
const Long = require("long");
const { pause } = require("../lib/broker.js");
const { assertEmpty, bodies, many, one, queueCase, rejects } = require("./steps.js");

queueCase("peek-lock-defer", async ({ sender, receiver }) => {
  await sender.sendMessages([{ body: "later" }, { body: "now" }]);
  const deferred = await one(receiver);
  await receiver.deferMessage(deferred);
  const message = await one(receiver);
  assert.equal(message.body, "now");
  await receiver.completeMessage(message);
  await assertEmpty(receiver);
  const peeked = await receiver.peekMessages(5, { fromSequenceNumber: deferred.sequenceNumber });
  assert.deepEqual(bodies(peeked), ["later"]);
  assert.equal(peeked[0].state, "deferred");
});

queueCase("deferred-by-number", async ({ sender, receiver, deadLetters }) => {
  const sent = ["complete", "abandon", "dead-letter", "defer", "renew"];
  await sender.sendMessages(sent.map((body) => ({ body })));
  const taken = await many(receiver, sent.length);
  for (const message of taken) await receiver.deferMessage(message, { deferred: "once" });
  await assertEmpty(receiver);
  const numbers = taken.map(({ sequenceNumber }) => sequenceNumber);
  const got = await receiver.receiveDeferredMessages(numbers);
  assert.deepEqual(bodies(got), sent);
  for (const message of got) {
    assert.equal(message.state, "deferred");
    assert.equal(message.deliveryCount, 1, "deferring counts");
    assert.equal(message.applicationProperties.deferred, "once");
  }
  const [complete, abandon, deadLetter, defer, renew] = got;
  await rejects(receiver.receiveDeferredMessages(numbers[0]), "MessageNotFound");
  const firstEnd = renew.lockedUntilUtc.getTime();
  await pause(20);
  assert.ok((await receiver.renewMessageLock(renew)).getTime() > firstEnd);
  await receiver.completeMessage(complete);
  await receiver.abandonMessage(abandon, { tried: "once" });
  await receiver.deadLetterMessage(deadLetter, { deadLetterReason: "looked at" });
  await receiver.deferMessage(defer);
  await receiver.completeMessage(renew);
  await rejects(receiver.receiveDeferredMessages(numbers[0]), "MessageNotFound");
  const again = await receiver.receiveDeferredMessages([numbers[3], numbers[1]]);
  assert.deepEqual(bodies(again), ["defer", "abandon"]);
  assert.deepEqual(again.map(({ deliveryCount }) => deliveryCount), [2, 2]);
  assert.equal(again[1].applicationProperties.tried, "once");
  for (const message of again) await receiver.completeMessage(message);
  await assertEmpty(receiver);
  const dead = await one(deadLetters);
  assert.ok(dead.sequenceNumber.equals(numbers[2]));
  assert.equal(dead.deadLetterReason, "looked at");
});

queueCase("deferred-receive-and-delete", async ({ client, queue, sender, receiver }) => {
  await sender.sendMessages([{ body: "a" }, { body: "b" }]);
  const taken = await many(receiver, 2);
  for (const message of taken) await receiver.deferMessage(message);
  const deleting = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
  const numbers = taken.map(({ sequenceNumber }) => sequenceNumber);
  assert.deepEqual(bodies(await deleting.receiveDeferredMessages(numbers)), ["a", "b"]);
  assert.deepEqual(await receiver.peekMessages(9, { fromSequenceNumber: Long.ONE }), []);
});
