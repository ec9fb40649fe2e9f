"use strict";
// The administration client of `@azure/service-bus` for JavaScript against the broker's management API: over HTTPS
// the stable release, over plain HTTP the preview that can.

const assert = require("node:assert/strict");
const stable = require("@azure/service-bus");
const preview = require("service-bus-beta");
const { Broker } = require("../lib/broker.js");
const { Suite } = require("../lib/cases.js");
const { QUEUE, withThreeNamespaces } = require("../lib/namespaces.js");
const { trustedCertificate } = require("../lib/trusted.js");

const certificate = trustedCertificate();
const suite = new Suite("azure-javascript-administration", { certificate });

function admin({ broker, tls }, { key, keyName } = {}) {
  const { ServiceBusAdministrationClient } = tls ? stable : preview;
  return new ServiceBusAdministrationClient(broker.connectionString({ key, keyName, tls }));
}

/** Does `body` with a data-plane client that has this key. */
async function withBus({ broker, tls }, login, body) {
  const { ServiceBusClient } = tls ? stable : preview;
  const options = { retryOptions: { maxRetries: 0 } };
  const bus = new ServiceBusClient(broker.connectionString({ ...login, tls }), options);
  try {
    await body(bus);
  } finally {
    await bus.close();
  }
}

async function all(pages) {
  const items = [];
  for await (const item of pages) items.push(item);
  return items;
}

/** How far the broker's clock was moved, in milliseconds. */
async function ahead(broker) {
  return (await broker.ask("GET", "/$ferrybus/clock")).ahead_ms;
}

async function rejects(promise, code) {
  await assert.rejects(promise, (error) => {
    assert.equal(error.code, code, `${error.code}: ${error.message}`);
    return true;
  });
}

suite.case("queue-with-every-property", async (context) => {
  const client = admin(context);
  const name = `${context.queue}-all`;
  const wanted = {
    lockDuration: "PT30S",
    maxSizeInMegabytes: 2048,
    requiresDuplicateDetection: true,
    requiresSession: true,
    defaultMessageTimeToLive: "P1DT1M",
    deadLetteringOnMessageExpiration: true,
    duplicateDetectionHistoryTimeWindow: "PT5M",
    maxDeliveryCount: 7,
    enableBatchedOperations: false,
    autoDeleteOnIdle: "PT10M",
    userMetadata: "äpfel & <birnen>",
    status: "Active",
  };
  const made = await client.createQueue(name, wanted);
  for (const queue of [made, await client.getQueue(name)]) {
    assert.equal(queue.name, name);
    for (const [key, value] of Object.entries(wanted)) assert.deepEqual(queue[key], value, key);
  }
  assert.equal(await client.queueExists(name), true);
  await rejects(client.createQueue(name.toUpperCase()), "MessageEntityAlreadyExistsError");
  await client.deleteQueue(name);
  assert.equal(await client.queueExists(name), false);
  await rejects(client.getQueue(name), "MessageEntityNotFoundError");
});

suite.case("entity-keys", async (context) => {
  const client = admin(context);
  const name = `${context.queue}-keys`;
  const other = `${name}-other`;
  const rule = (keyName, letter, ...accessRights) => ({
    claimType: "SharedAccessKey",
    claimValue: "None",
    accessRights,
    keyName,
    primaryKey: `${letter.repeat(43)}=`,
    secondaryKey: `${"Z".repeat(43)}=`,
  });
  const rules = [rule("till", "A", "Send"), rule("cook", "B", "Listen"), rule("chef", "C", "Manage", "Send", "Listen")];
  await client.createQueue(name, { authorizationRules: rules });
  await client.createQueue(other);
  const read = (await client.getQueue(name)).authorizationRules;
  const shown = ({ keyName, accessRights, primaryKey }) => ({ keyName, accessRights, primaryKey });
  assert.deepEqual(read.map(shown), rules.map(shown));
  const login = (number, entity) => ({ keyName: rules[number].keyName, key: rules[number].primaryKey, entity });
  const refused = (promise) => rejects(promise, "UnauthorizedAccess");
  for (const entity of [undefined, name]) {
    await withBus(context, login(0, entity), async (bus) => {
      await bus.createSender(name).sendMessages({ body: "soup" });
      await refused(bus.createReceiver(name).receiveMessages(1, { maxWaitTimeInMs: 5000 }));
    });
    await withBus(context, login(1, entity), async (bus) => {
      const receiver = bus.createReceiver(name);
      const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 10_000 });
      assert.equal(message.body, "soup");
      await receiver.completeMessage(message);
      await refused(bus.createSender(name).sendMessages({ body: "soup" }));
    });
  }
  await withBus(context, login(0), (bus) => refused(bus.createSender(other).sendMessages({ body: "soup" })));
  const chef = admin(context, login(2));
  assert.equal((await chef.getQueue(name)).name, name);
  await rejects(chef.getQueue(other), "UnauthorizedRequestError");
  await rejects(all(chef.listQueues()), "UnauthorizedRequestError");
  const till = admin(context, login(0));
  await assert.rejects(till.getQueue(name), /40301/);
  await client.deleteQueue(name);
  await client.deleteQueue(other);
});

