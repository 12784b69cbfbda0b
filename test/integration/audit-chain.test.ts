import { describe, expect, test } from '@jest/globals';
import pg from 'pg';
import type { UserId } from '../../shared/domain/ids.js';
import { AuditChains, type ChainSource } from '../../shared/postgres/audit-chain.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import { newPseudonym } from '../../shared/postgres/erasures.js';
import { Database } from '../../shared/postgres/pool.js';
import { UserRows } from '../../shared/postgres/user-rows.js';
import { ExpiredData } from '../../worker/retention/expired-data.js';
import { atEnd } from '../harness/cleanup.js';
import { createTestDatabase } from '../harness/engines.js';

/** The chains of the audit log, and hands that change it behind the back of Postgres. */
const { client: sql, url } = await createTestDatabase();
const database = new Database({
  ...{ url, name: 'tests', connections: 30, statementMs: 20_000, connectMs: 10_000 },
  onError() {},
});
atEnd('a pool', () => database.close());
const chains = new AuditChains(database);
let products = 0;

async function newCampaign(): Promise<string> {
  products += 1;
  const { rows } = await sql.query(
    `insert into campaigns (campaign_id, product_id, name, type, total_limit, per_user_limit, max_qty, starts_at, time_zone, hold_seconds,
       waiting_room, confirmation, late_payment, refund_policy, require_attestation, rules, status)
     values (gen_random_uuid(), $1, 'a', 'shared', 10, 1, 100, now(), 'UTC', 60, '{}', 'fast', 'refuse', 'return', false, '{}', 'open')
     returning campaign_id`,
    [`audited-${products}`],
  );
  return rows[0].campaign_id;
}

type Values = Record<string, unknown> | null;
const write = (campaignId: string | null, action: string, before: Values = null, after: Values = null) =>
  writeAudit(database, { actor: 'olga', action, campaignId, before, after, requestId: 'r-1' });
/** Five changes of a campaign; the third is about a user. */
async function history(): Promise<string> {
  const campaign = await newCampaign();
  await write(campaign, 'campaign.create', null, { total_limit: 10 });
  await write(campaign, 'campaign.change', { total_limit: 10 }, { total_limit: 12 });
  await write(campaign, 'reservation.release', null, { user_id: `user-${products}`, reason: 'asked by phone', qty: 1 });
  await write(campaign, 'campaign.pause', { status: 'open' }, { status: 'paused', reason: 'checking' });
  await write(campaign, 'campaign.resume', { status: 'paused' }, { status: 'open' });
  return campaign;
}
const verify = (campaign: string | null, kept: string[] = [], source: ChainSource = 'operator') =>
  chains.verify({ source, campaign }, kept);
/** Of all chains of a campaign: the first thing that is wrong. */
async function wrongIn(campaign: string) {
  const reports = await Promise.all((await chains.list(campaign)).map((name) => chains.verify(name)));
  return reports.find(({ broken }) => broken !== null)?.broken ?? null;
}

/** Changes rows as a superuser can. */
async function forge(statement: string, values: unknown[]): Promise<void> {
  await sql.query('begin');
  await sql.query('alter table audit_log disable trigger user');
  const { rowCount } = await sql.query(statement, values);
  await sql.query('alter table audit_log enable trigger user');
  await sql.query('commit');
  expect(rowCount).toBeGreaterThan(0);
}

test('what was written is whole, and its head is that of the chain', async () => {
  const campaign = await history();
  const { rows } = await sql.query('select entries::int, head from audit_chains where chain = $1', [
    `operator:${campaign}`,
  ]);
  expect(await verify(campaign)).toEqual({
    ...{ source: 'operator', campaign, entries: 5, removed: 0, erased: 0, kept: [], broken: null },
    head: rows[0].head.toString('hex'),
  });
  expect(rows[0].entries).toBe(5);
  expect(await chains.list(campaign)).toEqual([{ source: 'operator', campaign }]);
});

