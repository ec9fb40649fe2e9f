"use strict";
// How long single steps of the SDK take, for `cargo xtask bench --scenario sdk-latency`.
//
// Prints a line for each time a step was done: its name, a tab, milliseconds. `FERRYBUS_CONNECTION` is the connection
// string of a broker with the queues `latency` and `latency-sessions`, `FERRYBUS_REPETITIONS` says how often.

const { setTimeout: sleep } = require("node:timers/promises");
const { performance } = require("node:perf_hooks");
const { ServiceBusClient } = require("@azure/service-bus");

const QUEUE = "latency";
const SESSIONS = "latency-sessions";
const CONNECTION = process.env.FERRYBUS_CONNECTION;
const REPETITIONS = Number(process.env.FERRYBUS_REPETITIONS);
const WAIT = { maxWaitTimeInMs: 30_000 };
const SETTLED = 100; // ms until a receiver that was just told to wait does so
const BODY = "x".repeat(1024);
const WITHOUT_RENEWAL = { maxAutoLockRenewalDurationInMs: 0 };

function told(step, since) {
  console.log(`${step}\t${(performance.now() - since).toFixed(3)}`);
}

async function timed(step, body) {
  const begun = performance.now();
  const result = await body();
  told(step, begun);
  return result;
}

async function one(receiver) {
  const [message] = await receiver.receiveMessages(1, WAIT);
  if (!message) throw new Error("no message came");
  return message;
}

async function arrivals() {
  const [sending, receiving] = [new ServiceBusClient(CONNECTION), new ServiceBusClient(CONNECTION)];
  const sender = sending.createSender(QUEUE);
  const receiver = receiving.createReceiver(QUEUE, WITHOUT_RENEWAL);
  await sender.sendMessages({ body: "warm" });
  await receiver.completeMessage(await one(receiver));
  for (let round = 0; round < REPETITIONS; round += 1) {
    let begun;
    const came = one(receiver).then((message) => {
      told("a message arrives at a waiting receiver", begun);
      return receiver.completeMessage(message);
    });
    await sleep(SETTLED);
    begun = performance.now();
    await Promise.all([sender.sendMessages({ body: BODY }), came]);
  }
  await receiver.close();
  const subscribed = receiving.createReceiver(QUEUE, WITHOUT_RENEWAL);
  let arrived;
  subscribed.subscribe({
    processMessage: async () => arrived(),
    processError: async ({ error }) => {
      throw error;
    },
  });
  for (let round = 0; round < REPETITIONS; round += 1) {
    await sleep(SETTLED);
    const begun = performance.now();
    const came = new Promise((resolve) => {
      arrived = () => resolve(told("a message arrives at a subscribed receiver", begun));
    });
    await Promise.all([sender.sendMessages({ body: BODY }), came]);
  }
  await Promise.all([sending.close(), receiving.close()]);
}

async function connects() {
  for (let round = 0; round < REPETITIONS; round += 1) {
    const begun = performance.now();
    const client = new ServiceBusClient(CONNECTION);
    await client.createSender(QUEUE).sendMessages({ body: BODY });
    told("connect and send", begun);
    await client.close();
  }
}

async function newReceivers(client) {
  for (let round = 0; round < REPETITIONS; round += 1) {
    const begun = performance.now();
    const receiver = client.createReceiver(QUEUE, WITHOUT_RENEWAL);
    const message = await one(receiver);
    told("new receiver and first message", begun);
    await receiver.completeMessage(message);
    await receiver.close();
  }
}

async function sessions(client) {
  const sender = client.createSender(SESSIONS);
  for (let round = 0; round < REPETITIONS; round += 1) {
    await sender.sendMessages({ body: BODY, sessionId: `s${round}` });
    await timed("accept a session, receive, complete, close", async () => {
      const receiver = await client.acceptNextSession(SESSIONS);
      await receiver.completeMessage(await one(receiver));
      await receiver.close();
    });
  }
}

async function requests(client) {
  const sender = client.createSender(QUEUE);
  const receiver = client.createReceiver(QUEUE, WITHOUT_RENEWAL);
  const tomorrow = new Date(Date.now() + 86_400_000);
  const [warm] = await sender.scheduleMessages({ body: BODY }, tomorrow);
  await sender.cancelScheduledMessages(warm);
  await receiver.peekMessages(1);
  for (let round = 0; round < REPETITIONS; round += 1) {
    const [number] = await timed("schedule", () => sender.scheduleMessages({ body: BODY }, tomorrow));
    await timed("cancel a schedule", () => sender.cancelScheduledMessages(number));
    await sender.sendMessages({ body: BODY });
    await timed("peek", () => receiver.peekMessages(1));
    const message = await one(receiver);
    await timed("renew a lock", () => receiver.renewMessageLock(message));
    await receiver.deferMessage(message);
    const [deferred] = await timed("receive a deferred message", () =>
      receiver.receiveDeferredMessages(message.sequenceNumber),
    );
    await receiver.completeMessage(deferred);
  }
}

async function main() {
  await arrivals();
  await connects();
  const client = new ServiceBusClient(CONNECTION);
  await newReceivers(client);
  await sessions(client);
  await requests(client);
  await client.close();
}

main();
