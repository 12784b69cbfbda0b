import { Redis } from 'ioredis';
import { readUntilStopped } from '../event-source.js';
import { Carts } from './cart.js';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { replyMapping: 'legacy' });
const carts = new Carts(redis, 'example:cart');

await readUntilStopped(redis, 'cart', async (event) => {
  await carts.handle(event);
  process.stdout.write(`${event.type} ${event.subject}\n`);
});
redis.disconnect();
