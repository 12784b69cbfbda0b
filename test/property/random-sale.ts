import fc from 'fast-check';
import type { TestCampaign } from '../harness/campaign.js';

const USERS = ['ann', 'bob', 'cid', 'dan', 'eve'];

export type Step = { user: string; nth: number; units: number };

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
        if (state === 'reserved') await campaign.confirm(id, `pay-${step.units}`);
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
} satisfies Record<string, (campaign: TestCampaign, step: Step) => Promise<unknown>>;

const WEIGHTS: Record<string, number> = {
  checkout: 12,
  crowd: 2,
  confirm: 7,
  persist: 4,
  reduce: 4,
};

/**
 * Random steps of a sale.
 * @param more steps of the test
 */
export function stepsWith<More extends string>(
  more: Record<More, (campaign: TestCampaign, step: Step) => Promise<unknown>>,
) {
  const all: Record<string, (campaign: TestCampaign, step: Step) => Promise<unknown>> = { ...STEPS, ...more };
  const any = fc.record({
    what: fc.oneof(
      ...Object.keys(all).map((name) => ({
        weight: name === 'close' || name === 'sellOut' ? 1 : 2 * (WEIGHTS[name] ?? 2),
        arbitrary: fc.constant(name),
      })),
    ),
    user: fc.constantFrom(...USERS),
    nth: fc.nat(30),
    units: fc.integer({ min: 1, max: 3 }),
  });
  const run = async (campaign: TestCampaign, steps: readonly ({ what: string } & Step)[]) => {
    for (const { what, ...step } of steps) await all[what]?.(campaign, step);
  };
  return { any, run };
}

/** The terms of a sale. */
export const opening = fc
  .record({
    total: fc.integer({ min: 1, max: 6 }),
    holdSeconds: fc.constantFrom(600, 600, 600, 0),
    refundPolicy: fc.constantFrom('return' as const, 'burn' as const),
    latePayment: fc.constantFrom('reacquire' as const, 'reacquire' as const, 'refuse' as const),
    presence: fc.boolean(),
  })
  .map(({ total, presence, ...terms }) => {
    const waitingRoom = { enabled: true, maxSize: 5, presenceSeconds: presence ? 3_600 : null };
    return { ...terms, totalLimit: total, maxQty: 3, perUserLimit: 2, waitingRoom };
  });
