import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import pg from 'pg';
import { uuidv7 } from 'uuidv7';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { createTestDatabase } from '../harness/engines.js';
import { until } from '../harness/until.js';

/** Writes that Postgres itself refuses from any writer: a person with psql, another service, a worker with a defect. */
const { client: sql, url } = await createTestDatabase();
let products = 0;

type Terms = { total?: number | null; perUser?: number };

async function createCampaign({ total = 10, perUser = 1 }: Terms = {}): Promise<string> {
  products += 1;
  const { rows } = await sql.query(
    `insert into campaigns (campaign_id, product_id, name, type, total_limit, per_user_limit, max_qty, starts_at, time_zone, hold_seconds,
       waiting_room, confirmation, late_payment, refund_policy, require_attestation, rules, status)
     values (gen_random_uuid(), $1, 'a', 'shared', $2, $3, 100, now(), 'UTC', 60, '{}', 'fast', 'refuse', 'return', false, '{}', 'open')
     returning campaign_id`,
    [`product-${products}`, total, perUser],
  );
  return rows[0].campaign_id;
}

type Row = { user?: string; qty?: number; slot?: number; status?: string; burned?: boolean };

async function insert(campaign: string, row: Row = {}, client: pg.Client = sql): Promise<string> {
  const { user = `user-${uuidv7()}`, qty = 1, slot = 1, status = 'reserved', burned = false } = row;
  const { rows } = await client.query(
    `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, burned, reserved_at)
     values (gen_random_uuid(), $1, $2, 'order', $3, $4, $5, $6, now()) returning redemption_id`,
    [campaign, user, qty, slot, status, burned],
  );
  return rows[0].redemption_id;
}

const set = (id: string, change: string) =>
  sql.query(`update redemptions set ${change} where redemption_id = $1`, [id]);
async function counters(
  campaign: string,
): Promise<Record<'taken' | 'held' | 'redeemed' | 'burned' | 'reservations', number>> {
  const { rows } = await sql.query(
    'select taken, held, redeemed, burned, reservations from campaigns where campaign_id = $1',
    [campaign],
  );
  const numbers = Object.entries(rows[0]).map(([name, value]) => [name, Number(value)]);
  return Object.fromEntries(numbers);
}
const taken = async (campaign: string) => (await counters(campaign)).taken;
const refusedBy = (constraint: string) => expect.objectContaining({ constraint });

test('the schema takes units while a reservation is held, redeemed or burned, and only then', async () => {
  const campaign = await createCampaign({ total: 100 });
  const expected: [Row, number][] = [
    [{ status: 'reserved', qty: 2 }, 2],
    [{ status: 'redeemed', qty: 3 }, 5],
    [{ status: 'refunded', burned: true, qty: 4 }, 9],
    [{ status: 'refunded', qty: 5 }, 9],
    [{ status: 'released', qty: 6 }, 9],
    [{ status: 'expired', qty: 7 }, 9],
    [{ status: 'voided', qty: 8 }, 9],
  ];
  for (const [row, units] of expected) {
    await insert(campaign, row);
    expect(await taken(campaign)).toBe(units);
  }
});

test('the schema follows every change of a row, its quantity, its campaign and its end', async () => {
  const [campaign, other] = [await createCampaign(), await createCampaign()];
  const id = await insert(campaign, { qty: 3 });
  for (const [change, units] of [
    ["status = 'redeemed'", 3],
    ["status = 'refunded', burned = true", 3],
    ['burned = false', 0],
    ["status = 'redeemed'", 3],
    ['qty = 5', 5],
    ["status = 'released'", 0],
    ["status = 'reserved', qty = 2", 2],
  ] as const) {
    await set(id, change);
    expect([change, await taken(campaign)]).toEqual([change, units]);
  }
  await set(id, `campaign_id = '${other}'`);
  expect([await taken(campaign), await taken(other)]).toEqual([0, 2]);
  await sql.query('delete from redemptions where redemption_id = $1', [id]);
  expect(await taken(other)).toBe(0);
});

