// The reference of throughput: a naive server. It has Express and one transaction in Postgres for each checkout, which
// locks the campaign's row with SELECT … FOR UPDATE. No line, no deadline, no idempotency.
import express from 'express';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: String(process.env.DATABASE_URL), max: 10 });
await pool.query('create table if not exists naive_campaign (id int primary key, free int)');
await pool.query(
  'create table if not exists naive_redemption (id uuid primary key default gen_random_uuid(), user_id text unique)',
);
await pool.query('insert into naive_campaign values (1, 10000000) on conflict do nothing');

const app = express();
app.post('/flash-sale/checkout', express.json(), async (req, res) => {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const { rows } = await client.query('select free from naive_campaign where id = 1 for update');
    if (rows[0].free < 1) {
      await client.query('rollback');
      res.status(410).json({ code: 'sold_out' });
      return;
    }
    const made = await client.query('insert into naive_redemption (user_id) values ($1) returning id', [
      req.body.user_id,
    ]);
    await client.query('update naive_campaign set free = free - 1 where id = 1');
    await client.query('commit');
    res.json({ data: { status: 'completed', reservation_id: made.rows[0].id } });
  } catch (error) {
    await client.query('rollback').catch(() => {});
    res.status(500).json({ error: String(error) });
  } finally {
    client.release();
  }
});
const server = app.listen(0, '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  process.stdout.write(`listening http://127.0.0.1:${port}\n`);
});
process.on('SIGTERM', () => process.exit(0));
