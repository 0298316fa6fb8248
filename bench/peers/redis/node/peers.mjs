// SPDX-License-Identifier: Apache-2.0

// redis-semaphore: see ../run for what each program is asked.
import fs from 'node:fs';
import ioredis from 'ioredis';
import semaphore from 'redis-semaphore';

const [address, measure, ...rest] = process.argv.slice(3);
const [host, port] = address.split(':');
const Redis = ioredis.default ?? ioredis;
const client = new Redis({ host, port: Number(port) });
const of = (name) => new semaphore.Mutex(client, name, { lockTimeout: 30000, acquireTimeout: 120000 });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const nowUs = () => Math.round((performance.timeOrigin + performance.now()) * 1000);

async function pairs(lock, count) {
  const start = performance.now();
  for (let i = 0; i < count; i++) {
    await lock.acquire();
    await lock.release();
  }
  return ((performance.now() - start) * 1000) / count;
}

async function names(seconds) {
  let stop = false;
  let done = 0;
  const all = Array.from({ length: 64 }, async (_, i) => {
    const lock = of(`names-${i}`);
    while (!stop) {
      await lock.acquire();
      await lock.release();
      done++;
    }
  });
  await sleep(500);
  const before = done;
  const start = performance.now();
  await sleep(seconds * 1000);
  const rate = ((done - before) * 1000) / (performance.now() - start);
  stop = true;
  await Promise.all(all);
  return rate;
}

async function grab(lock, seconds, holdUs, path) {
  const file = fs.openSync(path, fs.constants.O_RDWR | fs.constants.O_CREAT, 0o600);
  const note = Buffer.alloc(16);
  const passed = [];
  let count = 0;
  for (const end = performance.now() + seconds * 1000; performance.now() < end; ) {
    const asked = nowUs();
    await lock.acquire();
    const now = nowUs();
    fs.readSync(file, note, 0, 16, 0);
    const ended = Number(note.readBigInt64LE(8));
    if (Number(note.readBigInt64LE(0)) !== process.pid) {
      count++;
      if (asked < ended) passed.push(now - ended);
    }
    if (holdUs) await sleep(holdUs / 1000);
    note.writeBigInt64LE(BigInt(process.pid), 0);
    note.writeBigInt64LE(BigInt(nowUs()), 8);
    fs.writeSync(file, note, 0, 16, 0);
    await lock.release();
    if (holdUs) await sleep(holdUs / 2000);
  }
  passed.sort((a, b) => a - b);
  return `${count} ${passed.length ? passed[passed.length >> 1] : -1}`;
}

if (measure === 'pairs') {
  const lock = of('pairs');
  await pairs(lock, Number(rest[0]) / 4);
  console.log((await pairs(lock, Number(rest[0]))).toFixed(2));
} else if (measure === 'names') {
  console.log((await names(Number(rest[0]))).toFixed(0));
} else {
  console.log(await grab(of(rest[0]), Number(rest[1]), Number(rest[2]), rest[3]));
}
process.exit(0);