test('the schema counts units by state, and the rows of a campaign, through every change', async () => {
  const campaign = await createCampaign({ total: 100 });
  const held = await insert(campaign, { qty: 2 });
  const redeemed = await insert(campaign, { status: 'redeemed', qty: 3 });
  await insert(campaign, { status: 'refunded', burned: true, qty: 4 });
  await insert(campaign, { status: 'voided', qty: 5 });
  const expected = async (...[h, r, b, made]: [number, number, number, number]) =>
    expect(await counters(campaign)).toEqual({ taken: h + r + b, held: h, redeemed: r, burned: b, reservations: made });
  await expected(2, 3, 4, 4);
  // One state to another: the sum of units is the same.
  await set(held, "status = 'redeemed'");
  await expected(0, 5, 4, 4);
  await set(redeemed, "status = 'refunded', burned = true");
  await expected(0, 2, 7, 4);
  await set(redeemed, 'burned = false');
  await expected(0, 2, 4, 4);
  const other = await createCampaign();
  await set(held, `campaign_id = '${other}'`);
  await expected(0, 0, 4, 3);
  expect(await counters(other)).toMatchObject({ redeemed: 2, reservations: 1 });
  await sql.query('delete from redemptions where campaign_id = $1', [campaign]);
  await expected(0, 0, 0, 0);
});

test('the schema counts a statement as a whole, over many rows and campaigns', async () => {
  const [first, second] = [await createCampaign({ total: 100 }), await createCampaign({ total: 100 })];
  for (let i = 0; i < 5; i += 1) await insert(first, { qty: 2 });
  for (let i = 0; i < 3; i += 1) await insert(second, { qty: 3 });
  await sql.query("update redemptions set status = 'expired' where campaign_id = any($1) and qty = 2", [
    [first, second],
  ]);
  expect([await taken(first), await taken(second)]).toEqual([0, 9]);
  await sql.query(
    "update redemptions set status = case when qty = 2 then 'reserved' else 'voided' end where campaign_id = any($1)",
    [[first, second]],
  );
  expect([await taken(first), await taken(second)]).toEqual([10, 0]);
  await sql.query('delete from redemptions where campaign_id = any($1)', [[first, second]]);
  expect([await taken(first), await taken(second)]).toEqual([0, 0]);
});

test('Postgres refuses a unit beyond the cap by insert, by update, by a larger quantity and by a lower total', async () => {
  const campaign = await createCampaign({ total: 3 });
  const released = await insert(campaign, { status: 'released' });
  const held = await insert(campaign, { qty: 2 });
  await insert(campaign);
  const overCap = refusedBy('campaigns_cap');
  await expect(insert(campaign)).rejects.toEqual(overCap);
  await expect(set(released, "status = 'redeemed'")).rejects.toEqual(overCap);
  await expect(set(held, 'qty = 3')).rejects.toEqual(overCap);
  await expect(sql.query('update campaigns set total_limit = 2 where campaign_id = $1', [campaign])).rejects.toEqual(
    overCap,
  );
  expect(await taken(campaign)).toBe(3);
  const unlimited = await createCampaign({ total: null });
  await insert(unlimited, { qty: 1_000_000 });
  expect(await taken(unlimited)).toBe(1_000_000);
});

test('the schema gives the last unit to one of two who write at the same moment', async () => {
  const campaign = await createCampaign({ total: 1 });
  const second = new pg.Client(url);
  await second.connect();
  atEnd('a client', () => second.end());
  await sql.query('begin');
  await insert(campaign);
  const waiting = insert(campaign, {}, second);
  await sql.query('commit');
  await expect(waiting).rejects.toEqual(refusedBy('campaigns_cap'));
  expect(await taken(campaign)).toBe(1);
});

