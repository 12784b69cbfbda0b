import { Redis } from 'ioredis';
import pg from 'pg';
import { readUntilStopped } from '../event-source.js';
import { Carts } from './cart.js';

const { REDIS_URL = 'redis://127.0.0.1:6379', CART_DATABASE_URL } = process.env;
if (!CART_DATABASE_URL) throw new Error('set CART_DATABASE_URL to the Postgres that has the carts');
// With KAFKA_BROKERS it is never connected.
const redis = new Redis(REDIS_URL, { lazyConnect: true, replyMapping: 'legacy' });
const pool = new pg.Pool({ connectionString: CART_DATABASE_URL });
// A connection that ends while it is idle is replaced.
pool.on('error', (error) => process.stderr.write(`${error.message}\n`));
const carts = new Carts(pool);
await carts.createTables();

await readUntilStopped(redis, 'cart', async (event) => {
  await carts.handle(event);
  process.stdout.write(`${event.type} ${event.subject}\n`);
});
redis.disconnect();
await pool.end();
