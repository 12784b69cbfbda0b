import { join } from 'node:path';
import type pg from 'pg';
import type { ProductId } from '../shared/domain/ids.js';
import { type ShardCount, shardPrefix } from '../shared/domain/shards.js';
import { keys } from '../shared/redis/keys.js';
import { ShardMap } from '../shared/shards/shard-map.js';
import type { Cluster } from './cluster/cluster.js';
import type { Caller } from './crowd/caller.js';
import type { FinalState, LedgerVerdict, Stats } from './final-state.js';
import type { Call, History } from './history.js';

const LEDGER_LIMIT_MS = 60_000;
const LEDGERS_AT_ONCE = 4;
const STANDINGS = 200;
const ms = (column: string) => `(extract(epoch from ${column}) * 1000)::float8 as ${column}`;

/** Reads everything that the judge compares with the history. Nothing changes any more when it is called. */
export async function observe(cluster: Cluster, caller: Caller, history: History): Promise<FinalState> {
  const client = await cluster.postgres.connect();
  try {
    const observedAt = Date.now();
    const rows = await readRows(client);
    const products = rows.campaigns.map(({ product_id }) => product_id);
    return {
      beganAt: observedAt - history.now(),
      observedAt,
      ...rows,
      ledgers: await readLedgers(cluster, products),
      stats: await readStats(cluster, caller, products),
      ...(await readShards(cluster, client, products)),
      standings: await readStandings(caller, history.calls),
    };
  } finally {
    await client.end();
  }
}

async function readRows(client: pg.Client) {
  const all = async <Row extends pg.QueryResultRow>(sql: string) => (await client.query<Row>(sql)).rows;
  const campaigns = await all<FinalState['campaigns'][number]>(
    `select product_id, name, status, total_limit::float8, taken::float8, per_user_limit, max_qty, refund_policy, confirmation,
       (waiting_room->>'presence_seconds')::int as presence_seconds from campaigns order by no`,
  );
  const redemptions = await all<FinalState['redemptions'][number]>(
    `select product_id, redemption_id::text, user_id, order_id, qty, slot, r.status, r.burned, released_qty, refunded_qty, burned_qty, reacquired, line_no::float8, code_no,
       ${ms('reserved_at')}, ${ms('pay_before')}, ${ms('released_at')}, reason, payment_ref, idempotency_key
     from redemptions r join campaigns using (campaign_id) order by reserved_at`,
  );
  const tickets = await all<FinalState['tickets'][number]>(
    `select product_id, line_no::float8, user_id, qty, t.status, reservation_id::text, ${ms('joined_at')}, ${ms('ended_at')},
       idempotency_key from waiting_tickets t join campaigns using (campaign_id) order by line_no`,
  );
  const answers = await all<{ idempotency_key: string }>('select idempotency_key from remembered_answers');
  const rejects = await all<FinalState['rejects'][number]>('select journal_id, fields, reason from journal_rejects');
  return {
    campaigns,
    redemptions,
    tickets,
    answers: answers.map((row) => row.idempotency_key.slice(row.idempotency_key.indexOf('|') + 1)),
    rejects,
  };
}

/** `npm run ledger` for each campaign, straight at the engines. */
async function readLedgers(cluster: Cluster, products: readonly string[]): Promise<Record<string, LedgerVerdict>> {
  const ledgers: Record<string, LedgerVerdict> = {};
  const main = join(cluster.tools.root, 'dist/commands/ledger.js');
  const env = {
    PATH: process.env.PATH,
    REDIS_URL: `redis://127.0.0.1:${cluster.redis.primary.port}`,
    DATABASE_URL: cluster.postgres.url,
  };
  const compare = async (product: string) => {
    const { output } = await cluster.tools.run(process.execPath, [main, product], { env, limitMs: LEDGER_LIMIT_MS });
    try {
      ledgers[product] = JSON.parse(output) as LedgerVerdict;
    } catch {
      ledgers[product] = { lost: -1, duplicated: -1, over_cap: -1, drift: -1, output };
    }
  };
  for (let at = 0; at < products.length; at += LEDGERS_AT_ONCE)
    await Promise.all(products.slice(at, at + LEDGERS_AT_ONCE).map(compare));
  return ledgers;
}

async function readStats(cluster: Cluster, caller: Caller, products: readonly string[]) {
  const found: FinalState['stats'] = [];
  for (const product of products) {
    for (const { name: api } of cluster.apis) {
      const path = `/admin/campaigns/${product}/stats`;
      const about = { kind: 'stats', method: 'GET', path, product, as: 'admin', final: true } as const;
      const { status, data } = await caller.stage.http.send({ ...about, api });
      found.push({ product, api, stats: status === 200 ? (data as Stats) : null });
    }
  }
  return found;
}

/** In which shards campaigns are, and the line of each in the shards where Postgres has it. */
async function readShards(
  cluster: Cluster,
  client: pg.Client,
  products: readonly string[],
): Promise<Pick<FinalState, 'lines' | 'places'>> {
  const redis = cluster.redis.client(cluster.redis.primary);
  const count = cluster.options.shards as ShardCount;
  const map = new ShardMap(count);
  await map.read(client);
  try {
    const [lines, places]: [FinalState['lines'], FinalState['places']] = [{}, {}];
    for (const product of products as ProductId[]) {
      const shards = Array.from({ length: map.bucketsOf(product) }, (_, bucket) => map.shardOf(product, bucket));
      const prefixOf = (shard: number) => shardPrefix(shard, count, false);
      const parts = shards.map((shard) => redis.zrange(prefixOf(shard) + keys.line(product), '0', '-1'));
      lines[product] = (await Promise.all(parts)).flat();
      const found = await Promise.all(
        Array.from({ length: count }, (_, shard) => redis.exists(prefixOf(shard) + keys.campaign(product))),
      );
      places[product] = { postgres: shards, redis: found.flatMap((exists, shard) => (exists ? [shard] : [])) };
    }
    return { lines, places };
  } finally {
    redis.disconnect();
  }
}

/** queue-status of people who were acknowledged something, the latest first. */
async function readStandings(caller: Caller, calls: readonly Call[]): Promise<FinalState['standings']> {
  const tickets = new Map<string, { product: string; user: string; ticket: string | null }>();
  for (const { product, user = '', text = '{}', kind, status } of calls) {
    if (kind !== 'checkout' || (status !== 200 && status !== 202)) continue;
    const name = `${product} ${user}`;
    // A place that another key has taken comes without its ticket.
    const { ticket = tickets.get(name)?.ticket ?? null } = (JSON.parse(text) as { data: { ticket?: string } }).data;
    tickets.set(name, { product, user, ticket });
  }
  const found: FinalState['standings'] = [];
  for (const { product, user, ticket } of [...tickets.values()].slice(-STANDINGS)) {
    const query = new URLSearchParams({ product_id: product, user_id: user });
    const { status, data } = await caller.once({
      kind: 'status',
      method: 'GET',
      path: `/flash-sale/queue-status?${query}`,
      product,
      user,
      ...(ticket === null ? {} : { headers: { 'x-ticket': ticket } }),
      final: true,
    });
    const reservation = typeof data.reservation_id === 'string' ? data.reservation_id : null;
    found.push({ product, user, status: status === 200 ? String(data.status) : null, reservation });
  }
  return found;
}