test('the schema grants each allowance of a user once, for as long as it is held, redeemed or burned', async () => {
  const campaign = await createCampaign({ perUser: 2 });
  const twice = refusedBy('redemptions_one_per_allowance');
  const first = await insert(campaign, { user: 'ann' });
  await insert(campaign, { user: 'ann', slot: 2 });
  await insert(campaign, { user: 'bob' });
  await expect(insert(campaign, { user: 'ann', status: 'redeemed' })).rejects.toEqual(twice);
  await insert(campaign, { user: 'ann', status: 'voided' });
  await set(first, "status = 'redeemed'");
  await expect(insert(campaign, { user: 'ann' })).rejects.toEqual(twice);
  await set(first, "status = 'refunded', burned = true");
  await expect(insert(campaign, { user: 'ann' })).rejects.toEqual(twice);
  await set(first, 'burned = false');
  await insert(campaign, { user: 'ann' });
  await expect(set(first, "status = 'redeemed'")).rejects.toEqual(twice);
  await insert(await createCampaign(), { user: 'ann' });
});

test('the schema grants no allowance above the limit of the campaign, by insert or by update', async () => {
  const campaign = await createCampaign({ perUser: 2 });
  const beyond = refusedBy('redemptions_within_limit');
  await expect(insert(campaign, { user: 'ann', slot: 3 })).rejects.toEqual(beyond);
  await expect(insert(campaign, { user: 'ann', slot: 3, status: 'refunded', burned: true })).rejects.toEqual(beyond);
  const released = await insert(campaign, { user: 'ann', slot: 3, status: 'released' });
  await expect(set(released, "status = 'redeemed'")).rejects.toEqual(beyond);
  const held = await insert(campaign, { user: 'ann', slot: 2 });
  await expect(set(held, 'slot = 3')).rejects.toEqual(beyond);
  await expect(insert(campaign, { user: 'ann', slot: 0 })).rejects.toEqual(refusedBy('redemptions_slot_check'));
});

test('the schema compares each row of a statement with the limit of its own campaign', async () => {
  const [narrow, wide] = [await createCampaign(), await createCampaign({ perUser: 3 })];
  const insertAll = (...rows: [campaign: string, slot: number, status: string][]) =>
    sql.query(
      `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at)
       select gen_random_uuid(), c, 'ann', 'order', 1, slot, status, now()
       from unnest($1::uuid[], $2::int[], $3::text[]) as n(c, slot, status)`,
      [0, 1, 2].map((i) => rows.map((row) => row[i])),
    );
  const beyond = refusedBy('redemptions_within_limit');
  const wideRows = [1, 2, 3].map((slot): [string, number, string] => [wide, slot, 'reserved']);
  await expect(insertAll(...wideRows, [narrow, 1, 'reserved'], [narrow, 2, 'reserved'])).rejects.toEqual(beyond);
  await expect(insertAll([narrow, 1, 'reserved'], ...wideRows, [wide, 4, 'redeemed'])).rejects.toEqual(beyond);
  await insertAll(...wideRows, [wide, 4, 'released'], [narrow, 1, 'reserved'], [narrow, 2, 'expired']);
  expect([await taken(wide), await taken(narrow)]).toEqual([3, 1]);
});

test('the schema takes no row that makes no sense', async () => {
  const campaign = await createCampaign();
  await expect(insert(campaign, { qty: 0 })).rejects.toEqual(refusedBy('redemptions_qty_check'));
  await expect(insert(campaign, { status: 'lost' })).rejects.toEqual(refusedBy('redemptions_status_check'));
  await expect(insert(campaign, { status: 'redeemed', burned: true })).rejects.toEqual(refusedBy('redemptions_check'));
  await expect(insert('00000000-0000-0000-0000-000000000000')).rejects.toEqual(
    refusedBy('redemptions_campaign_id_fkey'),
  );
  await expect(
    sql.query('update campaigns set ends_at = starts_at where campaign_id = $1', [campaign]),
  ).rejects.toEqual(refusedBy('campaigns_window'));
});

