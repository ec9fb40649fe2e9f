"use strict";
// Three namespaces of one broker, by an address each and as `vhost:NAME`.

const assert = require("node:assert/strict");
const { KEY_NAME } = require("../lib/broker.js");
const { QUEUE, withThreeNamespaces } = require("../lib/namespaces.js");
const { Client } = require("./client.js");

function declare(suite) {
  suite.case("namespaces", async ({ tls }) => {
    await withThreeNamespaces(undefined, async (broker, teams) => {
      const login = (key) => ({ username: KEY_NAME, password: key });
      const byVirtualHost = ({ name }) => ({ hostname: `vhost:${name}` });
      const byAddress = ({ host }) => ({ host, servername: host === "localhost" ? host : "" });
      const enter = (team, where, key = team.key) =>
        Client.connect({ broker, tls }, { ...login(key), ...where(team) });
      /** What the broker closes the connection with, before or behind the open. */
      const closedWith = async (entering) => {
        try {
          const client = await entering;
          await client.event(client.connection, "connection_close");
        } catch (error) {
          return error.condition;
        }
      };
      const [, teamA, teamB] = teams;
      for (const where of [byAddress, byVirtualHost]) {
        const clients = await Promise.all(teams.map((team) => enter(team, where)));
        for (const [index, client] of clients.entries()) await client.sendAll(QUEUE, [teams[index].name]);
        for (const [index, client] of clients.entries()) {
          assert.equal(await client.take(await client.receiver(QUEUE)), teams[index].name);
          await client.close();
        }
        assert.equal(await closedWith(enter(teamA, where, teamB.key)), "amqp:unauthorized-access");
      }
      const first = await enter(teamA, byVirtualHost);
      await teamA.put({ max_connections: 1 });
      assert.equal(await closedWith(enter(teamA, byVirtualHost)), "amqp:resource-limit-exceeded");
      await teamA.put({}, { held: true });
      assert.equal(await closedWith(first), "com.microsoft:server-busy");
      assert.equal(await closedWith(enter(teamA, byAddress)), "com.microsoft:server-busy");
      await teamA.put();
      const after = await enter(teamA, byVirtualHost);
      await after.sendAll(QUEUE, ["after"]);
      await after.close();
    });
  });
}

module.exports = { declare };
