import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { JournalKind } from '../../shared/contracts/journal.js';
import { compareJournalIds } from '../../shared/redis/journal-ids.js';
import type { TestCampaign } from '../harness/campaign.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/** The image of a campaign: Redis, rewound by the journal, is what Postgres has, at each cursor. */
const sale = await startSale();
const store = await startPersistence(sale);
/** Writes one entry in a batch. */
const persist = store.persistWith({ batchEntries: 1 });

/** A busy machine makes the fewest, a quick one as many as fit into the time. */
const RUNS = { fewest: 20, most: 100, forMs: 20_000, atOnce: 5 };
const USERS = ['ann', 'bob', 'cid', 'dan', 'eve'];
const CLEAN = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };
/** The others are of divided campaigns. */
const KINDS: JournalKind[] = [
  ...(['reserved', 'queued', 'left', 'line_closed', 'redeemed', 'paid_again', 'released', 'expired'] as const),
  ...(['extended', 'refunded', 'reduced', 'voided', 'answered', 'status', 'restocked'] as const),
];
const met = new Set<JournalKind>();
let prefixes = 0;

type Step = { user: string; nth: number; units: number };

/** One reservation of those in these states. */
async function pick(campaign: TestCampaign, { nth }: Step, ...states: string[]) {
  const found = [...(await campaign.inRedis()).reservations].filter(([, { state }]) => states.includes(state)).sort();
  const [id, record] = found[nth % found.length] ?? ['', null];
  return record && { id, ...record };
}

const checkout = (campaign: TestCampaign, { user, units, nth }: Step) =>
  campaign.checkout(user, { qty: units, ...(nth % 3 === 0 ? { order: `order-of-${user}` } : {}) });

const STEPS = {
  /** At once, so that one row of the stream has several promises. */
  crowd: (campaign: TestCampaign, step: Step) =>
    Promise.all(USERS.slice(step.nth % 3).map((user) => checkout(campaign, { ...step, user, units: 1 }))),
  checkout,
  async confirm(campaign: TestCampaign, step: Step) {
    const one = await pick(campaign, step, 'reserved', 'released', 'expired', 'redeemed', 'reacquired');
    if (one) await campaign.confirm(one.id, `pay-${step.units}`);
  },
  async release(campaign: TestCampaign, step: Step) {
    const one = await pick(campaign, step, 'reserved');
    if (one) await campaign.release(one.id);
  },
  async refund(campaign: TestCampaign, step: Step) {
    const one = await pick(campaign, step, 'redeemed', 'reacquired');
    if (one) await campaign.refund(one.id);
  },
  async reduce(campaign: TestCampaign, step: Step) {
    const one = await pick(campaign, step, 'reserved', 'redeemed', 'reacquired');
    if (one?.state === 'reserved') await campaign.release(one.id, null, '', '', step.units);
    else if (one) await campaign.refund(one.id, '', step.units);
  },
  async extend(campaign: TestCampaign, step: Step) {
    const one = await pick(campaign, step, 'reserved');
    if (one) await campaign.extend(one.id);
  },
  async expire(campaign: TestCampaign, step: Step) {
    const one = await pick(campaign, step, 'reserved');
    if (one) await campaign.letDeadlinePass(one.id);
    await campaign.expire();
  },
  async void(campaign: TestCampaign, step: Step) {
    const one = await pick(campaign, step, 'reserved', 'redeemed', 'reacquired');
    if (one?.reduced === '' && step.units > 1) await campaign.void(one.id, 'never_existed', 'campaigns_cap');
    else if (one) await campaign.void(one.id, 'returns', 'redemptions_within_limit');
  },
  leave: (campaign: TestCampaign, { user }: Step) => campaign.leave(user),
  async absent(campaign: TestCampaign, { user, nth }: Step) {
    const place = (await campaign.inRedis()).line.find((one) => one.user === user);
    // Users are demoted once: the number of a place that was demoted twice would not fit.
    if (place && !place.away) await campaign.letPresenceLapse(user);
    await campaign.tend();
    if (nth % 2 === 0) await campaign.letPlaceLapse(user);
    await campaign.tend();
  },
  tend: (campaign: TestCampaign) => campaign.tend({ groupWaited: true, settled: true }),
  /** No unit is left, so the line is closed. */
  async sellOut(campaign: TestCampaign, step: Step) {
    for (const nth of [0, 3]) {
      await STEPS.crowd(campaign, { ...step, nth });
      for (const [id, { state }] of (await campaign.inRedis()).reservations)
        if (state === 'reserved') await campaign.confirm(id);
    }
    await STEPS.crowd(campaign, { ...step, nth: 0 });
    await STEPS.tend(campaign);
  },
  restock: (campaign: TestCampaign, { nth, units }: Step) =>
    campaign.restock(nth % 3 === 0 ? -units : units, nth % 2 === 0 ? { key: `${campaign.product}-${nth}` } : {}),
  pause: (campaign: TestCampaign) => campaign.setStatus('pause'),
  resume: (campaign: TestCampaign) => campaign.setStatus('resume'),
  open: (campaign: TestCampaign) => campaign.setStatus('open'),
  close: (campaign: TestCampaign) => campaign.setStatus('close'),
  async persist(campaign: TestCampaign, { nth }: Step) {
    for (let i = 0; i <= nth % 6; i += 1) await persistOne(campaign);
  },
} satisfies Record<string, (campaign: TestCampaign, step: Step) => Promise<unknown>>;

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
  expect({ after, ...(await store.verdictOf(campaign)) }).toMatchObject({ after, ...CLEAN });
}

