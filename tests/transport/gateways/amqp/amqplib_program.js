// All that amqplib offers, against a broker of Penstock's: `node amqplib_program.js PORT [TLS_PORT CA USER PASSWORD]`.
// NODE_PATH says where amqplib is. Each part that went well is a line on standard output; the first that did not ends the program.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const { once } = require("node:events");
const amqp = require("amqplib");
const callbackApi = require("amqplib/callback_api");

const [port, tlsPort, ca, user, password] = process.argv.slice(2);
const url = `amqp://guest:guest@127.0.0.1:${port}/?heartbeat=10`;
const SECONDS = 30;

// A wait that ends: what does not come in time is said.
function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not come in ${SECONDS} s`)), SECONDS * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Messages of a consumer, so many.
function consumed(channel, queue, count, options = {}) {
  const found = [];
  return new Promise((resolve, reject) => {
    channel
      .consume(
        queue,
        (message) => {
          found.push(message);
          if (found.length === count) resolve(found);
        },
        options,
      )
      .catch(reject);
  });
}

async function got(channel, queue) {
  const found = [];
  for (;;) {
    const message = await channel.get(queue, { noAck: true });
    if (message === false) return found;
    found.push(message.content.toString());
  }
}

const parts = {
  async "what is sent is got with its properties"(connection) {
    const channel = await connection.createChannel();
    const { queue, messageCount, consumerCount } = await channel.assertQueue("", { exclusive: true });
    assert.match(queue, /^amq\.gen-/);
    assert.deepEqual([messageCount, consumerCount], [0, 0]);
    const said = {
      contentType: "application/json",
      contentEncoding: "utf-8",
      headers: { n: 1, big: 2 ** 40, f: 1.5, t: true, s: "text", none: null, list: [1, "x"], deep: { a: "b" } },
      deliveryMode: 2,
      priority: 3,
      correlationId: "c-1",
      replyTo: "answers",
      messageId: "m-1",
      timestamp: 1_700_000_000,
      type: "kind",
      appId: "shop",
      userId: undefined,
    };
    channel.sendToQueue(queue, Buffer.from("hello"), said);
    const message = await channel.get(queue);
    assert.equal(message.content.toString(), "hello");
    for (const [name, value] of Object.entries(said)) assert.deepEqual(message.properties[name], value, name);
    assert.deepEqual([message.fields.exchange, message.fields.routingKey, message.fields.redelivered], ["", queue, false]);
    channel.ack(message);
    assert.equal(await channel.get(queue), false);
    await channel.close();
  },

  async "a message of many frames comes in one piece"(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const large = Buffer.alloc(1_000_000, "abc");
    channel.sendToQueue(queue, large);
    await channel.waitForConfirms();
    const message = await channel.get(queue, { noAck: true });
    assert.ok(message.content.equals(large));
    await channel.close();
  },

  async "confirms come for each message, by callback and all together"(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    await new Promise((resolve, reject) => {
      channel.sendToQueue(queue, Buffer.from("one"), {}, (error) => (error ? reject(error) : resolve()));
    });
    for (let number = 0; number < 1_000; number += 1) channel.sendToQueue(queue, Buffer.from(`${number}`));
    await channel.waitForConfirms();
    assert.equal((await channel.checkQueue(queue)).messageCount, 1_001);
    assert.equal((await channel.purgeQueue(queue)).messageCount, 1_001);
    await channel.close();
  },

  async "a queue that rejects is a nack to who publishes there"(connection) {
    const channel = await connection.createConfirmChannel();
    const options = { exclusive: true, maxLength: 2, arguments: { "x-overflow": "reject-publish" } };
    const { queue } = await channel.assertQueue("", options);
    const outcomes = [];
    for (let number = 0; number < 3; number += 1) {
      await new Promise((resolve) => {
        channel.sendToQueue(queue, Buffer.from(`${number}`), {}, (error) => resolve(outcomes.push(error === null)));
      });
    }
    assert.deepEqual(outcomes, [true, true, false]);
    await channel.close();
  },

  async "prefetch is demand, for each consumer and for all of a channel"(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    for (let number = 0; number < 10; number += 1) channel.sendToQueue(queue, Buffer.from(`${number}`));
    await channel.prefetch(3);
    const held = await consumed(channel, queue, 3, { consumerTag: "first" });
    assert.equal((await channel.checkQueue(queue)).messageCount, 7);
    assert.deepEqual(held.map((each) => each.content.toString()), ["0", "1", "2"]);
    channel.ack(held[1], true);
    channel.nack(held[2], false, true);
    await channel.cancel("first");
    channel.nackAll(true);
    await channel.prefetch(2, true);
    const again = await consumed(channel, queue, 2);
    assert.equal((await channel.checkQueue(queue)).messageCount, 6);
    assert.deepEqual([again[0].content.toString(), again[0].fields.redelivered], ["2", true]);
    channel.reject(again[0], false);
    channel.ackAll();
    await channel.recover();
    await channel.close();
  },

  async "what nobody takes comes back"(connection) {
    const channel = await connection.createConfirmChannel();
    const returned = once(channel, "return");
    channel.publish("amq.topic", "no.where", Buffer.from("back"), { mandatory: true, messageId: "m" });
    const [message] = await within(returned, "the return");
    assert.deepEqual([message.fields.replyCode, message.fields.replyText], [312, "NO_ROUTE"]);
    assert.deepEqual([message.content.toString(), message.properties.messageId], ["back", "m"]);
    await channel.waitForConfirms();
    await channel.close();
  },

  async "exchanges of each kind lead where they are bound"(connection) {
    const channel = await connection.createConfirmChannel();
    const names = [];
    for (const [kind, key, options] of [
      ["direct", "k", {}],
      ["fanout", "", {}],
      ["topic", "a.*.#", {}],
      ["headers", "", { "x-match": "any", colour: "red" }],
    ]) {
      const exchange = `js-${kind}`;
      names.push(exchange);
      await channel.assertExchange(exchange, kind, { durable: false, autoDelete: false, alternateExchange: "amq.fanout" });
      await channel.checkExchange(exchange);
      const { queue } = await channel.assertQueue("", { exclusive: true });
      await channel.bindQueue(queue, exchange, key, options);
      const sent = { direct: "k", fanout: "any", topic: "a.b.c", headers: "" }[kind];
      channel.publish(exchange, sent, Buffer.from(kind), { headers: { colour: "red" } });
      channel.publish(exchange, "other", Buffer.from("astray"), { headers: { colour: "blue" } });
      await channel.waitForConfirms();
      assert.deepEqual(await got(channel, queue), kind === "fanout" ? [kind, "astray"] : [kind]);
      await channel.unbindQueue(queue, exchange, key, options);
    }
    const { queue } = await channel.assertQueue("", { exclusive: true });
    await channel.bindExchange("js-fanout", "js-direct", "through");
    await channel.bindQueue(queue, "js-fanout", "");
    channel.publish("js-direct", "through", Buffer.from("two exchanges"));
    await channel.waitForConfirms();
    assert.deepEqual(await got(channel, queue), ["two exchanges"]);
    await channel.unbindExchange("js-fanout", "js-direct", "through");
    for (const name of names) await channel.deleteExchange(name, {});
    await channel.close();
  },

  async "time to live and dead letters are the queue's and the message's"(connection) {
    const channel = await connection.createConfirmChannel();
    const dead = (await channel.assertQueue("", { exclusive: true })).queue;
    await channel.assertExchange("js-dead", "fanout", { durable: false });
    await channel.bindQueue(dead, "js-dead", "");
    const { queue } = await channel.assertQueue("", {
      exclusive: true,
      messageTtl: 60_000,
      deadLetterExchange: "js-dead",
      deadLetterRoutingKey: "late",
    });
    channel.sendToQueue(queue, Buffer.from("expires"), { expiration: "1" });
    await channel.waitForConfirms();
    const [late] = await within(consumed(channel, dead, 1), "the dead letter");
    assert.deepEqual([late.content.toString(), late.fields.routingKey], ["expires", "late"]);
    channel.ack(late);
    await channel.deleteExchange("js-dead");
    await channel.close();
  },

  async "a consumer hears that its queue is gone"(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("js-goes", { durable: false });
    const told = new Promise((resolve) => channel.consume(queue, resolve));
    const other = await connection.createChannel();
    await other.deleteQueue(queue);
    assert.equal(await within(told, "the cancel"), null);
    await channel.close();
    await other.close();
  },

  async "an error closes its channel and no other"(connection) {
    const channel = await connection.createChannel();
    const other = await connection.createChannel();
    const closed = once(channel, "error");
    await assert.rejects(channel.checkQueue("js-nowhere"), /404 \(NOT-FOUND\).*no queue 'js-nowhere' in vhost '\/'/);
    const [error] = await within(closed, "the channel's error");
    assert.equal(error.code, 404);
    assert.throws(() => channel.sendToQueue("q", Buffer.from("x")), amqp.IllegalOperationError);
    const again = await connection.createChannel();
    again.on("error", () => {});
    await again.assertQueue("js-same", { durable: false, autoDelete: true });
    await assert.rejects(again.assertQueue("js-same", { durable: true }), /406 \(PRECONDITION-FAILED\).*inequivalent arg/);
    await other.deleteQueue("js-same");
    const unknown = await connection.createChannel();
    const refused = once(unknown, "error");
    unknown.ack({ fields: { deliveryTag: 9 } });
    assert.match((await within(refused, "the refusal"))[0].message, /unknown delivery tag 9/);
    await other.close();
  },

  async "another connection's own queue is locked, and gone with it"(connection) {
    const mine = await amqp.connect(url);
    const { queue } = await (await mine.createChannel()).assertQueue("", { exclusive: true });
    const channel = await connection.createChannel();
    channel.on("error", () => {});
    await assert.rejects(channel.checkQueue(queue), /405 \(RESOURCE-LOCKED\)/);
    await mine.close();
    const again = await connection.createChannel();
    again.on("error", () => {});
    await assert.rejects(again.checkQueue(queue), /404/);
  },

  async "a full buffer says so, and when it has drained"(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const body = Buffer.alloc(10_000);
    let drains = 0;
    for (let number = 0; number < 2_000; number += 1) {
      if (!channel.sendToQueue(queue, body)) {
        await within(once(channel, "drain"), "drain");
        drains += 1;
      }
    }
    assert.ok(drains > 0);
    await channel.waitForConfirms();
    assert.equal((await channel.checkQueue(queue)).messageCount, 2_000);
    await channel.close();
  },

  async "a publisher into a full queue is told that it is blocked, and goes on"(connection) {
    const publisher = await amqp.connect(url);
    const [blocked, unblocked] = [once(publisher, "blocked"), once(publisher, "unblocked")];
    const channel = await connection.createChannel();
    await channel.assertQueue("js-full", { durable: false, maxLength: 10, arguments: { "x-overflow": "block" } });
    const publishing = await publisher.createConfirmChannel();
    for (let number = 0; number < 500; number += 1) publishing.sendToQueue("js-full", Buffer.alloc(10_000));
    const [reason] = await within(blocked, "blocked");
    assert.ok(reason.length > 0);
    let taken = 0;
    await channel.prefetch(10);
    const all = new Promise((resolve) => {
      channel.consume("js-full", (message) => {
        if (message === null) return;
        channel.ack(message);
        taken += 1;
        if (taken === 500) resolve();
      });
    });
    await within(Promise.all([all, unblocked, publishing.waitForConfirms()]), "the rest");
    await publisher.close();
    await channel.deleteQueue("js-full");
    await channel.close();
  },

  async "a client that is cut off comes again"() {
    const connection = await amqp.connect(url);
    const channel = await connection.createChannel();
    await channel.assertQueue("js-kept", { durable: true });
    channel.sendToQueue("js-kept", Buffer.from("kept"), { persistent: true });
    const held = await within(consumed(channel, "js-kept", 1), "the message");
    assert.equal(held[0].fields.redelivered, false);
    const closed = new Promise((resolve) => connection.once("close", resolve));
    connection.on("error", () => {});
    connection.connection.stream.destroy(new Error("cut off"));
    await within(closed, "the end");
    const again = await amqp.connect(url);
    const second = await again.createChannel();
    const [message] = await within(consumed(second, "js-kept", 1), "the message again");
    assert.deepEqual([message.content.toString(), message.fields.redelivered], ["kept", true]);
    second.ack(message);
    assert.equal((await second.deleteQueue("js-kept", { ifEmpty: true })).messageCount, 0);
    await again.close();
  },

  async "a virtual host that is not there is refused"() {
    await assert.rejects(amqp.connect(`amqp://guest:guest@127.0.0.1:${port}/nowhere-at-all`), /ConnectionClose/);
  },

  async "what it asks is answered by direct reply-to"(connection) {
    const server = await connection.createChannel();
    const { queue } = await server.assertQueue("", { exclusive: true });
    await server.consume(queue, (message) => {
      server.sendToQueue(message.properties.replyTo, Buffer.from(`re: ${message.content}`), {
        correlationId: message.properties.correlationId,
      });
      server.ack(message);
    });
    const client = await connection.createChannel();
    const answer = consumed(client, "amq.rabbitmq.reply-to", 1, { noAck: true });
    client.sendToQueue(queue, Buffer.from("ask"), { replyTo: "amq.rabbitmq.reply-to", correlationId: "7" });
    const [message] = await within(answer, "the answer");
    assert.deepEqual([message.content.toString(), message.properties.correlationId], ["re: ask", "7"]);
    await server.close();
    await client.close();
  },
};

