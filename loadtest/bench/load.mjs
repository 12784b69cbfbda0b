// A generator of HTTP load in this process: raw sockets with prepared requests, so that it costs a fraction of what it loads.
import { createHmac } from 'node:crypto';
import { connect } from 'node:net';
import { ADMIN, ATTESTATION_KEY } from './stage.mjs';

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

/** A checkout with a token of its own, as bytes. @param {string} product @param {string} user @param {string} key */
export function checkoutRequest(product, user, key, path = '/flash-sale/checkout') {
  const expiresAt = Math.floor(Date.now() / 1000) + 30;
  const device = `fp-${user}`;
  const mac = createHmac('sha256', ATTESTATION_KEY).update(`${device}:${expiresAt}`).digest('base64url');
  const body = JSON.stringify({
    product_id: product,
    user_id: user,
    qty: 1,
    device_fp: device,
    attestation: `a1.${mac}`,
    expires_at: expiresAt,
  });
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nIdempotency-Key: ${key}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

/**
 * Sends requests over `connections` sockets, one at a time on each, until all are answered.
 * @param {string} url
 * @param {readonly Buffer[]} requests
 * @param {{ connections?: number, keepBodies?: boolean }} [options]
 * @returns {Promise<Outcome>}
 */
export async function drive(url, requests, { connections = 64, keepBodies = false } = {}) {
  const { hostname, port } = new URL(url);
  /** @type {Outcome} */
  const outcome = { replies: new Map(), ms: 0, latencies: [], bodies: [] };
  let next = 0;
  const began = performance.now();
  await Promise.all(
    Array.from(
      { length: Math.min(connections, requests.length) },
      () =>
        new Promise((resolve, reject) => {
          const socket = connect(Number(port), hostname);
          socket.setNoDelay(true);
          let sentAt = 0;
          let text = '';
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
          socket.on('data', (chunk) => {
            text += chunk.latin1Slice();
            const end = text.indexOf('\r\n\r\n');
            if (end < 0) return;
            const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
            if (text.length < end + 4 + length) return;
            const status = Number(text.slice(9, 12));
            outcome.replies.set(status, (outcome.replies.get(status) ?? 0) + 1);
            outcome.latencies.push(performance.now() - sentAt);
            if (keepBodies) outcome.bodies.push(text.slice(end + 4, end + 4 + length));
            text = '';
            send();
          });
        }),
    ),
  );
  outcome.ms = performance.now() - began;
  return outcome;
}