const WEIGHTS: Partial<Record<keyof typeof STEPS, number>> = {
  checkout: 12,
  crowd: 2,
  confirm: 7,
  persist: 4,
  reduce: 4,
};
const names = Object.keys(STEPS) as (keyof typeof STEPS)[];
const anyStep = fc.record({
  what: fc.oneof(
    ...names.map((name) => ({
      weight: name === 'close' || name === 'sellOut' ? 1 : 2 * (WEIGHTS[name] ?? 2),
      arbitrary: fc.constant(name),
    })),
  ),
  user: fc.constantFrom(...USERS),
  nth: fc.nat(30),
  units: fc.integer({ min: 1, max: 3 }),
});
const opening = fc.record({
  total: fc.integer({ min: 1, max: 6 }),
  holdSeconds: fc.constantFrom(600, 600, 600, 0),
  refundPolicy: fc.constantFrom('return' as const, 'burn' as const),
  latePayment: fc.constantFrom('reacquire' as const, 'reacquire' as const, 'refuse' as const),
  presence: fc.boolean(),
});

test('at every prefix of the journal of a random sale, rewound Redis equals Postgres', async () => {
  let runs = 0;
  const property = fc.asyncProperty(
    opening,
    fc.array(anyStep, { minLength: 10, maxLength: 60, size: 'max' }),
    async ({ total, presence, ...terms }, steps) => {
      const waitingRoom = { enabled: true, maxSize: 5, presenceSeconds: presence ? 3_600 : null };
      const all = { ...terms, totalLimit: total, maxQty: 3, perUserLimit: 2, waitingRoom };
      const campaign = await store.openCampaign(all);
      await expectSame(campaign, 'the beginning');
      for (const { what, ...step } of steps) await STEPS[what](campaign, step);
      await expectSame(campaign, 'all steps');
      while (await persistOne(campaign));
      runs += 1;
    },
  );
  const end = performance.now() + RUNS.forMs;
  const missing = () => KINDS.filter((kind) => !met.has(kind));
  while (runs < RUNS.fewest || (runs < RUNS.most && (performance.now() < end || missing().length > 0)))
    await fc.assert(property, { numRuns: RUNS.atOnce });
  expect(missing()).toEqual([]);
  expect(await store.rejects()).toEqual([]);
  process.stdout.write(`${runs} runs, ${prefixes} prefixes\n`);
});
