// Does Postgres get the rows as fast as checkouts are confirmed?
//
// Method: 10,000 checkouts at full speed while the age of the oldest entry that Postgres lacks is read every 50 ms;
// then the time until all rows are there. Afterwards another 10,000 run while the worker is stopped (SIGSTOP). The time
// from its resumption until the journal is empty, three times, is the cost of a backlog by itself. The reference writes
// the same rows, all their columns, with bare `unnest` inserts of 500 into a table with the same indexes and no
// triggers. Goal: no entry older than 2 s, and all rows within 2 × the bare insert after the load has ended. A backlog
// takes longer than that: each of its rows is read from the journal, counted against the cap, and written with its
// event, in the same transaction.
// Last record (2026-11-23, 500719d, load 0.4): load_ms 1654, rows_after_load_ms 28, oldest_unpersisted_s 0.1, bare_insert_ms 161, backlog_ms 446, backlog_ratio 2.8, met true
import { Redis } from 'ioredis';
import pg from 'pg';
import { untilWritten } from './engine.mjs';
import { checkoutRequest, drive, operator } from './load.mjs';
import { median, round } from './measure.mjs';

const CHECKOUTS = 10_000;
const BATCH = 500;
const BACKLOGS = 3;

/** @param {import('./environment.mjs').Environment} environment @param {(text: string) => void} say */
export async function run(environment, say) {
  const client = new pg.Client(environment.databaseUrl);
  await client.connect();
  try {
    const product = `persistence-${Date.now()}`;
    const campaign = await operator(environment.api.url, 'POST', '/admin/campaigns', {
      product_id: product,
      total_limit: 10_000_000,
      hold_seconds: 900,
    });
    let oldest = 0;
    let running = true;
    const watching = (async () => {
      while (running) {
        const { oldest_unpersisted_seconds } = await operator(
          environment.api.url,
          'GET',
          `/admin/campaigns/${product}/stats`,
        );
        oldest = Math.max(oldest, oldest_unpersisted_seconds);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    })();
    const requests = Array.from({ length: CHECKOUTS }, (_, i) =>
      checkoutRequest(product, `u${i}`, `key-${product}-${i}`),
    );
    const { ms } = await drive(environment.api.url, requests, { connections: 128 });
    const after = performance.now();
    for (;;) {
      const { rows } = await client.query('select count(*)::int as n from redemptions where campaign_id = $1', [
        campaign.id,
      ]);
      if (rows[0].n === CHECKOUTS) break;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const drained = performance.now() - after;
    running = false;
    await watching;
    say(`load ${Math.round(ms)} ms, rows ${Math.round(drained)} ms later`);
    const bare = await bareInsert(client, campaign.id);
    const backlog = [];
    for (let i = 0; i < BACKLOGS; i += 1) {
      const ms = await drainBacklog(environment, product, i);
      backlog.push(ms);
      say(`${CHECKOUTS} of a backlog in ${Math.round(ms)} ms`);
    }
    return {
      load_ms: Math.round(ms),
      rows_after_load_ms: Math.round(drained),
      oldest_unpersisted_s: round(oldest, 2),
      bare_insert_ms: Math.round(bare),
      backlog_ms: Math.round(median(backlog)),
      backlog_ratio: round(median(backlog) / bare),
      goal: 'oldest ≤ 2 s; rows after the load ≤ 2 × bare insert',
      met: oldest <= 2 && drained <= 2 * bare,
    };
  } finally {
    await client.end();
  }
}

/**
 * @param {import('./environment.mjs').Environment} environment
 * @param {string} product
 * @param {number} round_
 * @returns milliseconds until a worker has persisted its backlog
 */
async function drainBacklog(environment, product, round_) {
  const redis = new Redis(environment.redisUrl);
  try {
    process.kill(environment.worker.pid, 'SIGSTOP');
    const requests = Array.from({ length: CHECKOUTS }, (_, i) =>
      checkoutRequest(product, `b${round_}-${i}`, `key-${product}-b${round_}-${i}`),
    );
    await drive(environment.api.url, requests, { connections: 128 });
    const began = performance.now();
    process.kill(environment.worker.pid, 'SIGCONT');
    await untilWritten(redis);
    return performance.now() - began;
  } finally {
    process.kill(environment.worker.pid, 'SIGCONT');
    redis.disconnect();
  }
}

/** @param {pg.Client} client @param {string} campaignId @returns milliseconds */
async function bareInsert(client, campaignId) {
  await client.query('create table bare (like redemptions_shared including defaults including indexes)');
  const { rows } = await client.query('select * from redemptions where campaign_id = $1', [campaignId]);
  const { rows: columns } = await client.query(
    `select a.attname as name, format_type(a.atttypid, null) as type from pg_attribute a
     where a.attrelid = 'bare'::regclass and a.attnum > 0 and a.attgenerated = ''`,
  );
  const names = columns.map(({ name }) => name).join(', ');
  const arrays = columns.map(({ type }, i) => `$${i + 1}::${type}[]`).join(', ');
  const insert = `insert into bare (${names}) select * from unnest(${arrays})`;
  const began = performance.now();
  for (let from = 0; from < rows.length; from += BATCH) {
    const batch = rows.slice(from, from + BATCH);
    await client.query(
      insert,
      columns.map(({ name }) => batch.map((row) => row[name])),
    );
  }
  return performance.now() - began;
}
