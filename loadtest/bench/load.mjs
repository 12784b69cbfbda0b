// Generates HTTP load in this process: raw sockets with prepared requests, so that it costs a fraction of the server's
// work.
import { createHmac } from 'node:crypto';
import { Connection, requestBytes } from '../http-client.mjs';
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
  /** @type {Outcome} */
  const outcome = { replies: new Map(), ms: 0, latencies: [], bodies: [] };
  let next = 0;
  const began = performance.now();
  let running = true;
  const stayAwake = () => {
    if (running) setImmediate(stayAwake);
  };
  if (awake) stayAwake();
  const lane = async () => {
    const connection = new Connection(url);
    await connection.connect();
    for (let request = requests[next++]; request; request = requests[next++]) {
      const response = await connection.exchange(request);
      count(outcome, response);
      if (keepBodies) outcome.bodies.push(response.text);
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: Math.min(connections, requests.length) }, lane));
  running = false;
  outcome.ms = performance.now() - began;
  return outcome;
}

/** @param {Outcome} outcome @param {import('../http-client.mjs').Response} response */
function count({ replies, latencies }, { status, ms }) {
  replies.set(status, (replies.get(status) ?? 0) + 1);
  latencies.push(ms);
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
  /** @type {Outcome} */
  const outcome = { replies: new Map(), ms: 0, latencies: [], bodies: [] };
  const all = Array.from({ length: connections }, () => new Connection(url));
  await Promise.all(all.map((connection) => connection.connect()));
  const free = [...all];
  const gapMs = 1_000 / perSecond;
  const began = performance.now();
  let next = 0;
  /** @type {(value?: undefined) => void} */
  let finish = () => {};
  /** @type {(error: Error) => void} */
  let fail = () => {};
  const finished = new Promise((resolve, reject) => {
    finish = resolve;
    fail = reject;
  });
  const send = (/** @type {Connection} */ connection) => {
    const scheduledAt = began + next * gapMs;
    const request = requests[next] ?? '';
    next += 1;
    connection.exchange(request, scheduledAt).then((response) => {
      count(outcome, response);
      free.push(connection);
      if (outcome.latencies.length === requests.length) finish();
      else sendDue();
    }, fail);
  };
  const sendDue = () => {
    const due = Math.min(requests.length, Math.floor((performance.now() - began) / gapMs) + 1);
    while (next < due) {
      const connection = free.pop();
      if (!connection) return;
      send(connection);
    }
  };
  const ticking = setInterval(sendDue, TICK_MS);
  try {
    await finished;
  } finally {
    clearInterval(ticking);
    for (const connection of all) connection.close();
  }
  outcome.ms = performance.now() - began;
  return outcome;
}