describe('an entry that is changed by hand is named', () => {
  test.each([
    ['its actor', `actor = 'another'`],
    ['its time', `at = at + interval '1 microsecond'`],
    ['its action', `action = 'campaign.resume'`],
    ['a value before', `before = '{"total_limit": 11}'`],
    ['a value after', `after = '{"total_limit": 11}'`],
    ['a value that was there', 'after = null'],
    ['its request', `request_id = 'r-2'`],
    ['its link', `link = sha256('x')`],
    ['a user who was none', `after = after || '{"user_id": "user-x"}'`],
  ])('%s', async (_, change) => {
    const campaign = await history();
    await forge(`update audit_log set ${change} where campaign_id = $1 and chain_no = 2`, [campaign]);
    const { broken } = await verify(campaign);
    expect(broken).toMatchObject({ no: 2, why: expect.stringMatching(/changed|added/) });
    expect(broken?.auditId).toMatch(/^\d+$/);
  });

  test.each([
    ['the user', `after = after || '{"user_id": "user-y"}'`],
    ['the reason', `after = after || '{"reason": "none"}'`],
    ['the user is removed', `after = after - 'user_id'`],
    ['all of it', 'after = null'],
  ])('of an entry about a user: %s', async (_, change) => {
    const campaign = await history();
    await forge(`update audit_log set ${change} where campaign_id = $1 and chain_no = 3`, [campaign]);
    expect((await verify(campaign)).broken).toMatchObject({ no: 3, why: expect.stringMatching(/changed/) });
  });
});

describe('an erasure that was none is found', () => {
  const removeSalt = (campaign: string) =>
    sql.query(
      'delete from audit_people p using audit_log a where p.audit_id = a.audit_id and a.campaign_id = $1 and a.chain_no = 3',
      [campaign],
    );

  test('the salt alone', async () => {
    const campaign = await history();
    await removeSalt(campaign);
    expect((await verify(campaign)).broken).toMatchObject({ no: 3, why: expect.stringContaining('user') });
  });

  test.each([
    ['another user', '{"user_id": "user-z", "reason": null}'],
    ['a pseudonym, but a reason', '{"user_id": "erased-00000000-0000-0000-0000-000000000000", "reason": "fraud"}'],
  ])('%s', async (_, after) => {
    const campaign = await history();
    await removeSalt(campaign);
    const change = 'update audit_log set after = after || $2::jsonb where campaign_id = $1 and chain_no = 3';
    await forge(change, [campaign, after]);
    expect((await verify(campaign)).broken).toMatchObject({ no: 3 });
  });
});

describe('the count beside a chain hides nothing', () => {
  test('its row is removed', async () => {
    const campaign = await history();
    await sql.query(`delete from audit_chains where chain like '%:' || $1`, [campaign]);
    expect(await wrongIn(campaign)).toMatchObject({ why: expect.stringContaining('audit_chains') });
    // The next entry finds the last one by itself.
    await write(campaign, 'campaign.close');
    expect(await verify(campaign)).toMatchObject({ broken: null, entries: 6 });
  });

  test.each(['entries = 9', 'entries = 3', `head = sha256('x')`])('it is changed: %s', async (change) => {
    const campaign = await history();
    await sql.query(`update audit_chains set ${change} where chain = 'operator:' || $1`, [campaign]);
    expect(await wrongIn(campaign)).not.toBeNull();
  });

  test('the first entries are removed, as if they were too old', async () => {
    const campaign = await history();
    await forge('delete from audit_log where campaign_id = $1 and chain_no <= 2', [campaign]);
    expect((await verify(campaign)).broken).toMatchObject({ no: 1, why: expect.stringContaining('missing') });
    await write(campaign, 'audit.expire', null, { up_to: 2, link: 'ff'.repeat(32) });
    expect((await verify(campaign)).broken).toMatchObject({ no: 3 });
  });
});

describe('an entry belongs to the chain of its campaign', () => {
  const CHECK = 'audit_log_chain_of_campaign';
  test.each([
    ['another campaign', 'campaign_id = null'],
    ['another chain', `chain = 'operator:service', chain_no = 99999`],
    ['a chain that does not exist', `chain = 'x:1'`],
  ])('%s is refused', async (_, change) => {
    const campaign = await history();
    const statement = `update audit_log set ${change} where campaign_id = $1 and chain_no = 2`;
    await expect(forge(statement, [campaign])).rejects.toThrow(CHECK);
    await sql.query('rollback');
    const insert = `insert into audit_log (at, actor, action, campaign_id, chain) values (now(), 'x', 'a.b', $1, 'other')`;
    await expect(sql.query(insert, [campaign])).rejects.toThrow(CHECK);
  });

  test('without that check the chain shows it', async () => {
    const [campaign, other] = [await history(), await history()];
    const { rows } = await sql.query('select pg_get_constraintdef(oid) as text from pg_constraint where conname = $1', [
      CHECK,
    ]);
    await sql.query(`alter table audit_log drop constraint ${CHECK}`);
    await forge(`update audit_log set chain = 'x:1', chain_no = 1 where campaign_id = $1 and chain_no = 5`, [campaign]);
    expect(await wrongIn(campaign)).not.toBeNull();
    const first = `insert into audit_log (at, actor, action, campaign_id, chain, chain_no, link)
      values (now(), 'olga', 'campaign.close', $1::uuid, 'operator:' || $1::text, 0, '')`;
    await expect(forge(first, [other])).rejects.toThrow('chain_no_check');
    await sql.query('rollback');
    await forge(`delete from audit_log where chain = 'x:1'`, []);
    await sql.query(`alter table audit_log add constraint ${CHECK} ${rows[0].text}`);
  });
});

