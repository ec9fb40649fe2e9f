"use strict";
// Log-in with a token of an identity provider (XOAUTH2).

const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { Broker } = require("../lib/broker.js");
const { Provider } = require("../lib/provider.js");
const { Client } = require("./client.js");

const SECONDS = 10; // that a token lasts whose end is waited for, and in which a client connects and sends

function declare(suite) {
  suite.case("token-log-in", async ({ tls }) => {
    const directory = fs.mkdtempSync(path.join(os.tmpdir(), "ferrybus-interop-provider-"));
    const provider = new Provider(directory);
    const moreConfig = provider.config.replace("keys_file", 'skew = "0s"\nkeys_file');
    const broker = await Broker.start({ orders: {} }, { moreConfig });
    const logIn = (token) => Client.connect({ broker, tls }, { username: "till", token });
    try {
      const client = await logIn(provider.token("clerk"));
      await client.sendAll("orders", ["with a token"]);
      assert.equal(await client.take(await client.receiver("orders")), "with a token");
      await client.close();
      const forged = `${provider.token("clerk").slice(0, -8)}AAAAAAAA`;
      for (const token of [provider.token("guest"), provider.token("clerk", -600), forged]) {
        await assert.rejects(logIn(token), ({ condition }) => condition === "amqp:unauthorized-access");
      }
      const brief = await logIn(provider.token("clerk", SECONDS));
      await brief.sendAll("orders", ["in time"]);
      await assert.rejects(brief.event(brief.connection, "connection_close"), ({ condition, description }) => {
        assert.equal(condition, "amqp:unauthorized-access");
        assert.match(description, /^ExpiredToken: The token of the log-in is expired\./);
        return true;
      });
    } finally {
      broker.remove();
      fs.rmSync(directory, { recursive: true, force: true });
    }
  });
}

module.exports = { declare };