suite.case("idle-deletion", async ({ tls }) => {
  const broker = await Broker.start({}, { certificate });
  try {
    const there = { broker, tls };
    const client = admin(there);
    const idle = { autoDeleteOnIdle: "PT5M" };
    for (const queue of ["idle", "used"]) await client.createQueue(queue, idle);
    await client.createTopic("t", idle);
    await client.createTopic("kept");
    await client.createSubscription("kept", "s", idle);
    const left = async () => {
      const names = [...(await all(client.listQueues())), ...(await all(client.listTopics()))].map(({ name }) => name);
      const own = (await all(client.listSubscriptions("kept"))).map(({ subscriptionName }) => `kept/${subscriptionName}`);
      return [...names, ...own].sort();
    };
    const everything = ["idle", "kept", "kept/s", "t", "used"];
    await broker.advanceClock(200_000);
    await withBus(there, {}, (bus) => bus.createSender("used").sendMessages({ body: "work" }));
    assert.deepEqual(await left(), everything);
    for (const [seconds, expected] of [
      [260, everything],
      [320, ["kept", "used"]],
      [480, ["kept", "used"]],
      [520, ["kept"]],
    ]) {
      await broker.advanceClock(seconds * 1_000 - (await ahead(broker)));
      assert.deepEqual(await left(), expected, `${seconds} seconds`);
    }
  } finally {
    broker.remove();
  }
});

suite.case("queue-update", async (context) => {
  const client = admin(context);
  const name = `${context.queue}-up`;
  const queue = await client.createQueue(name);
  assert.equal(queue.maxDeliveryCount, 10);
  queue.maxDeliveryCount = 3;
  queue.lockDuration = "PT2M";
  assert.equal((await client.updateQueue(queue)).maxDeliveryCount, 3);
  assert.equal((await client.getQueue(name)).lockDuration, "PT2M");
  await rejects(client.updateQueue({ ...queue, requiresSession: true }), "ServiceError");
  await rejects(client.updateQueue({ ...queue, name: `${name}-none` }), "MessageEntityNotFoundError");
  await client.deleteQueue(name);
});

suite.case("topics-subscriptions-and-rules", async (context) => {
  const client = admin(context);
  const topic = `${context.queue}-t`;
  await client.createTopic(topic, { defaultMessageTimeToLive: "PT1M" });
  assert.equal((await client.getTopic(topic)).defaultMessageTimeToLive, "PT1M");
  await client.createSubscription(topic, "a", { maxDeliveryCount: 4 });
  await client.createSubscription(topic, "b", {
    defaultRuleOptions: { name: "own", filter: { subject: "red" } },
  });
  assert.deepEqual((await all(client.listSubscriptions(topic))).map((s) => s.subscriptionName), ["a", "b"]);
  assert.deepEqual((await all(client.listRules(topic, "a"))).map((rule) => rule.name), ["$Default"]);
  assert.deepEqual((await all(client.listRules(topic, "b"))).map((rule) => rule.name), ["own"]);
  const sql = { sqlExpression: "amount > @p AND sys.Label LIKE 'r%'", sqlParameters: { "@p": 5 } };
  await client.createRule(topic, "a", "sql", sql, { sqlExpression: "SET x = 1" });
  const read = await client.getRule(topic, "a", "sql");
  assert.equal(read.filter.sqlExpression, sql.sqlExpression);
  assert.deepEqual(read.filter.sqlParameters, sql.sqlParameters);
  assert.equal(read.action.sqlExpression, "SET x = 1");
  const same = { subject: "red", applicationProperties: { region: "eu", number: 7, on: true } };
  await client.createRule(topic, "a", "same", same);
  const kept = await client.getRule(topic, "a", "same");
  assert.equal(kept.filter.subject, "red");
  assert.deepEqual(kept.filter.applicationProperties, same.applicationProperties);
  kept.filter = { sqlExpression: "amount < 0" };
  await client.updateRule(topic, "a", kept);
  assert.equal((await client.getRule(topic, "a", "same")).filter.sqlExpression, "amount < 0");
  await rejects(client.createRule(topic, "a", "sql", sql), "MessageEntityAlreadyExistsError");
  await client.deleteRule(topic, "a", "sql");
  assert.equal(await client.ruleExists(topic, "a", "sql"), false);
  const runtime = await client.getTopicRuntimeProperties(topic);
  assert.equal(runtime.subscriptionCount, 2);
  const counts = await client.getSubscriptionRuntimeProperties(topic, "a");
  assert.equal(counts.totalMessageCount, 0);
  await client.deleteTopic(topic);
  assert.equal(await client.subscriptionExists(topic, "a"), false);
});

