import { afterEach, describe, expect, it } from '@jest/globals';
import type { ReservationId } from '../../shared/domain/ids.js';
import { startPersistence } from '../harness/persistence.js';
import { startSale } from '../harness/sale.js';

/** Redis and Postgres agree on who waits after every call that ends places. */
const sale = await startSale();
const store = await startPersistence(sale);
afterEach(() => sale.expectConsistent());

const TEND_BATCH = 200;
const room = { enabled: true, maxSize: 1_000, presenceSeconds: null };

describe('a line that is closed in batches', () => {
  for (const type of ['pool', 'unique'] as const) {
    it(`${type}: agrees with Postgres when a unit comes back after the first batch`, async () => {
      const people = 2 * TEND_BATCH + 10;
      const campaign = await store.openCampaign({ totalLimit: 1, type, waitingRoom: room });
      await store.issueCodes(campaign, people + 1);
      const bought = await campaign.use('ann', 1);
      for (let i = 1; i <= people; i += 1) await campaign.redeem(`user-${i}`, i + 1);
      await campaign.confirm(bought);
      const tend = () => campaign.tend({ settled: true }, TEND_BATCH);
      expect(await tend()).toMatchObject({ closed: TEND_BATCH, more: true });
      await store.persist();
      expect(await statuses()).toEqual({ closed: TEND_BATCH, waiting: people - TEND_BATCH });

      await campaign.refund(bought);
      expect(await tend()).toMatchObject({ closed: 0, promoted: 0, more: false });
      await store.persist();
      expect(await statuses()).toEqual({ closed: TEND_BATCH, promoted: 1, waiting: people - TEND_BATCH - 1 });
      expect(await campaign.stock()).toMatchObject({ waiting: people - TEND_BATCH - 1, held: 1 });

      // A user whose place was closed joins again, with the code that is free again.
      expect((await campaign.redeem('user-1', 2)).kind).toBe('queued');
      const promoted = (await campaign.person(`user-${TEND_BATCH + 1}`))?.reservation as ReservationId;
      await campaign.confirm(promoted);
      expect(await tend()).toMatchObject({ closed: TEND_BATCH, more: true });
      expect(await tend()).toMatchObject({ closed: 10, more: false });
      await store.persist();
      expect(await store.rejects()).toEqual([]);
      expect(await statuses()).toEqual({ closed: people, promoted: 1 });

      async function statuses(): Promise<Record<string, number>> {
        const counts: Record<string, number> = {};
        for (const { status } of await store.tickets(campaign))
          counts[String(status)] = (counts[String(status)] ?? 0) + 1;
        expect(counts.waiting ?? 0).toBe((await campaign.line()).length);
        return counts;
      }
    });
  }
});

describe('a place that cannot be served', () => {
  it('is closed in Postgres too', async () => {
    const campaign = await store.openCampaign({ totalLimit: 2, perUserLimit: 2 });
    await campaign.take('ann');
    const held = await campaign.take('cid');
    await campaign.join('ann');
    await campaign.join('bob');
    await campaign.set({ per_user_limit: 1 });
    await campaign.release(held);
    await store.persist();
    expect(await store.tickets(campaign)).toMatchObject([
      { user_id: 'ann', status: 'closed' },
      { user_id: 'bob', status: 'promoted' },
    ]);
    expect(await store.rejects()).toEqual([]);
  });
});
