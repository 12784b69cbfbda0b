import { Redis } from 'ioredis';
import { createGroup, readEvents } from '../read-events.js';
import { FraudCounter } from './counter.js';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { replyMapping: 'legacy' });
const reader = { stream: process.env.EVENTS ?? 'db1:events', group: 'fraud', name: `fraud-${process.pid}` };
const counter = new FraudCounter(redis, 'example:fraud', [
  { by: 'device_fp', limit: 2, windowMs: 60_000 },
  { by: 'user_id', limit: 5, windowMs: 3_600_000 },
]);

let stopping = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => (stopping = true));
await createGroup(redis, reader);
while (!stopping) {
  await readEvents(redis, reader, async (event) => {
    for (const { rule, who, count } of await counter.handle(event)) {
      process.stdout.write(`${rule.by} ${who}: ${count} redemptions within ${rule.windowMs / 1000} s\n`);
    }
  });
}
redis.disconnect();
