"use strict";
// What time does, with `@azure/service-bus`: locks that end or are kept, schedules, expiry.

const assert = require("node:assert/strict");
const { Broker, pause } = require("../lib/broker.js");

const KEEP = { maxAutoLockRenewalDurationInMs: 0 };
const WORK = 12_000; // ms of work on one message, longer than its lock lasts

/** Adds the cases to a suite. */
function declare(suite, kit) {
  const { withClient, queueCase, one, assertEmpty, rejects, bodies, forSessions, certificate, SILENCE } = kit;

  /** Declares a case with a broker whose clock it may move. */
  function ownBroker(name, settings, body) {
    suite.case(name, async ({ tls, queue }) => {
      const broker = await Broker.start({ [queue]: settings }, { certificate });
      try {
        await withClient({ broker, tls }, (client) => body({ broker, client, queue }));
      } finally {
        broker.remove();
      }
    });
  }

  /** Has `receiver` handle one message for as long as `WORK`, the SDK keeping the lock; it completes it. */
  function handled(receiver, meanwhile) {
    return new Promise((resolve, reject) => {
      receiver.subscribe(
        {
          processMessage: async (message) => {
            await meanwhile();
            await receiver.completeMessage(message);
            resolve(message);
          },
          processError: async ({ error }) => reject(error),
        },
        { autoCompleteMessages: false, maxConcurrentCalls: 1 },
      );
    });
  }

  queueCase("lock-renewal-automatic", { lock_duration: "PT10S" }, async ({ client, queue, sender }) => {
    await sender.sendMessages({ body: "long work" });
    const receiver = client.createReceiver(queue, { maxAutoLockRenewalDurationInMs: 60_000 });
    const other = client.createReceiver(queue, KEEP);
    const message = await handled(receiver, async () => {
      const left = await other.receiveMessages(1, { maxWaitTimeInMs: WORK });
      assert.deepEqual(bodies(left), []);
    });
    assert.equal(message.deliveryCount, 0);
    await receiver.close();
    assert.deepEqual(await other.peekMessages(1), []);
  });

  const kept = { lock_duration: "PT10S", requires_session: true };
  queueCase("session-renewal-automatic", kept, async ({ client, queue, sender }) => {
    await sender.sendMessages(forSessions("s1"));
    const receiver = await client.acceptSession(queue, "s", { maxAutoLockRenewalDurationInMs: 60_000 });
    const until = receiver.sessionLockedUntilUtc;
    const message = await one(receiver);
    await pause(WORK);
    assert.ok(receiver.sessionLockedUntilUtc > until);
    await receiver.completeMessage(message);
    await receiver.close();
  });

  ownBroker("session-lost", { requires_session: true }, async ({ broker, client, queue }) => {
    await client.createSender(queue).sendMessages(forSessions("s1"));
    const receiver = await client.acceptSession(queue, "s", KEEP);
    const message = await one(receiver);
    await broker.advanceClock(61_000);
    // The SDK waits a minute for the answer to a settlement that has crossed the news on the way.
    for (let tries = 0; !receiver.isClosed && tries < 500; tries++) await pause(20);
    assert.ok(receiver.isClosed);
    await rejects(receiver.completeMessage(message), "SessionLockLost");
    await receiver.close();
    const again = await client.acceptSession(queue, "s", KEEP);
    const second = await one(again);
    assert.deepEqual([second.body, second.deliveryCount], ["s1", 1]);
    await again.completeMessage(second);
  });

  queueCase("fault-lose-session", { requires_session: true }, async ({ broker, client, queue, sender }) => {
    await sender.sendMessages(forSessions("s1", "s2"));
    const receiver = await client.acceptSession(queue, "s", KEEP);
    const message = await one(receiver);
    await broker.orderFault("lose-lock", { entity: queue, count: 1 });
    await rejects(receiver.completeMessage(message), "SessionLockLost");
    await receiver.close();
    const again = await client.acceptSession(queue, "s", KEEP);
    for (const [body, count] of [["s1", 1], ["s2", 0]]) {
      const next = await one(again);
      assert.deepEqual([next.body, next.deliveryCount], [body, count]);
      await again.completeMessage(next);
    }
    await again.close();
  });

  // What was stored when its answer was lost is sent again.
  suite.case("fault-dropped", { requires_duplicate_detection: true }, (context) =>
    withClient(
      context,
      async (client) => {
        const { broker, queue } = context;
        const [sender, receiver] = [client.createSender(queue), client.createReceiver(queue, KEEP)];
        for (const body of ["before", "drop-link", "drop-connection"]) {
          // Both links of the one connection.
          if (body !== "before") await broker.orderFault(body, { entity: queue, count: body === "drop-link" ? 2 : 1 });
          await sender.sendMessages({ body, messageId: body });
          const message = await one(receiver);
          assert.equal(message.body, body);
          await receiver.completeMessage(message);
        }
        await assertEmpty(receiver);
      },
      { retryOptions: { maxRetries: 10, retryDelayInMs: 100, timeoutInMs: 5_000 } },
    ),
  );

  queueCase("fault-settlements", async ({ broker, queue, sender, receiver }) => {
    await sender.sendMessages([{ body: "rejected" }, { body: "held up" }]);
    const rejected = await one(receiver);
    await broker.orderFault("reject-settlement", { entity: queue, count: 1 });
    await assert.rejects(receiver.completeMessage(rejected), ({ errors }) => {
      // The SDK tries again by itself, and finds that it has settled already.
      assert.equal(errors[0].code, "GeneralError");
      return true;
    });
    const heldUp = await one(receiver);
    assert.equal(heldUp.body, "held up", "what was rejected is locked still");
    await broker.orderFault("delay-settlement", { entity: queue, count: 1, delay_ms: 1_000 });
    const began = Date.now();
    await receiver.completeMessage(heldUp);
    assert.ok(Date.now() - began >= 1_000);
    const left = await receiver.peekMessages(9, { fromSequenceNumber: rejected.sequenceNumber });
    assert.deepEqual(bodies(left), ["rejected"]);
  });

  ownBroker("schedule-by-property", {}, async ({ broker, client, queue }) => {
    const due = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 600_000);
    const [sender, receiver] = [client.createSender(queue), client.createReceiver(queue)];
    await sender.sendMessages([{ body: "due", scheduledEnqueueTimeUtc: due }, { body: "now" }]);
    const first = await one(receiver);
    assert.equal(first.body, "now");
    await receiver.completeMessage(first);
    await assertEmpty(receiver);
    await broker.advanceClock(601_000);
    const second = await one(receiver);
    assert.equal(second.body, "due");
    assert.ok(second.enqueuedTimeUtc >= due);
    assert.equal(second.scheduledEnqueueTimeUtc.getTime(), due.getTime());
    await receiver.completeMessage(second);
  });

  const expiring = { dead_letter_on_expiration: true, default_time_to_live: "PT200S", lock_duration: "PT5M" };
  ownBroker("expiry", expiring, async ({ broker, client, queue }) => {
    const sender = client.createSender(queue);
    await sender.sendMessages({ body: "capped", timeToLive: 600_000 });
    await sender.sendMessages({ body: "default" });
    await sender.sendMessages({ body: "short", timeToLive: 150_000 });
    const receiver = client.createReceiver(queue, KEEP);
    const peeked = await receiver.peekMessages(9);
    assert.deepEqual(peeked.map(({ timeToLive }) => timeToLive), [200_000, undefined, 150_000]);
    const held = await one(receiver);
    assert.deepEqual([held.body, held.timeToLive], ["capped", 200_000]);
    assert.equal(held.expiresAtUtc.getTime(), held.enqueuedTimeUtc.getTime() + 200_000);
    await broker.advanceClock(210_000);
    const dead = client.createReceiver(queue, { subQueueType: "deadLetter" });
    for (const expected of ["default", "short"]) {
      const message = await one(dead);
      assert.deepEqual([message.body, message.deadLetterReason], [expected, "TTLExpiredException"]);
      await dead.completeMessage(message);
    }
    await receiver.completeMessage(held);
    await assertEmpty(dead);
    assert.deepEqual(bodies(await receiver.receiveMessages(1, { maxWaitTimeInMs: SILENCE })), []);
  });
}

module.exports = { declare };
