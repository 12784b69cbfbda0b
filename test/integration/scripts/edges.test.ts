import { afterEach, expect, test } from '@jest/globals';
import { startSale } from '../../harness/sale.js';

/** The exact millisecond at which something begins or ends: the clock of the scripts is stopped in these tests. */
const sale = await startSale();
afterEach(() => sale.expectConsistent());

const T = Date.UTC(2031, 5, 1, 12);

test('a script opens a scheduled sale exactly at its start', async () => {
  const campaign = await sale.openCampaign({ status: 'scheduled', startsAt: new Date(T) });
  expect(await campaign.at(T - 1).checkout('ann')).toEqual({ kind: 'not_started', startsAtMs: T, nowMs: T - 1 });
  expect(await campaign.at(T - 1).setStatus('start')).toEqual({ kind: 'unchanged', status: 'scheduled' });
  await campaign.at(T).take('ann');
  expect(await campaign.at(T).setStatus('start')).toMatchObject({ kind: 'changed', after: 'open' });
});

test('a script ends a sale exactly at its end', async () => {
  const campaign = await sale.openCampaign({ startsAt: new Date(T - 60_000), endsAt: new Date(T), totalLimit: 1 });
  await campaign.at(T - 1).take('ann');
  await campaign.at(T - 1).join('bob');
  expect(await campaign.at(T - 1).setStatus('finish')).toEqual({ kind: 'unchanged', status: 'open' });
  expect(await campaign.at(T).checkout('cid')).toEqual({ kind: 'ended' });
  expect(await campaign.at(T - 1).standing('bob')).toMatchObject({ status: 'queued' });
  expect(await campaign.at(T).standing('bob')).toMatchObject({ status: 'closed' });
  expect(await campaign.at(T).setStatus('finish')).toMatchObject({ kind: 'changed', after: 'closed' });
});

test('a script promotes no user from the end of the sale on', async () => {
  const campaign = await sale.openCampaign({ startsAt: new Date(T - 60_000), endsAt: new Date(T), totalLimit: 0 });
  await campaign.at(T - 2).join('ann');
  await campaign.restock(1, { limit: 0 });
  expect(await campaign.at(T).promote()).toEqual({ kind: 'promoted', count: 0 });
  expect(await campaign.at(T - 1).promote()).toEqual({ kind: 'promoted', count: 1 });
});

test('a script keeps a promise to the millisecond before its deadline and not longer', async () => {
  const campaign = await sale.openCampaign({ startsAt: new Date(T - 60_000), holdSeconds: 60, perUserLimit: 8 });
  const due = T + 60_000;
  const take = async () => {
    const id = await campaign.at(T).take('ann');
    expect(await campaign.reservation(id)).toMatchObject({ dueMs: due });
    return id;
  };
  const [confirmed, late, released, lateToo, swept] = [
    await take(),
    await take(),
    await take(),
    await take(),
    await take(),
  ];
  expect(await campaign.at(due - 1).standing('ann')).toMatchObject({ status: 'completed', reservationId: swept });
  expect(await campaign.at(due).standing('ann')).toMatchObject({ status: 'expired', reservationId: swept });
  expect(await campaign.at(due - 1).confirm(confirmed)).toMatchObject({ kind: 'redeemed' });
  expect(await campaign.at(due).confirm(late)).toMatchObject({ kind: 'ended', state: 'expired' });
  expect(await campaign.at(due - 1).release(released)).toMatchObject({ kind: 'released', state: 'released' });
  expect(await campaign.at(due).release(lateToo)).toMatchObject({ kind: 'released', state: 'expired' });
  expect(await campaign.at(due - 1).expire()).toEqual({ kind: 'swept', expired: 0, promoted: 0, due: 0 });
  expect(await campaign.at(due).expire()).toEqual({ kind: 'swept', expired: 1, promoted: 0, due: 0 });
});