suite.case("topic-with-every-property", async (context) => {
  const client = admin(context);
  const name = `${context.queue}-all`;
  const wanted = {
    defaultMessageTimeToLive: "P2D",
    maxSizeInMegabytes: 3072,
    requiresDuplicateDetection: true,
    duplicateDetectionHistoryTimeWindow: "PT1M",
    enableBatchedOperations: false,
    supportOrdering: true,
    autoDeleteOnIdle: "PT7M",
    userMetadata: "<t>",
    status: "Active",
    enablePartitioning: false,
    maxMessageSizeInKilobytes: 512,
  };
  const made = await client.createTopic(name, wanted);
  for (const topic of [made, await client.getTopic(name)]) {
    assert.equal(topic.name, name);
    for (const [key, value] of Object.entries(wanted)) assert.deepEqual(topic[key], value, key);
  }
  const changed = { status: "SendDisabled", defaultMessageTimeToLive: "PT3M", userMetadata: "changed" };
  await client.updateTopic({ ...made, ...changed });
  const read = await client.getTopic(name);
  for (const [key, value] of Object.entries({ ...wanted, ...changed })) assert.deepEqual(read[key], value, key);
  await rejects(client.updateTopic({ ...read, requiresDuplicateDetection: false }), "ServiceError");
  assert.equal(await client.topicExists(name), true);
  await client.deleteTopic(name);
  assert.equal(await client.topicExists(name), false);
  await rejects(client.updateTopic(read), "MessageEntityNotFoundError");
});

suite.case("subscription-with-every-property", async (context) => {
  const client = admin(context);
  const [topic, target] = [`${context.queue}-t`, `${context.queue}-target`];
  await client.createTopic(topic);
  await client.createQueue(target);
  const wanted = {
    lockDuration: "PT2M",
    requiresSession: false,
    defaultMessageTimeToLive: "PT5H",
    deadLetteringOnMessageExpiration: true,
    deadLetteringOnFilterEvaluationExceptions: false,
    maxDeliveryCount: 9,
    enableBatchedOperations: false,
    userMetadata: "s",
    autoDeleteOnIdle: "PT6M",
    status: "Active",
  };
  const made = await client.createSubscription(topic, "s", { ...wanted, forwardDeadLetteredMessagesTo: target });
  for (const subscription of [made, await client.getSubscription(topic, "s")]) {
    assert.deepEqual([subscription.topicName, subscription.subscriptionName], [topic, "s"]);
    for (const [key, value] of Object.entries(wanted)) assert.deepEqual(subscription[key], value, key);
    assert.ok(subscription.forwardDeadLetteredMessagesTo.endsWith(`/${target}`));
  }
  const changed = { maxDeliveryCount: 2, status: "ReceiveDisabled", forwardDeadLetteredMessagesTo: undefined };
  await client.updateSubscription({ ...made, ...changed });
  const read = await client.getSubscription(topic, "s");
  for (const [key, value] of Object.entries({ ...wanted, ...changed })) assert.deepEqual(read[key], value, key);
  await rejects(client.updateSubscription({ ...read, requiresSession: true }), "ServiceError");
  await client.deleteSubscription(topic, "s");
  assert.equal(await client.subscriptionExists(topic, "s"), false);
  await rejects(client.deleteSubscription(topic, "s"), "MessageEntityNotFoundError");
  await client.deleteTopic(topic);
  await client.deleteQueue(target);
});

suite.case("listing-of-every-kind", async ({ tls }) => {
  const broker = await Broker.start({}, { certificate });
  try {
    const client = admin({ broker, tls });
    const names = Array.from({ length: 105 }, (_, number) => `each-${String(number).padStart(3, "0")}`);
    const [first] = names;
    for (const name of names) {
      await client.createTopic(name);
      await client.createSubscription(first, name);
      await client.createRule(first, first, name, { sqlExpression: `a = '${name}'` });
    }
    for (const list of [client.listTopics(), client.listTopicsRuntimeProperties()]) {
      assert.deepEqual((await all(list)).map(({ name }) => name), names);
    }
    for (const list of [client.listSubscriptions(first), client.listSubscriptionsRuntimeProperties(first)]) {
      assert.deepEqual((await all(list)).map(({ subscriptionName }) => subscriptionName), names);
    }
    assert.deepEqual((await all(client.listRules(first, first))).map(({ name }) => name), ["$Default", ...names]);
  } finally {
    broker.remove();
  }
});

