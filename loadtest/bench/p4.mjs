// P4. Do the rows keep up?
//
// Method: 10,000 checkouts at full speed while the age of the oldest entry that Postgres lacks is read every 50 ms; then the time until
// all rows are there. The reference writes the same number of rows with bare `unnest` inserts of 500 into a table of the same
// columns without triggers. Goal: nothing older than 2 s, and the rows within 2 × the bare insert of them after the load began, where the load
// itself is not longer.
import pg from 'pg';
import { checkoutRequest, drive, operator } from './load.mjs';
import { round } from './measure.mjs';

const CHECKOUTS = 10_000;
const BATCH = 500;

/** @param {import('./stage.mjs').Stage} stage @param {(text: string) => void} say */
export async function run(stage, say) {
  const client = new pg.Client(stage.databaseUrl);
  await client.connect();
  try {
    const product = `p4-${Date.now()}`;
    const campaign = await operator(stage.api.url, 'POST', '/admin/campaigns', {
      product_id: product,
      total_limit: 10_000_000,
      hold_seconds: 900,
    });
    let oldest = 0;
    let running = true;
    const watching = (async () => {
      while (running) {
        const { oldest_unpersisted_seconds } = await operator(
          stage.api.url,
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
    const { ms } = await drive(stage.api.url, requests, { connections: 128 });
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
    const bare = await bareInsert(client);
    return {
      load_ms: Math.round(ms),
      rows_after_load_ms: Math.round(drained),
      oldest_unpersisted_s: round(oldest, 2),
      bare_insert_ms: Math.round(bare),
      goal: 'oldest ≤ 2 s; rows ≤ 2 × bare insert, or with the load',
      met: oldest <= 2 && drained <= 2 * bare,
    };
  } finally {
    await client.end();
  }
}

async function bareInsert(client) {
  await client.query('create table bare (like redemptions including defaults including indexes)');
  const began = performance.now();
  for (let from = 0; from < CHECKOUTS; from += BATCH) {
    const ids = Array.from({ length: BATCH }, () => crypto.randomUUID());
    await client.query(
      `insert into bare (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
       select id, gen_random_uuid(), 'u', 'o', 1, 1, 'reserved', now() from unnest($1::uuid[]) as n(id)`,
      [ids],
    );
  }
  return performance.now() - began;
}
