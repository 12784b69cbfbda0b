// Generates HTTP load in this process: raw sockets with prepared requests, so that it costs a fraction of the server's
// work.
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { ADMIN, ATTESTATION_KEY } from './environment.mjs';

/**
 * @typedef {{ status: number, body: string, ms: number }} Reply
 * @typedef {{ replies: Map<number, number>, ms: number, latencies: number[], bodies: string[] }} Outcome
 */

/** @param {string} url @param {string} method @param {string} path @param {unknown} [json] */
export async function operator(url, method, path, json) {
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
    ...(json === undefined ? {} : { body: JSON.stringify(json) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return JSON.parse(text).data;
}

/**
 * A device token as the server signs it.
 * @param {string} device
 * @param {Buffer} [key] if another process made the environment
 */
export function tokenOf(device, expiresAt = Math.floor(Date.now() / 1000) + 30, key = ATTESTATION_KEY) {
  const mac = createHmac('sha256', key).update(`${device}:${expiresAt}`).digest('base64url');
  return { device_fp: device, attestation: `a1.${mac}`, expires_at: expiresAt };
}

/** A request as bytes. @param {string} method @param {string} path @param {string[]} headers @param {unknown} [json] */
export function requestBytes(method, path, headers, json) {
  const body = json === undefined ? '' : JSON.stringify(json);
  const ofBody =
    json === undefined ? [] : ['Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`];
  return Buffer.from([`${method} ${path} HTTP/1.1`, 'Host: bench', ...ofBody, ...headers, '', body].join('\r\n'));
}

/**
 * A checkout with its own token, as bytes.
 * @param {string} product
 * @param {string} user
 * @param {string} key
 * @param {{ path?: string, device?: string, headers?: string[] }} [options]
 */
export function checkoutRequest(product, user, key, { path, device = `fp-${user}`, headers = [] } = {}) {
  const json = { product_id: product, user_id: user, qty: 1, ...tokenOf(device) };
  return requestBytes('POST', path ?? '/flash-sale/checkout', [`Idempotency-Key: ${key}`, ...headers], json);
}

/**
 * Sends requests over `connections` sockets, one at a time on each, until all are answered.
 * @param {string} url
 * @param {readonly Buffer[]} requests
 * @param {{ connections?: number, keepBodies?: boolean, awake?: boolean }} [options] awake: never sleeps. A generator
 *   that is faster than the server sleeps between two responses, and the kernel charges each waking to the server. A
 *   client on another machine would not cost that
 * @returns {Promise<Outcome>}
 */
export async function drive(url, requests, { connections = 64, keepBodies = false, awake = false } = {}) {
  const { hostname, port } = new URL(url);
  /** @type {Outcome} */
  const outcome = { replies: new Map(), ms: 0, latencies: [], bodies: [] };
  let next = 0;
  const began = performance.now();
  let running = true;
  const stayAwake = () => {
    if (running) setImmediate(stayAwake);
  };
  if (awake) stayAwake();
  await Promise.all(
    Array.from(
      { length: Math.min(connections, requests.length) },
      () =>
        new Promise((resolve, reject) => {
          const socket = connect(Number(port), hostname);
          socket.setNoDelay(true);
          let sentAt = 0;
          const send = () => {
            const request = requests[next];
            next += 1;
            if (!request) {
              socket.end();
              resolve(undefined);
              return;
            }
            sentAt = performance.now();
            socket.write(request);
          };
          socket.on('connect', send);
          socket.on('error', reject);
          onResponse(socket, (status, body) => {
            outcome.replies.set(status, (outcome.replies.get(status) ?? 0) + 1);
            outcome.latencies.push(performance.now() - sentAt);
            if (keepBodies) outcome.bodies.push(body);
            send();
          });
        }),
    ),
  );
  running = false;
  outcome.ms = performance.now() - began;
  return outcome;
}

/**
 * Calls back for each response on a connection that carries one request at a time.
 * @param {import('node:net').Socket} socket
 * @param {(status: number, body: string) => void} take
 */
function onResponse(socket, take) {
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    const end = text.indexOf('\r\n\r\n');
    if (end < 0) return;
    const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
    if (text.length < end + 4 + length) return;
    const [status, body] = [Number(text.slice(9, 12)), text.slice(end + 4, end + 4 + length)];
    text = '';
    take(status, body);
  });
}

/** How often requests that are due are sent. */
const TICK_MS = 1;

/**
 * Sends requests at a rate that does not depend on the server. Each is due at a moment from which its latency counts. A
 * request without a free connection waits for one.
 * @param {string} url
 * @param {readonly Buffer[]} requests
 * @param {number} perSecond
 * @param {number} connections
 * @returns {Promise<Outcome>}
 */
export async function driveAtRate(url, requests, perSecond, connections) {
  const { hostname, port } = new URL(url);
  /** @type {Outcome} */
  const outcome = { replies: new Map(), ms: 0, latencies: [], bodies: [] };
  /** @type {((index: number) => void)[]} */
  const free = [];
  const gapMs = 1_000 / perSecond;
  let began = 0;
  let next = 0;
  /** @type {() => void} */
  let finish = () => {};
  /** @type {(error: Error) => void} */
  let fail = () => {};
  const finished = new Promise((resolve, reject) => {
    finish = () => resolve(undefined);
    fail = reject;
  });
  const sendDue = () => {
    const due = Math.min(requests.length, Math.floor((performance.now() - began) / gapMs) + 1);
    for (; next < due; next += 1) {
      const send = free.pop();
      if (!send) return;
      send(next);
    }
  };
  const sockets = await Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = connect(Number(port), hostname);
      socket.setNoDelay(true);
      socket.on('error', fail);
      let scheduledAt = 0;
      const send = (/** @type {number} */ index) => {
        scheduledAt = began + index * gapMs;
        socket.write(requests[index] ?? '');
      };
      onResponse(socket, (status) => {
        outcome.replies.set(status, (outcome.replies.get(status) ?? 0) + 1);
        outcome.latencies.push(performance.now() - scheduledAt);
        free.push(send);
        if (outcome.latencies.length === requests.length) finish();
        else sendDue();
      });
      await once(socket, 'connect');
      free.push(send);
      return socket;
    }),
  );
  began = performance.now();
  const ticking = setInterval(sendDue, TICK_MS);
  try {
    await finished;
  } finally {
    clearInterval(ticking);
    for (const socket of sockets) socket.destroy();
  }
  outcome.ms = performance.now() - began;
  return outcome;
}
