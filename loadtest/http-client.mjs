// HTTP clients with one raw socket each: requests are prepared bytes, responses are parsed as far as needed. Thousands
// of them fit in one process, at a tenth of the cost of Artillery, for load that has to arrive at one moment.
import { connect } from 'node:net';
import { outcomeOf } from './tally.mjs';

const SILENT_MS = 15_000;

/** @typedef {{ status: number, text: string, ms: number }} Response */
/** @typedef {{ status: number, outcome: string, body: any, ms: number }} Answer */

/** One connection that is kept open, with one request at a time. */
export class Connection {
  /** @type {import('node:net').Socket | null} */
  #socket = null;
  #text = '';
  /** @type {{ resolve: (response: Response) => void, reject: (error: Error) => void, since: number } | null} */
  #waiting = null;

  /** @param {string} url of the server */
  constructor(url) {
    const { hostname, port, host } = new URL(url);
    this.address = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 80) };
    this.hostHeader = host;
  }

  /** @returns {Promise<void>} */
  connect() {
    return new Promise((resolve, reject) => {
      const socket = connect(this.address);
      this.#socket = socket;
      socket.setNoDelay(true);
      socket.setTimeout(SILENT_MS, () => socket.destroy(new Error(`silent for ${SILENT_MS / 1000} s`)));
      socket.once('connect', resolve);
      socket.on('error', (error) => {
        reject(error);
        this.#fail(error);
      });
      socket.on('close', () => this.#fail(new Error('the connection was closed')));
      socket.on('data', (chunk) => this.#onData(chunk.toString('latin1')));
    });
  }

  /**
   * @param {Buffer | string} bytes of a whole request
   * @param {number} [since] when it was due, in `performance.now()`: a late generator must not make the server look
   *   fast
   * @returns {Promise<Response>}
   */
  exchange(bytes, since = performance.now()) {
    return new Promise((resolve, reject) => {
      if (this.#socket === null || this.#socket.destroyed) return reject(new Error('there is no connection'));
      this.#waiting = { resolve, reject, since };
      this.#socket.write(bytes);
    });
  }

  close() {
    this.#waiting = null;
    this.#socket?.destroy();
  }

  /** @param {string} chunk */
  #onData(chunk) {
    this.#text += chunk;
    const end = this.#text.indexOf('\r\n\r\n');
    if (end < 0 || this.#waiting === null) return;
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(this.#text)?.[1] ?? 0);
    if (this.#text.length < end + 4 + length) return;
    const { resolve, since } = this.#waiting;
    const [status, text] = [Number(this.#text.slice(9, 12)), this.#text.slice(end + 4, end + 4 + length)];
    this.#text = '';
    this.#waiting = null;
    resolve({ status, text, ms: performance.now() - since });
  }

  /** @param {Error} error */
  #fail(error) {
    this.#waiting?.reject(error);
    this.#waiting = null;
  }
}

/** A client that reads the JSON of each response. */
export class HttpClient extends Connection {
  /**
   * @param {Buffer | string} bytes of a whole request
   * @param {number} [since] see `exchange`
   * @returns {Promise<Answer>}
   */
  async request(bytes, since) {
    const { status, text, ms } = await this.exchange(bytes, since);
    const body = JSON.parse(text || 'null');
    return { status, outcome: outcomeOf(status, body), body, ms };
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object | null} json
   * @param {string[]} [headers]
   */
  prepare(method, path, json, headers) {
    return requestBytes(method, path, headers, json ?? undefined, this.hostHeader);
  }
}

/**
 * A request as bytes.
 * @param {string} method
 * @param {string} path
 * @param {string[]} [headers]
 * @param {unknown} [json]
 * @param {string} [host]
 */
export function requestBytes(method, path, headers = [], json, host = 'bench') {
  const body = json === undefined ? '' : JSON.stringify(json);
  const ofBody =
    json === undefined ? [] : ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`];
  return Buffer.from([`${method} ${path} HTTP/1.1`, `Host: ${host}`, ...ofBody, ...headers, '', body].join('\r\n'));
}

/**
 * Sends a request and counts its response, or that there was none.
 * @param {Pick<import('./tally.mjs').Tally, 'sent' | 'answered' | 'broken'>} tally
 * @param {string} name
 * @param {HttpClient} client
 * @param {Buffer} bytes
 * @param {number} [since]
 * @returns {Promise<Answer | null>} null = no response
 */
export async function ask(tally, name, client, bytes, since) {
  tally.sent(name);
  try {
    const answer = await client.request(bytes, since);
    tally.answered(name, answer.outcome, answer.ms);
    return answer;
  } catch (error) {
    tally.broken(name, String(error instanceof Error ? error.message : error));
    return null;
  }
}

/**
 * Runs `work` for each item, `atOnce` items at a time.
 * @template Item
 * @param {readonly Item[]} items
 * @param {number} atOnce
 * @param {(item: Item, at: number) => Promise<unknown>} work
 * @returns {Promise<void>}
 */
export async function forEach(items, atOnce, work) {
  let next = 0;
  const lane = async () => {
    for (let at = next++; at < items.length; at = next++) await work(/** @type {Item} */ (items[at]), at);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane));
}

/**
 * Connects clients and requests a device token for each, as if all of them had opened the page of the sale.
 * @param {import('./run.mjs').LoadRun} run
 * @param {number} count
 * @returns {Promise<{ client: HttpClient, user: string, device: Record<string, unknown> }[]>}
 */
export async function connectClients(run, count) {
  const clients = Array.from({ length: count }, (_, i) => ({
    client: new HttpClient(run.target.url),
    user: `u-${run.id}-${i}`,
    device: /** @type {Record<string, unknown>} */ ({}),
  }));
  await forEach(clients, 256, async (one) => {
    await one.client.connect();
    const path = `/flash-sale/token?device_fp=d-${one.user}`;
    const answer = await ask(run.tally, 'token', one.client, one.client.prepare('GET', path, null));
    one.device = answer?.body.data ?? {};
  });
  return clients;
}
