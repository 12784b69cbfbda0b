import { expect, test } from '@jest/globals';
import { LINE_REASONS } from '../../shared/domain/reservation.js';
import type { CampaignNow, LineNow, Overview } from './overview.js';
import {
  count,
  duration,
  outageText,
  pauseOf,
  rate,
  reasonText,
  seconds,
  sharesOf,
  stateOf,
  stockText,
  worryOf,
} from './words.js';

const NOW = '2026-11-21T12:00:00.000Z';
const campaign = (fields: Partial<CampaignNow> = {}): CampaignNow => ({
  id: '01a1fd74-6d3c-7ad3-9e5a-3410cf6cb1c5',
  product_id: 'midnight',
  name: 'Midnight sale',
  type: 'shared',
  status: 'open',
  starts_at: '2026-11-21T11:00:00.000Z',
  ends_at: null,
  pause: null,
  codes: 0,
  hidden: false,
  in_redis: true,
  total: 200,
  free: 20,
  held: 30,
  redeemed: 140,
  burned: 10,
  waiting: 0,
  persisted: 180,
  drift: 0,
  confirmed_per_second: 0,
  ...fields,
});
const line = (fields: Partial<LineNow> = {}): LineNow => ({
  waiting: 2,
  free: 0,
  reason: 'nothing_free',
  head: [],
  ...fields,
});
const overview = (fields: Partial<Overview> = {}): Overview => ({
  time: NOW,
  journal_backlog: 0,
  oldest_unpersisted_seconds: 0,
  workers: ['worker-1'],
  switched_off: [],
  queues: {},
  campaigns: [],
  totals: null,
  next: null,
  terms: null,
  line: null,
  ...fields,
});

test('formats numbers so that their length shows how large they are', () => {
  expect([count(1_234_567), count(0), count(null)]).toEqual(['1,234,567', '0', '∞']);
  expect([rate(0), rate(3.14), rate(99.96), rate(1_234.5)]).toEqual(['0.0', '3.1', '100.0', '1,235']);
  expect([seconds(0), seconds(0.042), seconds(12.34), seconds(250)]).toEqual(['0 ms', '42 ms', '12.3 s', '4 min 10 s']);
  expect([0, 999, 59_000, 3_600_000, 7_500_000, 90_000_000].map(duration)).toEqual([
    '0 s',
    '1 s',
    '59 s',
    '1 h',
    '2 h 5 min',
    '1 d 1 h',
  ]);
});

test('shows the state by the clock, as scripts do, not the stored status', () => {
  expect(stateOf(campaign(), NOW).word).toBe('Open');
  expect(stateOf(campaign({ status: 'scheduled' }), NOW).word).toBe('Open');
  expect(stateOf(campaign({ status: 'scheduled', starts_at: '2026-11-21T12:00:01.000Z' }), NOW).word).toBe('Scheduled');
  expect(stateOf(campaign({ ends_at: NOW }), NOW).word).toBe('Ended');
  expect(stateOf(campaign({ ends_at: NOW, status: 'paused' }), NOW).word).toBe('Ended');
  for (const [status, word] of [
    ['paused', 'Paused'],
    ['draft', 'Draft'],
    ['closed', 'Closed'],
  ] as const)
    expect(stateOf(campaign({ status }), NOW).word).toBe(word);
});

test('has a text for every reason that the service may report', () => {
  const texts = LINE_REASONS.map((reason) => reasonText(line({ reason })));
  expect(texts.filter((text) => text.startsWith('The service reports'))).toEqual([]);
  expect(new Set(texts).size).toBe(LINE_REASONS.length);
  expect(reasonText(line({ reason: 'a_new_one' }))).toBe('The service reports: a_new_one.');
});

test('explains how many units the first user wants and how many are free', () => {
  const head = [{ position: 1, user_id: 'ann', qty: 3, since: NOW }];
  expect(reasonText(line({ reason: 'head_wants_more', free: 1, head }))).toMatch(/wants 3 units and only 1 is free/);
  expect(reasonText(line({ reason: 'head_wants_more', free: 2, head }))).toMatch(/wants 3 units and only 2 are free/);
});

test('reports a missing worker first, then a Postgres that is behind, else nothing', () => {
  expect(worryOf(overview())).toBe('');
  expect(worryOf(overview({ oldest_unpersisted_seconds: 10 }))).toBe('');
  expect(worryOf(overview({ oldest_unpersisted_seconds: 95, journal_backlog: 1_200 }))).toMatch(
    /95\.0 s behind, with 1,200 entries/,
  );
  expect(worryOf(overview({ switched_off: ['positions', 'status'] }))).toBe(
    'An API or Redis is near its limit: positions are sent every ten seconds, shoppers poll less often. Checkouts go on. ' +
      'Start more APIs, or look at Redis.',
  );
  expect(worryOf(overview({ workers: [], oldest_unpersisted_seconds: 95 }))).toMatch(/^No worker is alive/);
});

test('names the engine that is away in an outage', () => {
  const checks = { redis: { ok: true, detail: 'answers' }, postgres: { ok: false, detail: 'does not answer' } };
  expect(outageText({ checks })).toBe(
    'The service is not available at the moment: postgres does not answer. Trying again…',
  );
  expect(outageText(null)).toBe('The service is not available at the moment. Trying again…');
});

test('the bar shows the whole stock, and is missing without a total', () => {
  expect(sharesOf(campaign())).toEqual({ redeemed: 70, held: 15, burned: 5, free: 10 });
  expect(sharesOf(campaign({ total: null, free: null }))).toBeNull();
  expect(sharesOf(campaign({ total: 0, free: 0 }))).toBeNull();
  expect(stockText(campaign())).toBe('140 redeemed, 30 held, 10 burned and 20 free of 200');
  expect(stockText(campaign({ total: null }))).toBe('No limit; 30 held, 140 redeemed');
});

test('shows who paused a campaign, and why', () => {
  const at = '2026-11-21T11:30:00.000Z';
  const paused = (pause: CampaignNow['pause']) => pauseOf(campaign({ status: 'paused', pause }));
  expect(paused({ by: 'velocity', at, reason: '90 units in a minute' })).toMatch(
    /^Paused automatically at .+: 90 units in a minute\. Resume it/,
  );
  expect(paused({ by: 'olga', at, reason: null })).toMatch(/^Paused by olga at [^:]+:\d\d\. Resume it/);
  expect([paused(null), pauseOf(campaign({ pause: { by: 'olga', at, reason: null } }))]).toEqual([null, null]);
});
