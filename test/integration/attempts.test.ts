import { expect, test } from '@jest/globals';
import { AttemptRecorder, type RecorderOptions } from '../../api/coupons/attempt-recorder.js';
import type { CampaignId, ReservationId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Database } from '../../shared/postgres/pool.js';
import { type Attempt, RedemptionAttempts, type TimedAttempt } from '../../shared/postgres/redemption-attempts.js';
import { forgetAttempts } from '../../worker/forget-attempts/forget-attempts.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';
import { until } from '../harness/until.js';

/** Attempts to use codes: what is written, and what is not when Postgres cannot follow. */
const { client: sql, url } = await createTestDatabase();
const database = connectDatabase(url);
const NOW_MS = Date.parse('2031-09-09T12:00:00.123Z');
const CAMPAIGN = '01890a5d-ac96-774b-bcce-b302099a8057' as CampaignId;
const RESERVATION = '01890a5d-ac96-774b-bcce-b30200000001' as ReservationId;

const attemptOf = (user: string, more: Partial<Attempt> = {}): Attempt => ({
  action: 'redeem',
  outcome: 'code_not_found',
  campaignId: null,
  code: null,
  codeExists: false,
  userId: user,
  deviceFp: null,
  network: null,
  reservationId: null,
  ...more,
});

/** A Postgres that a test can make unavailable: statements reach the real one, or fail with the errors of the pool. */
class Door extends RedemptionAttempts {
  isOpen = true;
  readonly sizes: number[] = [];
  held: Promise<void> | null = null;

  override async insert(attempts: readonly TimedAttempt[]): Promise<void> {
    this.sizes.push(attempts.length);
    await this.held;
    if (!this.isOpen) throw new EngineUnavailable('postgres', 'away');
    await super.insert(attempts);
  }
}

function startRecorder(options: Partial<RecorderOptions> = {}, through: Database = database) {
  const table = new Door(through);
  const counts = { written: 0, limited: 0, full: 0, refused: 0, stopped: 0, troubles: 0 };
  const recorder = new AttemptRecorder(table, {
    enabled: true,
    capacity: 1_000,
    batchRows: 100,
    everyMs: 5,
    perNetwork: { rows: 10, valid: 3 },
    callersKept: 100,
    nowMs: () => NOW_MS,
    onWritten: (count) => {
      counts.written += count;
    },
    onDropped: (count, reason) => {
      counts[reason] += count;
    },
    onTrouble: () => {
      counts.troubles += 1;
    },
    ...options,
  });
  recorder.start();
  return { recorder, table, counts };
}

const users = async (prefix: string) =>
  (
    await sql.query<{ user_id: string }>(
      "select user_id from redemption_attempts where user_id like $1 || '%' order by attempt_id",
      [prefix],
    )
  ).rows.map(({ user_id }) => user_id);
const named = (prefix: string, from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `${prefix}${from + index}`);

test('the log of attempts records user, code and outcome of each attempt', async () => {
  const { recorder, counts } = startRecorder();
  recorder.record(
    attemptOf('ann', {
      action: 'redeem',
      outcome: 'reserved',
      campaignId: CAMPAIGN,
      code: 'SAVE10',
      codeExists: true,
      deviceFp: 'phone',
      network: '203.0.113.7',
      reservationId: RESERVATION,
    }),
  );
  recorder.record(attemptOf('bob', { action: 'validate', code: 'GUESS1' }));
  recorder.record(attemptOf('cid', { action: 'checkout', outcome: 'sold_out' }));
  await until('all are written', () => counts.written === 3);
  const { rows } = await sql.query(
    "select action, outcome, campaign_id, code, length(code_hash) as hash, user_id, device_fp, network, reservation_id, at from redemption_attempts where user_id in ('ann', 'bob', 'cid') order by attempt_id",
  );
  const at = new Date(NOW_MS);
  const nothing = {
    campaign_id: null,
    code: null,
    hash: null,
    device_fp: null,
    network: null,
    reservation_id: null,
    at,
  };
  expect(rows).toEqual([
    {
      action: 'redeem',
      outcome: 'reserved',
      campaign_id: CAMPAIGN,
      code: 'SAVE10',
      hash: null,
      user_id: 'ann',
      device_fp: 'phone',
      network: '203.0.113.7',
      reservation_id: RESERVATION,
      at,
    },
    { ...nothing, action: 'validate', outcome: 'code_not_found', hash: 16, user_id: 'bob' },
    { ...nothing, action: 'checkout', outcome: 'sold_out', user_id: 'cid' },
  ]);
  await recorder.stop(1_000);
});

