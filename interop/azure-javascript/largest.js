"use strict";
// A message of exactly the size that the broker announces reaches its receiver, whatever the broker adds to it.

const assert = require("node:assert/strict");
const Long = require("long");
const { assertEmpty, one, queueCase, rejects } = require("./steps.js");

const LIMIT = 256 << 10;
const LOWERED = 1 << 10;
const OVERHEAD_MAX = 1 << 10; // bytes of a message beside its body
// The longest texts that a client may give when it dead-letters.
const REASON = "r".repeat(4096);
const DESCRIPTION = "d".repeat(4096);
const FIELDS = { messageId: "largest", subject: "the subject", correlationId: "corr" };
const APPLICATION = { number: 7, text: "grüße ✓" };

function filled(length) {
  const body = Buffer.alloc(length, Buffer.from([...Array(251).keys()]));
  return { ...FIELDS, applicationProperties: APPLICATION, body };
}

/**
 * Searches the body with which a message has exactly the size of the limit: one byte more is refused. Takes away what
 * was sent meanwhile.
 */
async function searchBody(sender, deleting) {
  let [taken, refused] = [LIMIT - OVERHEAD_MAX, LIMIT];
  const lengths = [taken];
  await sender.sendMessages(filled(taken));
  while (refused - taken > 1) {
    const tried = (taken + refused) >> 1;
    try {
      await sender.sendMessages(filled(tried));
      taken = tried;
      lengths.push(tried);
    } catch (error) {
      assert.equal(error.code, "MessageSizeExceeded");
      refused = tried;
    }
  }
  for (const length of lengths) isWhole(await one(deleting), length);
  return taken;
}

/** Nothing was lost on the way, and it comes for the first time: no link was closed for its size. */
function isWhole(message, length, added = {}) {
  assert.ok(filled(length).body.equals(message.body));
  for (const [name, value] of Object.entries(FIELDS)) assert.equal(message[name], value, name);
  assert.deepEqual(message.applicationProperties, { ...APPLICATION, ...added });
  assert.equal(message.deliveryCount, 0);
}

function isDeadLetter(message, length) {
  isWhole(message, length, { DeadLetterReason: REASON, DeadLetterErrorDescription: DESCRIPTION });
  assert.equal(message.deadLetterReason, REASON);
  assert.equal(message.deadLetterErrorDescription, DESCRIPTION);
}

/** The first message that is there, which the answer to a request carries. */
async function first(receiver) {
  const [message] = await receiver.peekMessages(1, { fromSequenceNumber: Long.ONE });
  return message;
}

queueCase("largest-message", { max_message_bytes: LIMIT }, async ({ broker, client, queue, sender, receiver, deadLetters }) => {
  const receiveMode = "receiveAndDelete";
  const deleting = client.createReceiver(queue, { receiveMode });
  const deletingDead = client.createReceiver(queue, { receiveMode, subQueueType: "deadLetter" });
  assert.equal((await sender.createMessageBatch()).maxSizeInBytes, LIMIT);
  const length = await searchBody(sender, deleting);
  const sizes = new RegExp(`has ${LIMIT + 1} bytes; the link takes at most ${LIMIT}`);
  await assert.rejects(sender.sendMessages(filled(length + 1)), sizes);
  for (const isLowered of [false, true]) {
    for (let sent = 0; sent < 4; sent++) await sender.sendMessages(filled(length));
    if (isLowered) {
      await broker.limitMessages(queue, LOWERED);
      const later = client.createSender(queue);
      assert.equal((await later.createMessageBatch()).maxSizeInBytes, LOWERED);
      await rejects(later.sendMessages(filled(LOWERED)), "MessageSizeExceeded");
    }
    isWhole(await first(receiver), length);
    isWhole(await one(deleting), length);
    const locked = await one(receiver);
    isWhole(locked, length);
    await receiver.completeMessage(locked);
    for (let letters = 0; letters < 2; letters++) {
      const bad = await one(receiver);
      isWhole(bad, length);
      const texts = { deadLetterReason: REASON, deadLetterErrorDescription: DESCRIPTION };
      await receiver.deadLetterMessage(bad, texts);
    }
    isDeadLetter(await first(deadLetters), length);
    isDeadLetter(await one(deletingDead), length);
    const letter = await one(deadLetters);
    isDeadLetter(letter, length);
    await deadLetters.completeMessage(letter);
  }
  await assertEmpty(receiver);
  await assertEmpty(deadLetters);
});
