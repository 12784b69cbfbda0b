import { expect, test } from '@jest/globals';
import type { CampaignStatus } from '../domain/campaign.js';
import { eventsOf, rejectedEvent } from './events-of-entries.js';

const base = { journalId: '5-1', no: 7, atMs: 5 };
const change = (before: CampaignStatus, status: CampaignStatus, actor = 'olga') =>
  eventsOf([{ ...base, kind: 'status', action: 'any', before, status, actor, request: 'q', reason: 'secret' }]);

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
  test(`from ${before} to ${status} is ${event}, without the name of the operator`, () => {
    expect(change(before, status)).toEqual([
      {
        type: `dev.doorbuster.campaign.${event}.v1`,
        no: 7,
        reservation: null,
        once: '5-1 7 q',
        atMs: 5,
        trace: '',
        data: { before, status, ...(status === 'paused' ? { actor: 'operator', reason: null } : {}) },
      },
    ]);
  });
}

test('the event of a pause by the watch over velocity has its numbers', () => {
  expect(change('open', 'paused', 'velocity')).toMatchObject([{ data: { actor: 'velocity', reason: 'secret' } }]);
});

test('a change that no script makes is an error, not an event', () => {
  expect(() => change('open', 'draft')).toThrow('makes a draft');
});

test('joining and leaving the line make no events', () => {
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
    stacking: null,
  };
  expect(
    eventsOf([
      { ...base, kind: 'queued', ...line },
      { ...base, kind: 'left', ending: 'left', reason: '', user: 'ann', lineNo: 1, trace: '' },
    ]),
  ).toEqual([]);
});

test('the event of a rejected change names its reservation and the reason', () => {
  const fields = { kind: 'redeemed', no: '12', reservation: 'r-1', user: 'ann' };
  expect(rejectedEvent({ journalId: '1234-5', fields }, 'the reservation is voided')).toMatchObject({
    type: 'dev.doorbuster.campaign.change_rejected.v1',
    no: 12,
    reservation: null,
    data: {
      journal_id: '1234-5',
      kind: 'redeemed',
      rejected_reservation_id: 'r-1',
      reason: 'the reservation is voided',
    },
  });
});
