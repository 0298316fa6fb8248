// SPDX-License-Identifier: Apache-2.0
// Locks for a Node program: one `snib hold --json`, any number of locks (docs/hold-json.md).
import assert from 'node:assert';
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

// 'held' may come again at any time: it answers an acquire, and nothing else.
const answers = {
    acquire: ['held', 'busy', 'cancelled', 'error'],
    release: ['released', 'cancelled', 'error'],
};

export class Snib {
    #waiting = new Map();
    #onLost = new Map();

    constructor(...options) {
        this.process = spawn('snib', ['hold', '--json', ...options], { stdio: ['pipe', 'pipe', 'inherit'] });
        this.process.stdin.on('error', () => {}); // its end is heard below
        createInterface({ input: this.process.stdout })
            .on('line', (line) => this.#hear(JSON.parse(line)))
            .on('close', () => { // snib itself is gone: so are its locks
                this.#onLost.forEach((stop) => stop('snib has ended'));
                this.#waiting.forEach(({ reject }) => reject(new Error('snib has ended')));
            });
    }

    #hear({ event, name, ...rest }) {
        const asked = this.#waiting.get(name);
        if (event === 'lost') {
            this.#onLost.get(name)?.(rest.why); // stop the work, then release
        } else if (asked && answers[asked.verb].includes(event)) {
            this.#waiting.delete(name);
            event === 'error' ? asked.reject(new Error(rest.message)) : asked.resolve(rest);
        }
    }

    #ask(verb, name, ...settings) {
        const words = [verb, name, ...settings], size = Buffer.byteLength(name);
        if (size < 1 || size > 200 || words.some((word) => /[\0-\x1f]/.test(word))) {
            throw new RangeError('a name is 1 to 200 bytes; no tabs or newlines');
        }
        return new Promise((resolve, reject) => {
            this.#waiting.set(name, { verb, resolve, reject });
            this.process.stdin.write(words.join('\t') + '\n');
        });
    }

    // The token; undefined if it is busy: acquire('x', stop, { wait: 5, mode: 'shared' })
    async acquire(name, onLost, settings = {}) {
        this.#onLost.set(name, onLost);
        const words = Object.entries(settings).map(([key, value]) => `${key}=${value}`);
        let token;
        try {
            ({ token } = await this.#ask('acquire', name, ...words));
        } finally {
            if (token === undefined) this.#onLost.delete(name);
        }
        return token;
    }

    // True; false if it had been lost before.
    async release(name) {
        this.#onLost.delete(name);
        return (await this.#ask('release', name)).code === 'OK';
    }

    close() { // gives all back
        this.#onLost.clear();
        this.process.stdin.end();
    }
}

if (import.meta.url === `file://${process.argv[1]}`) {
    const snib = new Snib(), other = new Snib();
    console.log('held with token', await snib.acquire('report', console.log));
    assert.equal(await other.acquire('report', console.log, { wait: 0 }), undefined); // busy
    assert(await snib.release('report'));
    const why = await new Promise((lost) => snib.acquire('report', lost, { 'max-hold': '200ms' }));
    console.log('lost:', why);
    assert(!await snib.release('report'));
    snib.close();
    other.close();
}
