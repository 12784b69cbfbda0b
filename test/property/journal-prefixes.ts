import { expect } from '@jest/globals';
import fc from 'fast-check';
import type { JournalKind } from '../../shared/contracts/journal.js';
import { compareJournalIds } from '../../shared/redis/journal-ids.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';
import { opening, type Step, stepsWith } from './random-sale.js';
import { type Runs, tryOften } from './runs.js';

/** The image of a campaign: Redis, rewound by the journal, is what Postgres has, at each cursor. */
const sale = await startSale();
const store = await startPersistence(sale);
/** Writes one entry in a batch. */
const persist = store.persistWith({ batchEntries: 1 });

const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };
/** The others are of divided campaigns. */
const KINDS: JournalKind[] = [
  ...(['reserved', 'queued', 'left', 'line_closed', 'redeemed', 'paid_again', 'released', 'expired'] as const),
  ...(['extended', 'refunded', 'reduced', 'voided', 'answered', 'status', 'restocked'] as const),
];
const met = new Set<JournalKind>();
let prefixes = 0;

const { any, run } = stepsWith({
  async persist(campaign: TestCampaign, { nth }: Step) {
    for (let i = 0; i <= nth % 6; i += 1) await persistOne(campaign);
  },
});

/** Writes the next entry, and compares. @returns false when there was none */
async function persistOne(campaign: TestCampaign): Promise<boolean> {
  const cursor = await store.cursor.read();
  // A row of several promises stays until the last one is persisted.
  const next = (await campaign.entries()).find(({ journalId }) => compareJournalIds(journalId, cursor) > 0);
  if (!next) return false;
  met.add(next.kind);
  await persist.upTo(next.journalId);
  await expectSame(campaign, next.kind);
  return true;
}

async function expectSame(campaign: TestCampaign, after: string): Promise<void> {
  prefixes += 1;
  const verdict = await store.verdictOf(campaign);
  // The test itself moves deadlines in Redis, without an entry.
  const differences = verdict.differences.filter(
    ({ why, reservation }) => !why.includes('deadlines') || !campaign.moved.has(String(reservation)),
  );
  const drift = verdict.drift - (verdict.differences.length - differences.length);
  expect({ after, ...verdict, drift, differences }).toMatchObject({ after, ...CLEAN });
}

/** At every prefix of the journal of a random sale, rewound Redis equals Postgres. */
export async function expectSameAtEveryPrefix(runs: Runs): Promise<void> {
  const property = fc.asyncProperty(
    opening,
    fc.array(any, { minLength: 10, maxLength: 60, size: 'max' }),
    async (terms, steps) => {
      const campaign = await store.openCampaign(terms);
      await expectSame(campaign, 'the beginning');
      await run(campaign, steps);
      await expectSame(campaign, 'all steps');
      while (await persistOne(campaign));
    },
  );
  const missing = () => KINDS.filter((kind) => !met.has(kind));
  const made = await tryOften(property, runs, () => missing().length === 0);
  expect(missing()).toEqual([]);
  expect(await store.rejects()).toEqual([]);
  process.stdout.write(`${made} runs, ${prefixes} prefixes\n`);
}
