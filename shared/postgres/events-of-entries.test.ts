import { expect, test } from '@jest/globals';
import type { CampaignStatus } from '../domain/campaign.js';
import { eventsOf, eventsOfPromise } from './events-of-entries.js';

const base = { journalId: '5-1', no: 7, atMs: 5 };
const change = (before: CampaignStatus, status: CampaignStatus, action = 'any') =>
  eventsOf([{ ...base, kind: 'status', action, before, status, actor: 'olga', request: 'q' }]);

const CHANGES: [CampaignStatus, CampaignStatus, string][] = [
  ['draft', 'scheduled', 'scheduled'],
  ['draft', 'open', 'opened'],
  ['scheduled', 'open', 'opened'],
  ['open', 'paused', 'paused'],
  ['paused', 'open', 'resumed'],
  ['paused', 'scheduled', 'resumed'],
  ['open', 'closed', 'closed'],
  ['draft', 'closed', 'closed'],
];
for (const [before, status, event] of CHANGES) {
  test(`from ${before} to ${status} is ${event}, without saying who did it`, () => {
    expect(change(before, status)).toEqual([
      {
        type: `dev.doorbuster.campaign.${event}.v1`,
        no: 7,
        reservation: null,
        once: '5-1 7 q',
        atMs: 5,
        trace: '',
        data: { before, status },
      },
    ]);
  });
}

test('a change that no script makes is an error, not an event', () => {
  expect(() => change('open', 'draft')).toThrow('makes a draft');
});

test('joining and leaving the line tell nothing', () => {
  const line = {
    reservation: 'r',
    user: 'ann',
    order: '',
    qty: 1,
    lineNo: 1,
    code: null,
    key: '',
    answer: '',
    device: '',
    trace: '',
  };
  expect(
    eventsOf([
      { ...base, kind: 'queued', ...line },
      { ...base, kind: 'left', ending: 'left', reason: '', user: 'ann', lineNo: 1, trace: '' },
    ]),
  ).toEqual([]);
});

test('a saved promise tells what its entry would have told, at the time of its journal id', () => {
  const reservation = '01a1fc6d-483b-7a4a-9e25-913b0000000c';
  const told = (kind: 'redeemed' | 'released' | 'expired') =>
    eventsOfPromise({ kind, reservation, journalId: '1234-5' }).map(({ type, no, atMs, once }) => [
      type,
      no,
      atMs,
      once,
    ]);
  for (const kind of ['redeemed', 'released', 'expired'] as const) {
    expect(told(kind)).toEqual([[`dev.doorbuster.redemption.${kind}.v1`, 12, 1234, reservation]]);
  }
  expect(eventsOfPromise({ kind: 'refunded', reservation, burned: true, journalId: '1-1' })).toMatchObject([
    { type: 'dev.doorbuster.redemption.refunded.v1', data: { burned: true } },
  ]);
});
