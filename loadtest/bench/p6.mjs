// P6. What does a waiting user cost Redis, and an idle socket the API?
//
// Method: 20,000 people join the line of a campaign without units; Redis's used memory before and after, once the journal is written and with
// the idempotency records counted apart. Then 5,000 sockets with a ticket each are opened to another API process, which has done
// nothing else, and left alone; its resident memory with a hundred of them and with all, three seconds later. Goal: ≤ 400 B and ≤ 12 KiB.

import { join } from 'node:path';
import { Redis } from 'ioredis';
import { WebSocket } from '../sockets.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { residentBytes } from './measure.mjs';
import { ROOT } from './stage.mjs';

const WAITING = 20_000;
const SOCKETS = 5_000;
const FIRST = 100;

/** @param {import('./stage.mjs').Stage} stage @param {(text: string) => void} say */
export async function run(stage, say) {
  const redis = new Redis(stage.redisUrl);
  const used = async () => Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1]);
  const settled = async () => {
    while ((await redis.xlen('db1:journal')) > 0) await new Promise((resolve) => setTimeout(resolve, 50));
  };
  const product = `p6-${Date.now()}`;
  await operator(stage.api.url, 'POST', '/admin/campaigns', {
    product_id: product,
    total_limit: 0,
    hold_seconds: 900,
    waiting_room: { enabled: true },
  });
  const before = await used();
  const requests = Array.from({ length: WAITING }, (_, i) =>
    checkoutRequest(product, `user-${i}`, `key-${product}-${i}`),
  );
  const { bodies } = await drive(stage.api.url, requests, { keepBodies: true });
  await settled();
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  const withKeys = await used();
  const keyNames = await redis.keys('db1:i:*');
  for (let i = 0; i < keyNames.length; i += 1_000) await redis.unlink(...keyNames.slice(i, i + 1_000));
  await new Promise((resolve) => setTimeout(resolve, 500));
  const without = await used();
  say(`${WAITING} wait`);
  const tickets = bodies.slice(0, SOCKETS).map((body) => JSON.parse(body).data.ticket);
  // One that has served thousands holds memory that it gives back while it is measured.
  const api = await stage.start('api', [join(ROOT, 'dist/api/main.js')]);
  let rssBefore = 0;
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
    redis_bytes_per_waiting: Math.round((without - before) / WAITING),
    redis_bytes_per_idempotency_record: Math.round((withKeys - without) / WAITING),
    api_bytes_per_socket: Math.round((rssAfter - rssBefore) / (SOCKETS - FIRST)),
    goal: '≤ 400 B, ≤ 12,288 B',
    met: (without - before) / WAITING <= 400 && (rssAfter - rssBefore) / (SOCKETS - FIRST) <= 12_288,
  };
}