test.each([`at = 'infinity'`, `after = '"user_id"'`])('no entry has a value as in %s', async (change) => {
  const campaign = await history();
  const statement = `update audit_log set ${change} where campaign_id = $1 and chain_no = 2`;
  await expect(forge(statement, [campaign])).rejects.toThrow('check constraint');
  await sql.query('rollback');
});

test('a ban names a person too, also by a network', async () => {
  await write(null, 'ban.create', null, { kind: 'network', subject: '198.51.100.7', reason: 'bots' });
  const { rows } = await sql.query(
    `select people, (select salt from audit_people p where p.audit_id = a.audit_id) as salt
     from audit_log a order by audit_id desc limit 1`,
  );
  expect([rows[0].people.length, rows[0].salt.length]).toEqual([32, 32]);
  expect(await verify(null)).toMatchObject({ broken: null });
});

describe('entries that are missing or made up are found', () => {
  const remove = (campaign: string, which: string) =>
    forge(`delete from audit_log where campaign_id = $1 and ${which}`, [campaign]);

  test.each([
    ['the first', 'chain_no = 1', 1],
    ['in the middle', 'chain_no in (2, 3)', 2],
    ['the last', 'chain_no = 5', 5],
    ['all', 'true', 1],
  ])('%s', async (_, which, no) => {
    const campaign = await history();
    await remove(campaign, which);
    expect((await verify(campaign)).broken).toMatchObject({ no, why: expect.stringMatching(/missing/) });
  });

  test('removed at the end, with the count: only a head that was kept shows it', async () => {
    const campaign = await history();
    const { head } = await verify(campaign);
    expect(await verify(campaign, [head])).toMatchObject({ kept: [head] });
    await remove(campaign, 'chain_no > 3');
    await sql.query(
      `update audit_chains set entries = 3, head = (select link from audit_log where campaign_id = $2 and chain_no = 3)
       where chain = $1`,
      [`operator:${campaign}`, campaign],
    );
    expect(await verify(campaign)).toMatchObject({ broken: null, entries: 3 });
    expect(await verify(campaign, [head])).toMatchObject({ kept: [] });
  });

  test('a head stays in the chain, however many entries follow', async () => {
    const campaign = await history();
    const { head } = await verify(campaign);
    await write(campaign, 'campaign.close');
    expect(await verify(campaign, [head])).toMatchObject({ kept: [head], broken: null, entries: 6 });
  });

  test('made up', async () => {
    const campaign = await history();
    await forge(
      `insert into audit_log (at, actor, action, campaign_id, chain, chain_no, link)
       select now(), 'olga', 'campaign.close', campaign_id, chain, 6, link from audit_log where campaign_id = $1 and chain_no = 5`,
      [campaign],
    );
    expect((await verify(campaign)).broken).toMatchObject({ no: 6 });
  });
});

test('writers at the same time make one chain', async () => {
  const campaign = await newCampaign();
  await Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      database.transaction((client) =>
        writeAudit(client, {
          ...{ actor: 'olga', action: 'campaign.change', campaignId: campaign, before: null, requestId: '' },
          after: { i },
        }),
      ),
    ),
  );
  expect(await verify(campaign)).toMatchObject({ broken: null, entries: 100 });
});

