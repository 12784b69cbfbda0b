// What does a waiting user cost Redis, what a reservation, and an idle socket the API?
//
// Method: 20,000 people join the line for the one unit of a campaign, which is held, and 20,000 get one of another
// campaign; Redis's used memory before and after each, once the journal is written, with the idempotency records and
// the list of their names counted apart, since both end with them, and the stream of events emptied. Then 5,000
// sockets with a ticket each are opened to another API process that has done nothing else, and stay idle. Its
// resident memory is read with a hundred of them and with all, three seconds later. Goal: ≤ 400 B and ≤ 12 KiB.
// Last record (2026-11-23, 500719d, load 0.4): redis_bytes_per_waiting 400, redis_bytes_per_reservation 478, redis_bytes_per_idempotency_record 403, api_bytes_per_socket 8651, met true

import { join } from 'node:path';
import { Redis } from 'ioredis';
import { WebSocket } from '../sockets.mjs';
import { untilWritten, usedBytes, withoutEvents } from './engine.mjs';
import { ROOT } from './environment.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { residentBytes } from './measure.mjs';

const PEOPLE = 20_000;
const SOCKETS = 5_000;
const FIRST = 100;

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const redis = new Redis(environment.redisUrl);
  const waiting = await fill(environment, redis, `memory-per-user-line-${Date.now()}`, 1);
  say(`${PEOPLE} wait`);
  const holding = await fill(environment, redis, `memory-per-user-units-${Date.now()}`, PEOPLE);
  say(`${PEOPLE} hold a unit`);
  const { bodies } = waiting;
  const tickets = bodies.slice(0, SOCKETS).map((body) => JSON.parse(body).data.ticket);
  // A process that has served thousands would free memory during the measurement.
  const api = await environment.start('api', [join(ROOT, 'dist/api/main.js')]);
  let rssBefore = 0;
  /** @type {WebSocket[]} */
  const sockets = [];
  for (let i = 0; i < tickets.length; i += FIRST) {
    if (i === FIRST) rssBefore = residentBytes(api.pid);
    await Promise.all(
      tickets.slice(i, i + FIRST).map(
        (ticket) =>
          new Promise((resolve, reject) => {
            const socket = new WebSocket(`${api.url.replace('http', 'ws')}/flash-sale/ws?ticket=${ticket}`);
            socket.once('message', resolve);
            socket.once('error', reject);
            sockets.push(socket);
          }),
      ),
    );
  }
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  const rssAfter = residentBytes(api.pid);
  for (const socket of sockets) socket.terminate();
  redis.disconnect();
  return {
    redis_bytes_per_waiting: waiting.each,
    redis_bytes_per_reservation: holding.each,
    redis_bytes_per_idempotency_record: holding.record,
    api_bytes_per_socket: Math.round((rssAfter - rssBefore) / (SOCKETS - FIRST)),
    goal: '≤ 400 B, ≤ 12,288 B',
    met: waiting.each <= 400 && (rssAfter - rssBefore) / (SOCKETS - FIRST) <= 12_288,
  };
}

/**
 * Sends users to a new campaign.
 * @param {import('./environment.mjs').Environment} environment
 * @param {Redis} redis
 * @param {string} product
 * @param {number} units
 * @returns bytes of Redis for each user and for each idempotency record, and the responses
 */
async function fill(environment, redis, product, units) {
  await operator(environment.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: units,
    hold_seconds: 900,
    waiting_room: { enabled: true },
  });
  await withoutEvents(redis);
  const before = await usedBytes(redis);
  const requests = Array.from({ length: PEOPLE }, (_, i) => {
    const user = `${product.slice(0, 7)}-user-${i}`;
    return checkoutRequest(product, user, `key-${product}-${i}`);
  });
  const { bodies } = await drive(environment.api.url, requests, { keepBodies: true });
  await untilWritten(redis);
  // The quotas of devices expire within a second, and the events are published by then.
  await pause(2_500);
  await withoutEvents(redis);
  const withRecords = await usedBytes(redis);
  const records = [...(await redis.keys('db1:i:*')), ...(await redis.keys('db1:r:*'))];
  for (let i = 0; i < records.length; i += 1_000) await redis.unlink(...records.slice(i, i + 1_000));
  await pause(500);
  const after = await usedBytes(redis);
  return {
    each: Math.round((after - before) / PEOPLE),
    record: Math.round((withRecords - after) / PEOPLE),
    bodies,
  };
}

const pause = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
