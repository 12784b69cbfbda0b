// The bots of bots.mjs, in a process of their own, so that they do not slow down the shoppers whose latency is
// measured. The first message names the targets; later ones pause, resume and stop the bots. Prints nothing, and sends
// its counts when it stops. Loopback only.
import { randomInt, randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import WebSocket from 'ws';
import { tokenOf } from './load.mjs';

/**
 * @typedef {{ url: string, bareUrl: string, product: string, worked: Record<string, unknown>, ticket: string, key:
 *   string }} Target
 */

const agent = new Agent({ keepAlive: true, maxSockets: 64 });
const address = (/** @type {number} */ net, /** @type {number} */ n) => `10.${net}.${(n >> 8) & 255}.${n & 255}`;
/** @type {Record<string, Record<string, number>>} */
const met = {};
/** @type {NodeJS.Timeout[]} */
const timers = [];
let stopped = false;
let paused = false;

process.on('message', (/** @type {Target | 'pause' | 'go' | 'stop'} */ message) => {
  if (typeof message === 'object') attack(message);
  if (message === 'pause') paused = true;
  if (message === 'go') paused = false;
  if (message !== 'stop') return;
  stopped = true;
  for (const timer of timers) clearInterval(timer);
  agent.destroy();
  process.send?.(met, () => process.exit(0));
});

/** @param {Target} target */
function attack({ url, bareUrl, product, worked, ticket, key }) {
  const signing = Buffer.from(key, 'base64');
  const fresh = (/** @type {string} */ device) => tokenOf(device, Math.floor(Date.now() / 1000) + 30, signing);
  /** @param {string} from @param {Record<string, unknown>} token */
  const checkout = (from, token) => ({
    url,
    path: '/flash-sale/checkout',
    from,
    json: { product_id: product, user_id: `bot-${randomUUID()}`, qty: 1, idempotency_key: randomUUID(), ...token },
  });
  const stale = Math.floor(Date.now() / 1000) - 3_600;
  every('one device, 50 a second from 1,000 addresses', 50, () =>
    checkout(address(1, randomInt(1_000)), fresh('fp-bot')),
  );
  every('1,000 devices from one address', 200, () => checkout('10.2.0.1', fresh(`fp-bot-${randomInt(1_000)}`)));
  every('tokens replayed', 30, () => checkout(address(3, randomInt(1_000)), worked));
  every('tokens transplanted', 30, () =>
    checkout(address(4, randomInt(1_000)), { ...worked, device_fp: `fp-${randomUUID()}` }),
  );
  every('tokens stale', 30, () =>
    checkout(address(5, randomInt(1_000)), tokenOf(`fp-${randomUUID()}`, stale, signing)),
  );
  every('codes guessed by many accounts', 100, () => ({
    url,
    path: '/coupons/redeem',
    from: address(6, randomInt(1_000)),
    json: {
      code: `GUESS${randomInt(1e9)}`,
      user_id: `bot-${randomUUID()}`,
      order_id: 'order',
      idempotency_key: randomUUID(),
    },
  }));
  // The API without a proxy in front, on which the real address of the bots is banned.
  every('forged addresses', 50, () => ({
    ...checkout(address(7, randomInt(60_000)), fresh('fp-forger')),
    url: bareUrl,
  }));
  for (let i = 0; i < 5; i += 1) floodSocket(url, ticket);
}

/**
 * @param {string} name
 * @param {number} perSecond
 * @param {() => { url: string, path: string, from: string, json: unknown }} make
 */
function every(name, perSecond, make) {
  const eachMs = 20;
  timers.push(
    setInterval(() => {
      if (paused) return;
      for (let i = 0; i < (perSecond * eachMs) / 1000; i += 1) send(name, make());
    }, eachMs),
  );
}

/** @param {string} name @param {{ url: string, path: string, from: string, json: unknown }} what */
function send(name, { url, path, from, json }) {
  const body = JSON.stringify(json);
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'x-forwarded-for': from,
  };
  const sent = request(`${url}${path}`, { method: 'POST', agent, headers }, (answer) => {
    count(name, String(answer.statusCode));
    answer.resume();
  });
  sent.on('error', () => count(name, 'none'));
  sent.end(body);
}

/** @param {string} name @param {string} what */
function count(name, what) {
  met[name] ??= {};
  met[name][what] = (met[name][what] ?? 0) + 1;
}

/**
 * Sends a thousand frames a second until the server closes the socket, then connects again.
 * @param {string} url
 * @param {string} ticket
 */
function floodSocket(url, ticket) {
  const name = 'sockets with 1,000 frames a second';
  const socket = new WebSocket(`${url.replace('http', 'ws')}/flash-sale/ws?ticket=${encodeURIComponent(ticket)}`);
  const flood = setInterval(() => {
    if (!paused && socket.readyState === WebSocket.OPEN) for (let i = 0; i < 20; i += 1) socket.send('{"type":"ping"}');
  }, 20);
  timers.push(flood);
  socket.on('error', () => {});
  socket.on('close', (code) => {
    clearInterval(flood);
    count(name, `closed ${code}`);
    if (!stopped) setTimeout(() => floodSocket(url, ticket), 200).unref();
  });
}
