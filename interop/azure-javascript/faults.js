"use strict";
// Faults that the broker was ordered to have.

const assert = require("node:assert/strict");
const { assertEmpty, bodies, many, one, queueCase, rejects } = require("./steps.js");

queueCase("fault-server-busy", async ({ broker, queue, sender, receiver }) => {
  await sender.sendMessages({ body: "first" });
  // The SDK tries again by itself.
  await broker.orderFault("server-busy", { entity: queue, count: 2 });
  await sender.sendMessages({ body: "second" });
  const taken = await many(receiver, 2);
  assert.deepEqual(bodies(taken), ["first", "second"]);
  for (const message of taken) await receiver.completeMessage(message);
});

queueCase("fault-lose-lock", async ({ broker, queue, sender, receiver }) => {
  await sender.sendMessages({ body: "tea" });
  const message = await one(receiver);
  await broker.orderFault("lose-lock", { entity: queue, count: 1 });
  await rejects(receiver.completeMessage(message), "MessageLockLost");
  const again = await one(receiver);
  assert.equal(again.deliveryCount, 1);
  await receiver.completeMessage(again);
  await assertEmpty(receiver);
});
