"use strict";
// Schedules, and a clock that is moved.

const assert = require("node:assert/strict");
const Long = require("long");
const { Broker } = require("../lib/broker.js");
const { assertEmpty, bodies, certificate, one, rejects, suite, withClient } = require("./steps.js");

suite.case("schedule-and-cancel", async ({ tls, queue }) => {
  const broker = await Broker.start({ [queue]: {} }, { certificate });
  const due = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 600_000);
  try {
    await withClient({ broker, tls }, async (client) => {
      const [sender, receiver] = [client.createSender(queue), client.createReceiver(queue)];
      const numbers = await sender.scheduleMessages([{ body: "cancelled 1" }, { body: "cancelled 2" }], due);
      const [single] = await sender.scheduleMessages({ body: "due" }, due);
      const peeked = await receiver.peekMessages(9, { fromSequenceNumber: Long.ONE });
      assert.deepEqual(bodies(peeked), ["cancelled 1", "cancelled 2", "due"]);
      [...numbers, single].forEach((number, index) => assert.ok(number.equals(peeked[index].sequenceNumber)));
      for (const message of peeked) {
        assert.equal(message.state, "scheduled");
        assert.ok(message.messageId);
        assert.equal(message.scheduledEnqueueTimeUtc.getTime(), due.getTime());
      }
      await assertEmpty(receiver);
      await sender.cancelScheduledMessages(numbers);
      await rejects(sender.cancelScheduledMessages(numbers[0]), "MessageNotFound");
      await broker.advanceClock(601_000);
      const message = await one(receiver);
      assert.equal(message.body, "due");
      assert.equal(message.state, "active");
      assert.ok(message.enqueuedTimeUtc >= due);
      assert.ok(message.sequenceNumber.greaterThan(single), "a new number");
      await rejects(sender.cancelScheduledMessages(single), "MessageNotFound");
      await receiver.completeMessage(message);
      assert.deepEqual(await receiver.peekMessages(9, { fromSequenceNumber: Long.ONE }), []);
    });
  } finally {
    broker.remove();
  }
});

suite.case("clock-advance", async (context) => {
  const broker = await Broker.start({ orders: { lock_duration: "PT5M" } }, { certificate });
  try {
    await withClient({ ...context, broker }, async (client) => {
      const sender = client.createSender("orders");
      const receiver = client.createReceiver("orders", { maxAutoLockRenewalDurationInMs: 0 });
      await sender.sendMessages({ body: "tea" });
      const message = await one(receiver);
      await broker.advanceClock(301_000);
      const again = await one(receiver);
      assert.equal(again.deliveryCount, 1);
      await rejects(receiver.completeMessage(message), "MessageLockLost");
      await receiver.completeMessage(again);
    });
  } finally {
    broker.remove();
  }
});
