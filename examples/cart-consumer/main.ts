import { Redis } from 'ioredis';
import { createGroup, readEvents } from '../read-events.js';
import { Carts } from './cart.js';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { replyMapping: 'legacy' });
const reader = { stream: process.env.EVENTS ?? 'db1:events', group: 'cart', name: `cart-${process.pid}` };
const carts = new Carts(redis, 'example:cart');

let stopping = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => (stopping = true));
await createGroup(redis, reader);
while (!stopping) {
  await readEvents(redis, reader, async (event) => {
    await carts.handle(event);
    process.stdout.write(`${event.type} ${event.subject}\n`);
  });
}
redis.disconnect();
