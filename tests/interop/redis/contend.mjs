// SPDX-License-Identifier: Apache-2.0
// node-redlock, for run: see contend.c.
import fs from "node:fs";
import process from "node:process";
import Redis from "ioredis";
import { default as Redlock } from "redlock";

const [way, port, name, kind, ...more] = process.argv.slice(2);
const client = new Redis(Number(port));
const redlock = new Redlock([client], { retryCount: -1, retryDelay: 5, retryJitter: 3 });
const ttl = kind.endsWith("brief") ? 2000 : 30000;

const take = () => redlock.acquire([name], ttl);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const say = (text) => fs.writeSync(1, `${text}\n`);
const nowMicros = () => Math.round((performance.timeOrigin + performance.now()) * 1000);

if (way === "contend") {
  let done = 0;
  const end = Date.now() + Number(more[0]) * 1000;
  while (Date.now() < end) {
    const lock = await take();
    const [value, token] = fs.readFileSync(more[1], "utf8").split(" ");
    await pause(0.1);
    fs.writeFileSync(more[1], `${Number(value) + 1} ${token}`);
    done += 1;
    await lock.release();
    await pause(1);
  }
  say(done);
} else if (way === "hold") {
  const lock = await take();
  say("held");
  while (!fs.existsSync(more[0])) {
    await pause(2);
  }
  say(nowMicros());
  await lock.release();
} else {
  say("waiting");
  const lock = await take();
  say(nowMicros());
  await lock.release();
}
client.disconnect();