test('an operator whose change takes long does not hold up the journal', async () => {
  const campaign = await newCampaign();
  const slow = new pg.Client({ connectionString: url });
  await slow.connect();
  await slow.query('begin');
  const insert = `insert into audit_log (at, actor, action, campaign_id, chain) values (now(), 'olga', 'campaign.pause', $1, $2)`;
  await slow.query(insert, [campaign, 'operator']);
  await sql.query(`set lock_timeout = '5s'`);
  await sql.query(insert, [campaign, 'journal']);
  await expect(sql.query(insert, [campaign, 'operator'])).rejects.toThrow('lock timeout');
  await sql.query('reset lock_timeout');
  await slow.query('commit');
  await slow.end();
  expect(await chains.list(campaign)).toHaveLength(2);
  for (const source of ['operator', 'journal'] as const)
    expect(await verify(campaign, [], source)).toMatchObject({ broken: null, entries: 1 });
});

describe('an erasure', () => {
  async function erased(): Promise<string> {
    const campaign = await history();
    const user = `user-${products}` as UserId;
    const rows = new UserRows(database, async () => {});
    const pseudonym = newPseudonym();
    const erase = () => database.transaction((client) => rows.eraseElsewhere(client, 'audit_log', user, pseudonym));
    expect(await erase()).toBe(1);
    expect(await erase()).toBe(0);
    return campaign;
  }

  test('leaves the chain whole, and nothing of the user', async () => {
    const campaign = await erased();
    expect(await verify(campaign)).toMatchObject({ broken: null, entries: 5, erased: 1 });
    const { rows } = await sql.query(
      `select after, people, (select count(*)::int from audit_people p where p.audit_id = a.audit_id) as salts
       from audit_log a where campaign_id = $1 and chain_no = 3`,
      [campaign],
    );
    expect(rows[0]).toMatchObject({ after: { user_id: expect.stringMatching(/^erased-/), qty: 1 }, salts: 0 });
    expect(rows[0].after).not.toHaveProperty('reason');
  });

  test('leaves all else of the entry verified', async () => {
    const campaign = await erased();
    await forge(`update audit_log set after = after || '{"qty": 2}' where campaign_id = $1 and chain_no = 3`, [
      campaign,
    ]);
    expect((await verify(campaign)).broken).toMatchObject({ no: 3 });
  });
});

test('entries that AUDIT_KEEP_DAYS removes leave a rest that is verified from the link before it', async () => {
  const campaign = await newCampaign();
  const insert = (days: number) =>
    sql.query(
      `insert into audit_log (at, actor, action, campaign_id, after)
       values (now() - make_interval(days => $2), 'olga', 'reservation.release', $1, '{"user_id": "someone"}')`,
      [campaign, days],
    );
  for (const days of [40, 39, 38, 1, 0]) await insert(days);
  const { rows: written } = await sql.query<{ audit_id: string }>(
    'select audit_id from audit_log where campaign_id = $1',
    [campaign],
  );
  const { head } = await verify(campaign);
  const expired = new ExpiredData(database);
  expect(await expired.pruneAudit(30, 2)).toBe(2);
  expect(await verify(campaign, [head])).toMatchObject({ broken: null, entries: 4, removed: 2, kept: [head] });
  expect(await expired.pruneAudit(30, 1_000)).toBe(1);
  expect(await expired.pruneAudit(30, 1_000)).toBe(0);
  expect(await verify(campaign, [head])).toMatchObject({ broken: null, entries: 4, removed: 3, kept: [head] });
  const { rows: salts } = await sql.query('select 1 from audit_people where audit_id = any($1)', [
    written.map(({ audit_id }) => audit_id),
  ]);
  expect(salts).toHaveLength(2);
  const { rows: last } = await sql.query(
    'select actor, action, after from audit_log where campaign_id = $1 order by chain_no desc limit 1',
    [campaign],
  );
  expect(last).toEqual([
    { actor: 'clock', action: 'audit.expire', after: { up_to: 3, link: expect.stringMatching(/^[0-9a-f]{64}$/) } },
  ]);
  await insert(0);
  await forge('delete from audit_log where campaign_id = $1 and chain_no = 4', [campaign]);
  expect((await verify(campaign)).broken).toMatchObject({ no: 1 });
});

test('what says that entries have expired does not expire alone', async () => {
  const campaign = await newCampaign();
  await sql.query(
    `insert into audit_log (at, actor, action, campaign_id) values (now() - interval '40 days', 'olga', 'campaign.close', $1)`,
    [campaign],
  );
  const expired = new ExpiredData(database);
  expect(await expired.pruneAudit(30, 1_000)).toBe(1);
  await forge(`update audit_log set at = at - interval '40 days' where campaign_id = $1`, [campaign]);
  expect(await expired.pruneAudit(30, 1_000)).toBe(0);
});