// The same by callbacks, the other half of its interface.
function byCallbacks() {
  return new Promise((resolve, reject) => {
    const orFail = (then) => (error, value) => (error ? reject(error) : then(value));
    callbackApi.connect(
      url,
      orFail((connection) => {
        connection.createConfirmChannel(
          orFail((channel) => {
            channel.prefetch(1);
            channel.assertQueue(
              "",
              { exclusive: true },
              orFail(({ queue }) => {
                channel.consume(
                  queue,
                  (message) => {
                    channel.ack(message);
                    channel.get(
                      queue,
                      {},
                      orFail((none) => {
                        assert.equal(none, false);
                        channel.cancel(
                          message.fields.consumerTag,
                          orFail(() => channel.close(orFail(() => connection.close(orFail(() => resolve()))))),
                        );
                      }),
                    );
                  },
                  {},
                  orFail(() => channel.sendToQueue(queue, Buffer.from("called back"), {}, orFail(() => {}))),
                );
              }),
            );
          }),
        );
      }),
    );
  });
}

async function underTls() {
  const options = { ca: [fs.readFileSync(ca)], servername: "localhost" };
  const login = `${encodeURIComponent(user)}:${encodeURIComponent(password)}`;
  const connection = await amqp.connect(`amqps://${login}@localhost:${tlsPort}/`, options);
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true });
  channel.sendToQueue(queue, Buffer.alloc(300_000, "x"));
  await channel.waitForConfirms();
  assert.equal((await channel.get(queue, { noAck: true })).content.length, 300_000);
  await connection.updateSecret(Buffer.from(password), "renewed");
  await channel.close();
  await connection.close();
  await assert.rejects(amqp.connect(`amqps://${encodeURIComponent(user)}:wrong@localhost:${tlsPort}/`, options), /403|ACCESS/);
}

async function main() {
  if (tlsPort) {
    await within(underTls(), "TLS");
    console.log("users come in under TLS");
    return;
  }
  const connection = await amqp.connect(url, { clientProperties: { connection_name: "amqplib" } });
  assert.equal(connection.connection.serverProperties.product, "Penstock");
  for (const [name, part] of Object.entries(parts)) {
    await within(part(connection), name);
    console.log(name);
  }
  await within(byCallbacks(), "callbacks");
  console.log("the same by callbacks");
  await connection.close();
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
