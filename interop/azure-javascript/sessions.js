"use strict";
// Sessions: taken, in order, with a state, deferred.

const assert = require("node:assert/strict");
const Long = require("long");
const { pause } = require("../lib/broker.js");
const { SESSIONS, bodies, forSessions, one, queueCase, rejects, withClient } = require("./steps.js");

/** Accepting sessions without the SDK's own retries. */
function withoutRetries(context, timeoutInMs, use) {
  return withClient(context, use, { retryOptions: { maxRetries: 0, timeoutInMs } });
}

const KEEP = { maxAutoLockRenewalDurationInMs: 0 };

queueCase("session-accept", SESSIONS, async (context) => {
  const { client, queue, sender } = context;
  await withoutRetries(context, 5_000, (impatient) => rejects(impatient.acceptNextSession(queue, KEEP), "ServiceTimeout"));
  await sender.sendMessages(forSessions("b1", "a2", "c3"));
  const first = await client.acceptNextSession(queue, KEEP);
  assert.equal(first.sessionId, "b");
  assert.ok(first.sessionLockedUntilUtc > new Date());
  await withoutRetries(context, 20_000, (other) =>
    rejects(other.acceptSession(queue, "b", KEEP), "SessionCannotBeLocked"),
  );
  const named = await client.acceptSession(queue, "c", KEEP);
  const third = await one(named);
  assert.deepEqual([third.body, third.sessionId], ["c3", "c"]);
  await named.completeMessage(third);
  await named.close();
  assert.equal((await one(first)).body, "b1");
  await first.close();
  // Given up with a message unsettled: it is free, and the message does not count as failed.
  const again = await client.acceptSession(queue, "b", KEEP);
  const message = await one(again);
  assert.deepEqual([message.body, message.deliveryCount], ["b1", 0]);
  await again.completeMessage(message);
  await again.close();
  await rejects(sender.sendMessages({ body: "of no session" }), "GeneralError");
});

queueCase("session-order", SESSIONS, async ({ client, queue, sender }) => {
  const numbers = Array.from({ length: 20 }, (_, number) => number);
  await sender.sendMessages(forSessions(...numbers.flatMap((number) => [`a${number}`, `b${number}`, `c${number}`])));
  const workOff = async (session) => {
    const receiver = await client.acceptSession(queue, session, KEEP);
    const seen = [];
    while (seen.length < 20) {
      const message = await one(receiver);
      if (seen.length % 5 === 2 && message.deliveryCount === 0) {
        await receiver.abandonMessage(message);
        continue;
      }
      seen.push(message.body);
      await receiver.completeMessage(message);
    }
    assert.deepEqual(seen, numbers.map((number) => `${session}${number}`));
    await receiver.close();
  };
  await Promise.all(["a", "b", "c"].map(workOff));
});

queueCase("session-state", SESSIONS, async ({ client, queue }) => {
  const receiver = await client.acceptSession(queue, "s", KEEP);
  assert.equal(await receiver.getSessionState(), null);
  await receiver.setSessionState({ step: 1 });
  assert.deepEqual(await receiver.getSessionState(), { step: 1 });
  const until = receiver.sessionLockedUntilUtc;
  await pause(100);
  const renewed = await receiver.renewSessionLock();
  assert.ok(renewed > until);
  await receiver.close();
  const again = await client.acceptSession(queue, "s", KEEP);
  assert.deepEqual(await again.getSessionState(), { step: 1 });
  await again.close();
});

queueCase("session-deferred", SESSIONS, async ({ client, queue, sender, deadLetters }) => {
  await sender.sendMessages(forSessions("s1", "t2", "s3", "s4"));
  const receiver = await client.acceptSession(queue, "s", KEEP);
  const first = await one(receiver);
  await receiver.deferMessage(first);
  const second = await one(receiver);
  assert.equal(second.body, "s3");
  await receiver.deadLetterMessage(second, { deadLetterReason: "late" });
  const peeked = await receiver.peekMessages(9, { fromSequenceNumber: Long.fromNumber(1) });
  assert.deepEqual(bodies(peeked), ["s1", "s4"]);
  const [deferred] = await receiver.receiveDeferredMessages(first.sequenceNumber);
  assert.equal(deferred.body, "s1");
  await receiver.completeMessage(deferred);
  const last = await one(receiver);
  assert.equal(last.body, "s4");
  await receiver.completeMessage(last);
  await receiver.close();
  const dead = await one(deadLetters);
  assert.deepEqual([dead.body, dead.sessionId, dead.deadLetterReason], ["s3", "s", "late"]);
  await deadLetters.completeMessage(dead);
});