test('the schema keeps a redemption and its campaign together, whichever changes first', async () => {
  const unknown = refusedBy('redemptions_campaign_id_fkey');
  const [campaign, free] = [await createCampaign(), await createCampaign()];
  const id = await insert(campaign);
  await expect(set(id, 'campaign_id = gen_random_uuid()')).rejects.toEqual(unknown);
  await expect(
    sql.query('update campaigns set campaign_id = gen_random_uuid() where campaign_id = $1', [campaign]),
  ).rejects.toEqual(unknown);
  await expect(sql.query('delete from campaigns where campaign_id = $1', [campaign])).rejects.toEqual(unknown);
  await expect(sql.query('truncate campaigns cascade')).rejects.toEqual(unknown);
  expect(await counters(campaign)).toMatchObject({ reservations: 1 });
  expect(await counters(free)).toMatchObject({ reservations: 0 });
});

test('the schema refuses whichever comes second of a redemption and the deletion of its campaign', async () => {
  const second = new pg.Client(url);
  await second.connect();
  atEnd('a client', () => second.end());
  // Campaigns without terms, since those are kept for ever.
  await sql.query('alter table campaigns disable trigger campaigns_terms_insert');
  const [bought, gone] = [await createCampaign(), await createCampaign()];
  await sql.query('alter table campaigns enable trigger campaigns_terms_insert');
  const unknown = refusedBy('redemptions_campaign_id_fkey');
  const deletion = 'delete from campaigns where campaign_id = $1';

  await sql.query('begin');
  await insert(bought);
  const deleted = expect(second.query(deletion, [bought])).rejects.toEqual(unknown);
  await sql.query('commit');
  await deleted;

  await sql.query('begin');
  await sql.query(deletion, [gone]);
  // Watched before the commit, because it may fail before the commit returns.
  const inserted = expect(insert(gone, {}, second)).rejects.toEqual(unknown);
  await sql.query('commit');
  await inserted;
});

test('the schema lets a user wait once in a campaign at a time', async () => {
  const campaign = await createCampaign();
  const join = (line: number, status = 'waiting') =>
    sql.query(
      `insert into waiting_tickets (campaign_id, line_no, user_id, qty, status, reservation_id, joined_at)
       values ($1, $2, 'ann', 1, $3, gen_random_uuid(), now())`,
      [campaign, line, status],
    );
  await join(1);
  await expect(join(2)).rejects.toEqual(refusedBy('waiting_tickets_one_per_user'));
  await join(3, 'left');
  await sql.query("update waiting_tickets set status = 'promoted' where campaign_id = $1 and line_no = 1", [campaign]);
  await join(4);
  await expect(join(4, 'left')).rejects.toEqual(refusedBy('waiting_tickets_pkey'));
});

test('the audit log can only be added to', async () => {
  await sql.query("insert into audit_log (at, actor, action) values (now(), 'olga', 'campaign.pause')");
  for (const attempt of ["update audit_log set actor = 'another'", 'delete from audit_log', 'truncate audit_log']) {
    await expect(sql.query(attempt)).rejects.toThrow('audit_log is append-only');
  }
  expect((await sql.query('select actor from audit_log')).rows).toEqual([{ actor: 'olga' }]);
});

test('each shard has one cursor of its journal, and a new installation has one shard', async () => {
  expect((await sql.query('select shard, last_id from journal_cursor')).rows).toEqual([{ shard: 0, last_id: '0-0' }]);
  await expect(sql.query("insert into journal_cursor (last_id) values ('1-1')")).rejects.toEqual(
    refusedBy('journal_cursor_pkey'),
  );
  await expect(sql.query("insert into journal_cursor (shard, last_id) values (64, '1-1')")).rejects.toEqual(
    refusedBy('journal_cursor_shard_check'),
  );
  await expect(sql.query('insert into installation (only_row, format) values (false, 1)')).rejects.toEqual(
    refusedBy('installation_only_row_check'),
  );
});