test('a network has a number of rows in a minute, fewer of valid checks, none of 429, and one for each promise', async () => {
  const { recorder, counts } = startRecorder();
  const times = (count: number, user: string, more: Partial<Attempt> = {}) =>
    Array.from({ length: count }, (_, i) =>
      recorder.record(attemptOf(`${user}${i}`, { network: '192.0.2.1', ...more })),
    ).filter(Boolean).length;
  // A 429 has a log line, but no row.
  expect(times(2, 'busy-limited-', { outcome: 'rate_limited' })).toBe(2);
  expect(times(5, 'busy-valid-', { action: 'validate', outcome: 'valid' })).toBe(3);
  expect(times(10, 'busy-unknown-')).toBe(5);
  expect(times(2, 'busy-limited-', { outcome: 'rate_limited' })).toBe(0);
  expect(times(5, 'busy-replay-', { outcome: 'replayed', reservationId: RESERVATION })).toBe(0);
  expect(times(5, 'busy-promise-', { outcome: 'reserved', reservationId: RESERVATION })).toBe(5);
  expect(times(5, 'calm-unknown-', { network: '192.0.2.2' })).toBe(5);
  await until('the others are written', () => counts.written === 18);
  expect([counts.limited, (await users('busy-')).length, (await users('calm-')).length]).toEqual([14, 13, 5]);
  await recorder.stop(1_000);
});

test('a record of an unknown code only shows whether two guesses were equal, and one of a too long code nothing', async () => {
  const { recorder, counts } = startRecorder();
  for (const [user, code] of [
    ['guess-1', 'AAAA'],
    ['guess-2', 'AAAA'],
    ['guess-3', 'AAAB'],
    ['guess-4', 'A'.repeat(129)],
  ] as const)
    recorder.record(attemptOf(user, { code, deviceFp: 'd'.repeat(code.length) }));
  await until('all are written', () => counts.written === 4);
  const { rows } = await sql.query(
    "select code, code_hash, device_fp from redemption_attempts where user_id like 'guess-%' order by attempt_id",
  );
  expect(rows.map(({ code }) => code)).toEqual([null, null, null, null]);
  expect(rows[0].code_hash).toBe(rows[1].code_hash);
  expect(rows[0].code_hash).not.toBe(rows[2].code_hash);
  expect([rows[3].code_hash, rows[3].device_fp, rows[2].device_fp]).toEqual([null, null, 'dddd']);
  await recorder.stop(1_000);
});

test('the log of attempts writes in batches, one at a time, in the order in which they came', async () => {
  const { recorder, table, counts } = startRecorder();
  let release = () => {};
  table.held = new Promise((resolve) => {
    release = resolve;
  });
  recorder.record(attemptOf('batch-1'));
  await until('a writer is at work', () => table.sizes.length === 1);
  for (const user of named('batch-', 2, 251)) recorder.record(attemptOf(user));
  expect([table.sizes, recorder.waiting]).toEqual([[1], 251]);
  table.held = null;
  release();
  await until('all are written', () => counts.written === 251);
  expect(table.sizes).toEqual([1, 100, 100, 50]);
  expect(await users('batch-')).toEqual(named('batch-', 1, 251));
  await recorder.stop(1_000);
});

test('full batches do not wait for their time, what is less does', async () => {
  const { recorder, counts } = startRecorder({ everyMs: 3_600_000 });
  for (const user of named('full-', 1, 250)) recorder.record(attemptOf(user));
  await until('two are written', () => counts.written === 200);
  expect(recorder.waiting).toBe(50);
  await recorder.stop(1_000);
  expect(counts.written).toBe(250);
});

test('the log of attempts drops and counts the oldest while Postgres is away, and writes the others afterwards', async () => {
  const { recorder, table, counts } = startRecorder({ capacity: 300 });
  table.isOpen = false;
  recorder.record(attemptOf('away-1'));
  await until('it was tried', () => counts.troubles === 1);
  for (const user of named('away-', 2, 501)) recorder.record(attemptOf(user));
  expect([recorder.waiting, counts.full]).toEqual([301, 200]);
  const tried = table.sizes.length;
  await until('it was tried again', () => table.sizes.length > tried + 2);
  expect([recorder.waiting, counts.troubles, counts.written]).toEqual([301, 1, 0]);
  table.isOpen = true;
  await until('all are written', () => recorder.waiting === 0);
  expect(counts).toEqual({ written: 301, limited: 0, full: 200, refused: 0, stopped: 0, troubles: 1 });
  expect(await users('away-')).toEqual(['away-1', ...named('away-', 202, 501)]);
  await recorder.stop(1_000);
});

