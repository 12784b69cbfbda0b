import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { JournalEntry } from '../../shared/contracts/journal.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { goBack, takeBackup } from '../harness/postgres-back.js';
import { restorePostgres } from '../harness/restore-postgres.js';
import { startSale } from '../harness/sale.js';
import { opening, stepsWith } from './random-sale.js';

/** Postgres is set back during a random sale: the repair writes what Postgres had at the first entry of the journal. */
const sale = await startSale();
const store = await startPersistence(sale);
const stream = new EventStream(sale.store.scripts, 100_000);
const { database, cursor } = store;
const parts = { redis: sale.redis, journal: sale.journal, stream, database, cursor };
const one = store.persistWith({ batchEntries: 1 });
const RUNS = 6;
const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };

const { any, run } = stepsWith({});
/** How many of the lost entries a worker had persisted. Without one there is no gap. */
const persisted = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 1, max: 60 }) },
  { weight: 1, arbitrary: fc.constant(0) },
);
const steps = fc.array(any, { minLength: 3, maxLength: 25, size: 'max' });

/** The rows of a campaign, without times and what only entries have. */
async function rowsOf({ terms }: TestCampaign) {
  const read = async (sql: string) => (await store.sql.query(sql, [terms.id])).rows;
  return {
    // Rows voided on both sides are not made again.
    campaign: await read(`select status, held, redeemed, burned, total_limit from campaigns where campaign_id = $1`),
    reservations: await read(
      `select redemption_id as id, user_id, qty, status, burned, order_id, line_no, code_no, released_qty, refunded_qty,
         burned_qty, payment_ref,
         (select array_agg(payment_ref order by payment_ref) from duplicate_payments d where d.reservation_id = redemption_id) as paid_again
       from redemptions where campaign_id = $1 and status <> 'voided' order by 1`,
    ),
    places: await read(
      `select line_no, user_id, status, qty, reservation_id from waiting_tickets where campaign_id = $1 order by 1`,
    ),
  };
}

type Rows = Awaited<ReturnType<typeof rowsOf>>;

/**
 * What Redis still knows. It has the latest place of each user alone, those that gave a unit, and those that a later
 * entry ends. Of a line that a later entry closes, it does not know which places had ended before, and of a reservation
 * that a later entry pays, not how it had ended.
 */
async function knownToRedis(campaign: TestCampaign, { places, reservations, ...rows }: Rows, later: JournalEntry[]) {
  const redis = await campaign.inRedis();
  const isKnown = ({ user_id, line_no, reservation_id }: Rows['places'][number]) =>
    redis.reservations.has(reservation_id) ||
    redis.people.get(user_id)?.lineNo === Number(line_no) ||
    later.some((entry) => entry.kind === 'left' && entry.lineNo === Number(line_no));
  const isPaidLate = ({ id, status }: Rows['reservations'][number]) =>
    status === 'released' && later.some((entry) => entry.kind === 'redeemed' && entry.reservation === id);
  const closedLater = Math.max(...later.map((entry) => numberClosedBy(entry)));
  const endsLater = ({ line_no, status }: Rows['places'][number]) => status === 'closed' && line_no <= closedLater;
  return {
    ...rows,
    reservations: reservations.map((one) => (isPaidLate(one) ? { ...one, status: 'expired' } : one)),
    places: places.filter(isKnown).map((one) => (endsLater(one) ? { ...one, status: 'waiting' } : one)),
  };
}

/** The last number in line that an entry closes; 0 = it closes no line. */
function numberClosedBy(entry: JournalEntry): number {
  if (entry.kind === 'line_closed') return entry.upTo;
  return entry.kind === 'status' && entry.status === 'closed' ? Number.MAX_SAFE_INTEGER : 0;
}

test('the repair of a random sale writes the rows that were lost, and a worker the entries that were not', async () => {
  let gaps = 0;
  const property = fc.asyncProperty(
    opening,
    steps,
    steps,
    persisted,
    steps,
    async (terms, before, lost, upTo, later) => {
      const campaign = await store.openCampaign(terms);
      await run(campaign, before);
      await store.persist();
      const backup = await takeBackup(store.sql);
      await run(campaign, lost);
      const entries = await campaign.entries();
      const last = entries[Math.min(upTo, entries.length) - 1];
      if (last) await one.upTo(last.journalId);
      const truth = await rowsOf(campaign);
      const position = await store.cursor.read();
      await run(campaign, later);
      const unsaved = await campaign.entries();
      await goBack(store.sql, backup);
      const { gap } = await restorePostgres(parts, { dryRun: false, settleMs: 0 });
      if (gap) gaps += 1;
      // The journal keeps a whole row of promises while a worker lacks one of them.
      await one.upTo(position);
      expect(await store.cursor.read()).toBe(position);
      const restored = await knownToRedis(campaign, await rowsOf(campaign), unsaved);
      expect(restored).toEqual(await knownToRedis(campaign, truth, unsaved));
      await store.persist();
      expect(await store.verdictOf(campaign)).toMatchObject(CLEAN);
      expect(await store.rejects()).toEqual([]);
    },
  );
  await fc.assert(property, { numRuns: RUNS, endOnFailure: true });
  expect(gaps).toBeGreaterThan(0);
});