/** Runs `npm run migrate` as it is built. */
async function migrate(databaseUrl: string): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [join(projectRoot(), 'dist/migrations/main.js')], {
    env: { PATH: process.env.PATH, DATABASE_URL: databaseUrl },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += String(chunk)));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output };
}

async function createEmptyDatabase(): Promise<string> {
  const name = `empty_${uuidv7().replaceAll('-', '_')}`;
  await sql.query(`create database ${name}`);
  atEnd('an empty database', async () => {
    await sql.query(`drop database ${name} with (force)`);
  });
  const empty = new URL(url);
  empty.pathname = `/${name}`;
  return empty.href;
}

const MIGRATIONS = `applied ${readdirSync(join(projectRoot(), 'migrations'))
  .flatMap((file) => /^\d{4}_\w+(?=\.ts$)/.exec(file) ?? [])
  .sort()
  .join(', ')}\n`;

test('migrations make the schema of an empty database, once', async () => {
  const empty = await createEmptyDatabase();
  expect(await migrate(empty)).toEqual({ code: 0, output: MIGRATIONS });
  expect(await migrate(empty)).toEqual({ code: 0, output: 'the schema is up to date\n' });
});

/**
 * Starts migrations that all have to wait where this table is made, lets them continue together and returns how they
 * ended.
 */
async function migrateTogether(count: number, table: string): Promise<{ code: number | null; output: string }[]> {
  const empty = await createEmptyDatabase();
  const blocker = new pg.Client(empty);
  await blocker.connect();
  try {
    await blocker.query('begin');
    await blocker.query(`create table ${table} ()`);
    const started = Array.from({ length: count }, () => migrate(empty));
    await until('all of them wait', async () => {
      const database = new URL(empty).pathname.slice(1);
      const { rows } = await sql.query(
        `select 1 from pg_stat_activity where datname = $1
           and (wait_event_type = 'Lock' or query ~ 'pg_try_advisory_xact_lock|as numbered' or query = 'rollback')`,
        [database],
      );
      // One waits for the table. Each has a connection that took the lock and read the format, or has tried to.
      return rows.length === count + 1;
    });
    await blocker.query('rollback');
    return await Promise.all(started);
  } finally {
    await blocker.end();
  }
}

const NOTHING_TO_DO = { code: 0, output: 'the schema is up to date\n' };

test('a migration waits for another one that is under way', async () => {
  const outcomes = await migrateTogether(2, 'campaigns');
  expect(outcomes).toContainEqual({ code: 0, output: MIGRATIONS });
  expect(outcomes).toContainEqual(NOTHING_TO_DO);
});

test('a migration that waits is in no transaction meanwhile, since an index of the other would wait for its end', async () => {
  const empty = await createEmptyDatabase();
  const holder = new pg.Client(empty);
  await holder.connect();
  try {
    await holder.query('begin; select pg_advisory_xact_lock(7102002)');
    const waiting = migrate(empty);
    await until('a try has failed and ended its transaction', async () => {
      const { rows } = await sql.query(
        `select 1 from pg_stat_activity where datname = $1 and query = 'rollback' and state = 'idle'`,
        [new URL(empty).pathname.slice(1)],
      );
      return rows.length === 1;
    });
    await holder.query('commit');
    expect(await waiting).toEqual({ code: 0, output: MIGRATIONS });
  } finally {
    await holder.end();
  }
});

test('a migration of an empty database at the same moment waits too', async () => {
  const outcomes = await migrateTogether(2, 'schema_migrations');
  expect(outcomes).toContainEqual({ code: 0, output: MIGRATIONS });
  expect(outcomes).toContainEqual(NOTHING_TO_DO);
});
