// Lets people arrive at moments that are set beforehand, whatever the server does, over connections that they share.
import { ask, forEach, HttpClient } from './http-client.mjs';

const OPENED_AT_ONCE = 64;

/** Open connections, each for one request at a time. */
export class ConnectionPool {
  /** @type {HttpClient[]} */
  #idle = [];
  /** @type {((client: HttpClient) => void)[]} */
  #waiting = [];
  /** @type {HttpClient[]} */
  #all = [];

  /**
   * @param {string} url of the server
   * @param {number} count of connections
   */
  static async open(url, count) {
    const pool = new ConnectionPool();
    pool.#all = Array.from({ length: count }, () => new HttpClient(url));
    await forEach(pool.#all, OPENED_AT_ONCE, (client) => client.connect());
    pool.#idle = [...pool.#all];
    return pool;
  }

  /** @type {HttpClient['prepare']} */
  prepare(...request) {
    return /** @type {HttpClient} */ (this.#all[0]).prepare(...request);
  }

  /**
   * Sends a request over the next free connection, and counts its response.
   * @param {import('./tally.mjs').Tally} tally
   * @param {string} name
   * @param {Buffer} bytes
   * @param {{ since?: number, onSend?: () => void }} [options] since: when it was due, so that the wait for a
   *   connection counts
   */
  async ask(tally, name, bytes, { since = performance.now(), onSend = () => {} } = {}) {
    const client = await this.#free();
    try {
      onSend();
      return await ask(tally, name, client, bytes, since);
    } finally {
      const next = this.#waiting.shift();
      if (next) next(client);
      else this.#idle.push(client);
    }
  }

  /** @returns {Promise<HttpClient>} a connection without a request */
  async #free() {
    return this.#idle.pop() ?? new Promise((resolve) => this.#waiting.push(resolve));
  }

  close() {
    for (const client of this.#all) client.close();
  }
}

/**
 * Begins `work` for each of `count` people at even moments over `ms`, and returns when all of it is done.
 * @param {number} count
 * @param {number} ms
 * @param {(at: number, due: number) => Promise<unknown>} work due: the moment of the person, in `performance.now()`
 * @param {(ms: number) => Promise<unknown>} pause
 */
export async function arrive(count, ms, work, pause) {
  const began = performance.now();
  /** @type {Promise<unknown>[]} */
  const under = [];
  while (under.length < count) {
    const due = ((performance.now() - began) / ms) * count;
    while (under.length < count && under.length < due) {
      const at = under.length;
      under.push(work(at, began + (at / count) * ms));
    }
    await pause(1);
  }
  await Promise.all(under);
}