test('a batch whose answer was lost is written once', async () => {
  const { recorder, table, counts } = startRecorder();
  const insert = table.insert.bind(table);
  table.insert = async (attempts) => {
    table.insert = insert;
    await insert(attempts);
    throw new EngineUnavailable('postgres', 'the answer was lost');
  };
  recorder.record(attemptOf('lost-1'));
  await until('it is written', () => counts.written === 1);
  expect([table.sizes, await users('lost-')]).toEqual([[1, 1], ['lost-1']]);
  await recorder.stop(1_000);
});

test('the log of attempts leaves out an attempt that Postgres refuses, and writes the others', async () => {
  const { recorder, counts } = startRecorder();
  for (const user of named('odd-', 1, 10)) recorder.record(attemptOf(user));
  recorder.record(attemptOf('odd-11', { campaignId: 'no id' as CampaignId }));
  for (const user of named('odd-', 12, 20))
    recorder.record(attemptOf(user, { network: user === 'odd-15' ? 'a\0' : null }));
  await until('all are done with', () => recorder.waiting === 0);
  expect([counts.written, counts.refused]).toEqual([18, 2]);
  expect(await users('odd-')).toEqual(named('odd-', 1, 20).filter((user) => user !== 'odd-11' && user !== 'odd-15'));
  await recorder.stop(1_000);
});

test('a stop writes what waits', async () => {
  const { recorder, counts } = startRecorder({ everyMs: 3_600_000, capacity: 500 });
  for (const user of named('stop-', 1, 250)) recorder.record(attemptOf(user));
  await recorder.stop(5_000);
  expect([counts.written, counts.stopped, (await users('stop-')).length]).toEqual([250, 0, 250]);
});

test('a stop without Postgres ends at its deadline and counts what is lost', async () => {
  for (const held of [null, new Promise<void>(() => {})]) {
    const { recorder, table, counts } = startRecorder({ everyMs: 3_600_000 });
    table.isOpen = false;
    table.held = held;
    for (const user of named('gone-', 1, 150)) recorder.record(attemptOf(user));
    await recorder.stop(120);
    expect([counts.stopped, counts.written, recorder.waiting]).toEqual([150, 0, 0]);
  }
});

test('the log of attempts records nothing when it is not wanted', async () => {
  const { recorder, table } = startRecorder({ enabled: false });
  for (const user of named('off-', 1, 150)) recorder.record(attemptOf(user));
  await recorder.stop(1_000);
  expect([recorder.waiting, table.sizes, await users('off-')]).toEqual([0, [], []]);
});

test('the log of attempts deletes expired records, oldest first, no more at once than it may', async () => {
  const table = new RedemptionAttempts(database);
  await sql.query('delete from redemption_attempts');
  const day = 86_400_000;
  const idAt = (ms: number, no: number) => {
    const hex = ms.toString(16).padStart(12, '0');
    return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-${String(no).padStart(12, '0')}`;
  };
  const rows = [31, 30.01, 29.99, 1].flatMap((days, group) =>
    Array.from(
      { length: 10 },
      (_, index): TimedAttempt => ({
        ...attemptOf(`old-${days}`),
        id: idAt(Math.floor(Date.now() - days * day), group * 10 + index),
        atMs: Date.now() - days * day,
      }),
    ),
  );
  // The clock of its API is behind.
  rows.push({ ...attemptOf('new'), id: idAt(Date.now() - 40 * day, 99), atMs: Date.now() });
  await table.insert(rows);
  const left = async () =>
    Object.fromEntries(
      (
        await sql.query<{ user_id: string; count: number }>(
          'select user_id, count(*)::int as count from redemption_attempts group by 1',
        )
      ).rows.map(({ user_id, count }) => [user_id, count]),
    );
  await forgetAttempts(table, 30, Date.now(), { pruneBatch: 3, attemptsPruneBatches: 4 });
  expect(await left()).toEqual({ 'old-30.01': 8, 'old-29.99': 10, 'old-1': 10, new: 1 });
  await forgetAttempts(table, 30, Date.now(), { pruneBatch: 3, attemptsPruneBatches: 100 });
  expect(await left()).toEqual({ 'old-29.99': 10, 'old-1': 10, new: 1 });
  await forgetAttempts(table, 0, Date.now(), { pruneBatch: 100, attemptsPruneBatches: 1 });
  expect(await left()).toEqual({});
});
