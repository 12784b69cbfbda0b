import { Redis } from 'ioredis';
import { readUntilStopped } from '../event-source.js';
import { Bans } from './bans.js';
import { FraudCounter } from './counter.js';

const { REDIS_URL, API_URL, ADMIN_KEY } = process.env;
const redis = new Redis(REDIS_URL ?? 'redis://127.0.0.1:6379', { replyMapping: 'legacy' });
const counter = new FraudCounter(redis, 'example:fraud', [
  { by: 'device_fp', limit: 2, windowMs: 60_000 },
  { by: 'user_id', limit: 5, windowMs: 3_600_000 },
]);
const bans = API_URL && ADMIN_KEY ? new Bans({ api: API_URL, key: ADMIN_KEY, banMs: 3_600_000 }) : null;

await readUntilStopped(redis, 'fraud', async (event) => {
  for (const suspicion of await counter.handle(event)) {
    const { rule, who, count } = suspicion;
    const action = (await bans?.ban(suspicion)) ? '; banned for an hour' : '';
    process.stdout.write(`${rule.by} ${who}: ${count} redemptions within ${rule.windowMs / 1000} s${action}\n`);
  }
});
redis.disconnect();
