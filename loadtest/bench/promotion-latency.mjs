// How long does it take from a release until the next in line gets the promotion over their socket?
//
// Method: 5,000 units are held, 10,000 people wait, the first 5,000 of them with a socket. Then the 5,000 units are
// released by the payment service, RATE a second over eight keep-alive connections. Measured from the moment a release
// is written to the moment the frame `promoted` arrives; the line is strict, so the nth release is the nth socket's.
// Positions are sent to all 5,000 once a second meanwhile. Goal: p50 ≤ 10 ms, p99 ≤ 50 ms.
// Last record (2026-11-23, 500719d, load 0.4): told 5000, never_told 0, p50_ms 1, p90_ms 3, p99_ms 13.3, max_ms 54.2, releases_per_second 200, api_cpu_us_per_release 835.3, met true
import { connect } from 'node:net';
import { isPromoted, WebSocket } from '../sockets.mjs';
import { SERVICE } from './environment.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { cpuMicros, quantile, round } from './measure.mjs';

const UNITS = 5_000;
const WAITING = 10_000;
const SOCKETS = 5_000;
const RATE = 200;
const CONNECTIONS = 8;

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const product = `promotion-latency-${Date.now()}`;
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: UNITS,
    hold_seconds: 3_600,
    waiting_room: { enabled: true },
  });
  const arrive = (/** @type {number} */ count, /** @type {string} */ who) =>
    drive(
      environment.api.url,
      Array.from({ length: count }, (_, i) => checkoutRequest(product, `${who}${i}`, `key-${product}-${who}${i}`)),
      { keepBodies: true },
    );
  const held = (await arrive(UNITS, 'h')).bodies.map((body) => JSON.parse(body).data.reservation_id);
  const line = (await arrive(WAITING, 'w')).bodies
    .map((body) => JSON.parse(body).data)
    .sort((a, b) => a.position - b.position);
  say(`${line.length} wait`);

  /** When the socket at each position got its promotion. */
  const toldAt = new Float64Array(SOCKETS);
  let promoted = 0;
  /** @type {WebSocket[]} */
  const sockets = [];
  for (let i = 0; i < SOCKETS; i += 100) {
    await Promise.all(
      line.slice(i, i + 100).map(({ ticket, position }) => {
        const socket = new WebSocket(`${environment.api.url.replace('http', 'ws')}/flash-sale/ws?ticket=${ticket}`);
        sockets.push(socket);
        return new Promise((resolve, reject) => {
          socket.once('error', reject);
          socket.once('message', resolve);
          socket.on('message', (data) => {
            if (!isPromoted(data)) return;
            toldAt[position - 1] = performance.now();
            promoted += 1;
          });
        });
      }),
    );
  }
  say(`${sockets.length} sockets are open`);

  const cpuBefore = cpuMicros(environment.api.pid);
  const sentAt = await releaseAll(environment.api.url, held.slice(0, SOCKETS));
  const patience = performance.now() + 10_000;
  while (promoted < SOCKETS && performance.now() < patience) await new Promise((resolve) => setTimeout(resolve, 20));
  const cpu = cpuMicros(environment.api.pid) - cpuBefore;
  for (const socket of sockets) socket.terminate();
  const latencies = sentAt.flatMap((sent, i) => (Number(toldAt[i]) > 0 ? [Number(toldAt[i]) - sent] : []));
  const [p50, p99] = [quantile(latencies, 0.5), quantile(latencies, 0.99)];
  return {
    told: latencies.length,
    never_told: SOCKETS - latencies.length,
    p50_ms: round(p50),
    p90_ms: round(quantile(latencies, 0.9)),
    p99_ms: round(p99),
    max_ms: round(quantile(latencies, 1)),
    releases_per_second: RATE,
    api_cpu_us_per_release: round(cpu / SOCKETS),
    goal: 'p50 ≤ 10 ms, p99 ≤ 50 ms',
    met: latencies.length === SOCKETS && p50 <= 10 && p99 <= 50,
  };
}

/**
 * Releases one after the other, RATE a second.
 * @param {string} url
 * @param {string[]} reservations
 * @returns {Promise<number[]>}
 */
async function releaseAll(url, reservations) {
  const { hostname, port } = new URL(url);
  const connections = await Promise.all(
    Array.from(
      { length: CONNECTIONS },
      () =>
        new Promise((/** @type {(socket: import('node:net').Socket) => void} */ resolve, reject) => {
          const socket = connect(Number(port), hostname, () => resolve(socket));
          socket.setNoDelay(true);
          socket.once('error', reject);
          socket.on('data', (chunk) => {
            if (!chunk.toString('latin1', 0, 15).includes(' 200 ')) throw new Error(chunk.toString());
          });
        }),
    ),
  );
  const sentAt = [];
  const began = performance.now();
  for (const [i, reservation] of reservations.entries()) {
    const dueAt = began + (i / RATE) * 1000;
    while (performance.now() < dueAt) await new Promise((resolve) => setTimeout(resolve, 1));
    const body = JSON.stringify({ reservation_id: reservation });
    sentAt.push(performance.now());
    connections[i % CONNECTIONS]?.write(
      `POST /flash-sale/release HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${SERVICE}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
  }
  await new Promise((resolve) => setTimeout(resolve, 500));
  for (const socket of connections) socket.destroy();
  return sentAt;
}
