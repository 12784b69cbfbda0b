import { afterEach, expect, test } from '@jest/globals';
import type { CampaignStatus } from '../../../shared/domain/campaign.js';
import { EngineUnavailable } from '../../../shared/errors/faults.js';
import { keys } from '../../../shared/redis/keys.js';
import type { StatusAction } from '../../../shared/sale/scripts/campaign.js';
import { startSale } from '../../harness/sale.js';

const sale = await startSale();
afterEach(() => sale.expectConsistent());

const PAST = new Date(Date.now() - 3_600_000);
const FUTURE = new Date(Date.now() + 3_600_000);
const started = { startsAt: PAST, endsAt: null };
const notStarted = { startsAt: FUTURE, endsAt: null };
const over = { startsAt: PAST, endsAt: new Date(Date.now() - 1_000) };
type Times = { startsAt: Date; endsAt: Date | null };
const NAMES = new Map<Times, string>([
  [started, 'started'],
  [notStarted, 'not started'],
  [over, 'over'],
]);

/** action, status before, times of the campaign, status after; or what is said instead of a change */
const ARROWS: [StatusAction, CampaignStatus, Times, CampaignStatus | 'unchanged' | 'refused'][] = [
  ['open', 'draft', notStarted, 'open'],
  ['open', 'scheduled', notStarted, 'open'],
  ['open', 'open', started, 'unchanged'],
  ['open', 'paused', started, 'refused'],
  ['open', 'closed', started, 'refused'],
  ['publish', 'draft', started, 'open'],
  ['publish', 'draft', notStarted, 'scheduled'],
  ['publish', 'scheduled', notStarted, 'unchanged'],
  ['publish', 'closed', started, 'unchanged'],
  ['pause', 'draft', started, 'refused'],
  ['pause', 'scheduled', notStarted, 'paused'],
  ['pause', 'open', started, 'paused'],
  ['pause', 'paused', started, 'unchanged'],
  ['pause', 'closed', started, 'refused'],
  ['resume', 'paused', started, 'open'],
  ['resume', 'paused', notStarted, 'scheduled'],
  ['resume', 'open', started, 'unchanged'],
  ['resume', 'scheduled', notStarted, 'unchanged'],
  ['resume', 'draft', started, 'refused'],
  ['resume', 'closed', started, 'refused'],
  ['close', 'draft', started, 'closed'],
  ['close', 'scheduled', notStarted, 'closed'],
  ['close', 'open', started, 'closed'],
  ['close', 'paused', started, 'closed'],
  ['close', 'closed', started, 'unchanged'],
  ['start', 'scheduled', started, 'open'],
  ['start', 'scheduled', notStarted, 'unchanged'],
  ['start', 'draft', started, 'unchanged'],
  ['start', 'paused', started, 'unchanged'],
  ['start', 'closed', started, 'unchanged'],
  ['finish', 'open', over, 'closed'],
  ['finish', 'paused', over, 'closed'],
  ['finish', 'scheduled', over, 'closed'],
  ['finish', 'open', started, 'unchanged'],
  ['finish', 'draft', over, 'unchanged'],
  ['finish', 'closed', over, 'unchanged'],
];

for (const [action, before, times, result] of ARROWS) {
  test(`${action} of a campaign that is ${before} and ${NAMES.get(times)}: ${result}`, async () => {
    const campaign = await sale.openCampaign({ ...times, status: before });
    const outcome = await campaign.setStatus(action, 'olga', 'request-9');
    if (result === 'unchanged' || result === 'refused') {
      expect(outcome).toEqual({ kind: result, status: before });
      expect(await campaign.entries()).toEqual([]);
      expect(await campaign.stock()).toMatchObject({ status: before });
      return;
    }
    const journalId = await sale.journal.lastId();
    expect(outcome).toMatchObject({ kind: 'changed', before, after: result, journalId });
    expect(await campaign.stock()).toMatchObject({ status: result });
    expect(await campaign.entries()).toEqual([
      {
        kind: 'status',
        journalId,
        no: campaign.terms.no,
        atMs: expect.any(Number),
        action,
        before,
        status: result,
        actor: 'olga',
        request: 'request-9',
      },
    ]);
    expect((await campaign.setStatus(action)).kind).toBe('unchanged');
  });
}

test('set_status journals why a campaign was paused, where a reason is given', async () => {
  const campaign = await sale.openCampaign();
  await sale.store.campaigns.setStatus(campaign.product, 'pause', 'velocity', '', '90 units in a minute');
  expect(await campaign.lastEntries(1)).toMatchObject([
    { kind: 'status', action: 'pause', actor: 'velocity', reason: '90 units in a minute' },
  ]);
});

test('closing drops the line and keeps the holds', async () => {
  const campaign = await sale.openCampaign({ totalLimit: 1 });
  const reservation = await campaign.take('ann');
  await campaign.join('bob');
  await campaign.join('cid');
  await campaign.setStatus('close');
  expect(await campaign.line()).toEqual([]);
  expect(await campaign.stock()).toMatchObject({ status: 'closed', held: 1, waiting: 0 });
  expect(await campaign.confirm(reservation)).toMatchObject({ kind: 'redeemed' });
});

test('a sale that was opened before its time is open again after a pause', async () => {
  const campaign = await sale.openCampaign({ ...notStarted, status: 'scheduled' });
  await campaign.setStatus('open');
  await campaign.take('ann');
  await campaign.setStatus('pause');
  expect(await campaign.setStatus('resume')).toMatchObject({ kind: 'changed', after: 'open' });
});

test('a sale that is opened after its time has the beginning that Postgres has', async () => {
  const campaign = await sale.openCampaign({ ...started, status: 'scheduled' });
  await campaign.setStatus('open');
  expect(await sale.redis.hget(keys.campaign(campaign.product), 'starts_at')).toBe(String(PAST.getTime()));
});

test('set_status finds no campaign for an unknown product', async () => {
  expect(await sale.unknownCampaign().setStatus('open')).toEqual({ kind: 'not_found' });
  await sale.withoutEpoch(() => expect(sale.unknownCampaign().setStatus('open')).rejects.toThrow(EngineUnavailable));
});

test('every reply of the script has come in this file', () => {
  expect(sale.unmetReplies('set_status')).toEqual([]);
});