test('a script gives back a part, or extends a hold, to the millisecond before its deadline and not longer', async () => {
  const campaign = await sale.openCampaign({ startsAt: new Date(T - 60_000), holdSeconds: 60, perUserLimit: 8 });
  const due = T + 60_000;
  const [early, late] = [await campaign.at(T).take('ann', { qty: 2 }), await campaign.at(T).take('ann', { qty: 2 })];
  const keepOne = (ms: number, id: string) => campaign.at(ms).release(id, null, '', '', 1);
  expect(await keepOne(due, late)).toMatchObject({ kind: 'released', state: 'expired' });
  expect(await campaign.at(due).extend(late)).toEqual({ kind: 'ended', state: 'expired' });
  expect(await keepOne(due - 1, early)).toMatchObject({ kind: 'kept', qty: 1, released: 1 });
  expect(await campaign.at(due - 1).extend(early, 1_000)).toMatchObject({ kind: 'extended', dueMs: due + 1_000 });
  expect(await campaign.reservation(late)).toMatchObject({ state: 'reserved', qty: 2, dueMs: due });
});

test('a script takes a token from thirty seconds before it could have been issued to thirty seconds after it expired', async () => {
  const campaign = await sale.openCampaign({
    startsAt: new Date(T - 600_000),
    totalLimit: 100,
    requireAttestation: true,
  });
  const token = { tokenExpiresAt: T / 1000 };
  expect(await campaign.at(T - 60_001).checkout('ann', token)).toEqual({ kind: 'attestation_future' });
  await campaign.at(T - 60_000).take('ann', token);
  await campaign.at(T + 30_000).take('bob', token);
  expect(await campaign.at(T + 30_001).checkout('cid', token)).toEqual({ kind: 'attestation_expired' });
});

test('a script admits no more checkouts of a device in any window than its quota, to the millisecond', async () => {
  const campaign = await sale.openCampaign({ startsAt: new Date(T - 600_000), totalLimit: 100, perUserLimit: 100 });
  const window = 60_000;
  const at = (ms: number) => campaign.through(sale.storeAt(ms, { deviceQuota: 20, deviceWindowMs: window }));
  const spend = async (ms: number, times: number) => {
    const then = at(ms);
    for (let i = 0; i < times; i += 1) await then.take('ann', { device: 'phone' });
  };
  const refused = (ms: number) => at(ms).checkout('ann', { device: 'phone' });
  await spend(T, 10);
  await spend(T + 400, 10);
  expect(await refused(T + 400)).toEqual({ kind: 'rate_limited', retryMs: window - 400 });
  expect(await refused(T + window - 1)).toEqual({ kind: 'rate_limited', retryMs: 1 });
  await spend(T + window, 10);
  expect(await refused(T + window)).toEqual({ kind: 'rate_limited', retryMs: 400 });
  expect(await refused(T + window + 399)).toEqual({ kind: 'rate_limited', retryMs: 1 });
  await spend(T + window + 400, 10);
  expect(await refused(T + window + 400)).toEqual({ kind: 'rate_limited', retryMs: window - 400 });
});

test('a script counts a refused checkout of a device as little as a replayed one', async () => {
  const campaign = await sale.openCampaign({ startsAt: new Date(T - 600_000), totalLimit: 100, perUserLimit: 100 });
  const limits = { deviceQuota: 1, deviceWindowMs: 60_000 };
  const at = (ms: number) => campaign.through(sale.storeAt(ms, limits));
  await at(T).take('ann', { device: 'pad', key: 'the-first-key' });
  for (let ms = 1; ms < 5; ms += 1) {
    expect(await at(T + ms).checkout('ann', { device: 'pad' })).toEqual({ kind: 'rate_limited', retryMs: 60_000 - ms });
    expect((await at(T + ms).checkout('ann', { device: 'pad', key: 'the-first-key' })).kind).toBe('replayed');
  }
  await at(T + 60_000).take('ann', { device: 'pad' });
});

test('a script passes over a waiting user who was not seen for exactly as long as the campaign allows', async () => {
  const presenceMs = 60_000;
  for (const [ms, status] of [[T + presenceMs - 1, 'promoted'] as const, [T + presenceMs, 'queued'] as const]) {
    const campaign = await sale.openCampaign({
      ...{ startsAt: new Date(T - 60_000), totalLimit: 0 },
      waitingRoom: { enabled: true, maxSize: 10, presenceSeconds: presenceMs / 1_000 },
    });
    await campaign.at(T).join('ann');
    await campaign.at(ms).restock(1);
    expect(await campaign.at(ms).standing('ann')).toMatchObject({ status });
  }
});