suite.case("what-was-made-takes-and-gives-messages", async (context) => {
  const client = admin(context);
  const [topic, target] = [`${context.queue}-live`, `${context.queue}-behind`];
  await client.createQueue(target);
  await client.createTopic(topic);
  await client.createSubscription(topic, "s");
  await client.createSubscription(topic, "sends-on", { forwardTo: target });
  const { ServiceBusClient } = context.tls ? stable : preview;
  const bus = new ServiceBusClient(context.broker.connectionString({ tls: context.tls }));
  try {
    await bus.createSender(topic).sendMessages([{ body: "one" }, { body: "two" }]);
    for (const receiver of [bus.createReceiver(topic, "s"), bus.createReceiver(target)]) {
      for (const body of ["one", "two"]) {
        const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 30_000 });
        assert.equal(message.body, body);
        await receiver.completeMessage(message);
      }
    }
    const counts = await client.getSubscriptionRuntimeProperties(topic, "s");
    assert.deepEqual([counts.totalMessageCount, counts.activeMessageCount], [0, 0]);
  } finally {
    await bus.close();
  }
  await client.deleteTopic(topic);
  await client.deleteQueue(target);
});

suite.case("listing-in-pages", async ({ tls }) => {
  // Pages are counted off, so that what others create and delete meanwhile would move their beginnings.
  const broker = await Broker.start({}, { certificate });
  try {
    const client = admin({ broker, tls });
    const names = Array.from({ length: 255 }, (_, number) => `page-${String(number).padStart(3, "0")}`);
    for (const name of names) await client.createQueue(name);
    for (const list of [() => client.listQueues(), () => client.listQueuesRuntimeProperties()]) {
      assert.deepEqual((await all(list())).map((queue) => queue.name), names);
    }
    for (const name of names) await client.deleteQueue(name);
    assert.deepEqual(await all(client.listQueues()), []);
  } finally {
    broker.remove();
  }
});

suite.case("runtime-counts", async (context) => {
  const client = admin(context);
  const { ServiceBusClient } = context.tls ? stable : preview;
  const bus = new ServiceBusClient(context.broker.connectionString({ tls: context.tls }));
  const sender = bus.createSender(context.queue);
  await sender.sendMessages([{ body: "one" }, { body: "two" }]);
  await sender.scheduleMessages({ body: "later" }, new Date(Date.now() + 3_600_000));
  await bus.close();
  const counts = await client.getQueueRuntimeProperties(context.queue);
  assert.equal(counts.activeMessageCount, 2);
  assert.equal(counts.scheduledMessageCount, 1);
  assert.equal(counts.totalMessageCount, 3);
  assert.ok(counts.sizeInBytes > 0);
});

suite.case("namespace-and-wrong-key", async (context) => {
  assert.equal((await admin(context).getNamespaceProperties()).messagingSku, "Standard");
  await rejects(admin(context, { key: "wrong" }).getQueue(context.queue), "UnauthorizedRequestError");
});

suite.case("namespace-administration", async ({ tls }) => {
  const { ServiceBusAdministrationClient } = tls ? stable : preview;
  await withThreeNamespaces(certificate, async (broker, teams) => {
    const of = (team, key) => new ServiceBusAdministrationClient(team.connectionString({ tls, key }));
    for (const team of teams) await of(team).createQueue(`of-${team.name}`);
    for (const team of teams) {
      const names = (await all(of(team).listQueues())).map(({ name }) => name);
      assert.deepEqual(names, [`of-${team.name}`, QUEUE]);
    }
    const [, teamA, teamB] = teams;
    await rejects(of(teamA, teamB.key).createQueue("never"), "UnauthorizedRequestError");
    await teamA.put({ max_entities: 2 });
    await assert.rejects(of(teamA).createQueue("one-too-many"), ({ code, statusCode, message }) => {
      assert.equal(statusCode, 403, `${code}: ${message}`);
      assert.match(message, /The limit of 2 entities is reached/);
      return true;
    });
    await of(teamB).createQueue("elsewhere");
    await teamA.put();
    await of(teamA).createQueue("one-too-many");
  });
});

suite.run();
