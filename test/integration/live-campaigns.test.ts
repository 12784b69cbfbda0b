import { expect, test } from '@jest/globals';
import { LiveCampaigns } from '../../api/ops/live-campaigns.js';
import { SaleMetrics, SHOWN_CAMPAIGNS } from '../../api/ops/sale-metrics.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { startSale } from '../harness/sale.js';

/** What a scrape of /metrics reads of the sale. */
const sale = await startSale();
const MINUTE_MS = 60_000;

function liveCampaigns({ live = 500, laterMs = 0 } = {}) {
  let now = 0;
  const clock = { nowMs: () => Date.now() + laterMs };
  const { reader } = sale.store;
  const deps = { reader, redis: sale.redis, clock, has: (product: ProductId) => product !== 'elsewhere' };
  return {
    campaigns: new LiveCampaigns(deps, { listed: 2_000, live }, () => now),
    wait: (ms: number) => {
      now += ms;
    },
  };
}

test('has the counters of open and paused campaigns, and of closed ones with units on hold', async () => {
  const [open, paused, done, ending] = [
    await sale.openCampaign({ totalLimit: 3 }),
    await sale.openCampaign(),
    await sale.openCampaign(),
    await sale.openCampaign(),
  ];
  await open.take('ann');
  await ending.take('ann');
  await paused.setStatus('pause');
  await done.setStatus('close');
  await ending.setStatus('close');
  const found = await liveCampaigns().campaigns.read();
  expect(found.map(({ product, stock }) => [product, stock.status, stock.held])).toEqual([
    [ending.product, 'closed', 1],
    [paused.product, 'paused', 0],
    [open.product, 'open', 1],
  ]);
  expect(found.at(-1)?.stock).toEqual({
    ...{ status: 'open', total: 3, free: 2, held: 1, redeemed: 0, burned: 0, waiting: 0 },
  });
});

test('counts holds whose deadline passed more than ten seconds ago', async () => {
  const campaign = await sale.openCampaign({ perUserLimit: 9 });
  for (let i = 0; i < 3; i += 1) await campaign.take('ann');
  const overdueOf = async (laterMs: number) =>
    (await liveCampaigns({ laterMs }).campaigns.read()).find(({ product }) => product === campaign.product)?.overdue;
  expect(await overdueOf(MINUTE_MS - 5_000)).toBe(0);
  expect(await overdueOf(MINUTE_MS + 5_000)).toBe(0);
  expect(await overdueOf(MINUTE_MS + 20_000)).toBe(3);
});

test('reads the list of campaigns again after ten seconds, and the newest ones only', async () => {
  const { campaigns, wait } = liveCampaigns({ live: 2 });
  const products = async () => (await campaigns.read()).map(({ product }) => product);
  const [a, b] = [await sale.openCampaign(), await sale.openCampaign()];
  expect(await products()).toEqual([b.product, a.product]);
  const c = await sale.openCampaign();
  wait(9_999);
  expect(await products()).toEqual([b.product, a.product]);
  wait(1);
  expect(await products()).toEqual([c.product, b.product]);
  await b.setStatus('close');
  expect(await products()).toEqual([c.product]);
});

test('has sums over all live campaigns, and series for the newest of them alone', async () => {
  const campaigns = Array.from({ length: SHOWN_CAMPAIGNS + 5 }, (_, i) => ({
    no: i,
    product: `p${i}` as ProductId,
    stock: { status: 'open' as const, total: 9, free: 2, held: 3, redeemed: 4, burned: 0, waiting: 1 },
    overdue: 1,
  }));
  const text = await new SaleMetrics().text({ campaigns, processes: { api: 2, worker: 1 } });
  const lines = text.split('\n');
  const all = campaigns.length;
  expect(lines).toEqual(
    expect.arrayContaining([
      `doorbuster_units{state="held"} ${3 * all}`,
      `doorbuster_waiting_users ${all}`,
      `doorbuster_overdue_holds ${all}`,
      `doorbuster_live_campaigns{status="open"} ${all}`,
      'doorbuster_processes{kind="worker"} 1',
      'doorbuster_campaign_units{campaign="p54",state="redeemed"} 4',
      'doorbuster_campaign_info{campaign="p54",status="open"} 1',
    ]),
  );
  const shown = lines.filter((line) => line.startsWith('doorbuster_campaign_waiting_users{'));
  expect([shown.length, shown.some((line) => line.includes('"p4"'))]).toEqual([SHOWN_CAMPAIGNS, false]);
});

test('a campaign that is over has no series any more, and an unlimited one has no free units', async () => {
  const metrics = new SaleMetrics();
  const stock = { status: 'open' as const, total: null, free: null, held: 3, redeemed: 4, burned: 0, waiting: 1 };
  const campaign = { no: 1, product: 'p1' as ProductId, stock, overdue: 0 };
  const text = await metrics.text({ campaigns: [campaign], processes: null });
  expect(text).toContain('doorbuster_campaign_units{campaign="p1",state="held"} 3');
  expect(text).not.toContain('campaign="p1",state="free"');
  expect(text).not.toContain('doorbuster_processes{');
  expect(await metrics.text({ campaigns: [], processes: null })).not.toContain('p1');
});
