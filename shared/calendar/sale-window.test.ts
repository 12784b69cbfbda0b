import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isMoment, isTimeZone, localTime, momentOf, type WindowEdge } from './sale-window.js';

const LOS_ANGELES = 'America/Los_Angeles';
const SAO_PAULO = 'America/Sao_Paulo';
const JAKARTA = 'Asia/Jakarta';
const utc = (text: string, zone: string, edge: WindowEdge) => momentOf(text, zone, edge)?.toISOString() ?? null;

describe('a day in the zone of the campaign', () => {
  const table: [string, string, string, string, string][] = [
    ['is a day of UTC', 'UTC', '2026-12-12', '2026-12-12T00:00:00.000Z', '2026-12-13T00:00:00.000Z'],
    [
      'begins seven hours earlier in Jakarta',
      JAKARTA,
      '2026-12-12',
      '2026-12-11T17:00:00.000Z',
      '2026-12-12T17:00:00.000Z',
    ],
    ['is the leap day', JAKARTA, '2028-02-29', '2028-02-28T17:00:00.000Z', '2028-02-29T17:00:00.000Z'],
    ['ends in another year', JAKARTA, '2026-12-31', '2026-12-30T17:00:00.000Z', '2026-12-31T17:00:00.000Z'],
    ['has 23 hours in spring', LOS_ANGELES, '2026-03-08', '2026-03-08T08:00:00.000Z', '2026-03-09T07:00:00.000Z'],
    ['has 25 hours in autumn', LOS_ANGELES, '2026-11-01', '2026-11-01T07:00:00.000Z', '2026-11-02T08:00:00.000Z'],
    [
      'begins at one where midnight is skipped',
      SAO_PAULO,
      '2018-11-04',
      '2018-11-04T03:00:00.000Z',
      '2018-11-05T02:00:00.000Z',
    ],
    [
      'ends at the skip, the day before',
      SAO_PAULO,
      '2018-11-03',
      '2018-11-03T03:00:00.000Z',
      '2018-11-04T03:00:00.000Z',
    ],
    [
      'ends at the second midnight hour',
      SAO_PAULO,
      '2018-02-17',
      '2018-02-17T02:00:00.000Z',
      '2018-02-18T03:00:00.000Z',
    ],
    [
      'is empty where it never was',
      'Pacific/Apia',
      '2011-12-30',
      '2011-12-30T10:00:00.000Z',
      '2011-12-30T10:00:00.000Z',
    ],
  ];
  for (const [what, zone, day, start, end] of table) {
    test(what, () => expect([utc(day, zone, 'start'), utc(day, zone, 'end')]).toEqual([start, end]));
  }
});

describe('a local time', () => {
  const table: [string, string, string, string, string][] = [
    ['is that of the zone', JAKARTA, '2026-12-12T20:00', '2026-12-12T13:00:00.000Z', '2026-12-12T13:00:00.000Z'],
    ['may have seconds', JAKARTA, '2026-12-12T20:00:01.5', '2026-12-12T13:00:01.500Z', '2026-12-12T13:00:01.500Z'],
    [
      'that is skipped is the moment of the skip',
      LOS_ANGELES,
      '2026-03-08T02:30',
      '2026-03-08T10:00:00.000Z',
      '2026-03-08T10:00:00.000Z',
    ],
    [
      'just before the skip',
      LOS_ANGELES,
      '2026-03-08T01:59:59',
      '2026-03-08T09:59:59.000Z',
      '2026-03-08T09:59:59.000Z',
    ],
    ['just after the skip', LOS_ANGELES, '2026-03-08T03:00', '2026-03-08T10:00:00.000Z', '2026-03-08T10:00:00.000Z'],
    [
      'that comes twice begins first and ends second',
      LOS_ANGELES,
      '2026-11-01T01:30',
      '2026-11-01T08:30:00.000Z',
      '2026-11-01T09:30:00.000Z',
    ],
    [
      'when the clocks have gone back comes once',
      LOS_ANGELES,
      '2026-11-01T02:00',
      '2026-11-01T10:00:00.000Z',
      '2026-11-01T10:00:00.000Z',
    ],
    [
      'in a midnight that is skipped',
      SAO_PAULO,
      '2018-11-04T00:30',
      '2018-11-04T03:00:00.000Z',
      '2018-11-04T03:00:00.000Z',
    ],
  ];
  for (const [what, zone, time, start, end] of table) {
    test(what, () => expect([utc(time, zone, 'start'), utc(time, zone, 'end')]).toEqual([start, end]));
  }
});

test('a time with an offset is the same moment in every zone', () => {
  for (const zone of ['UTC', LOS_ANGELES, JAKARTA]) {
    expect(utc('2026-03-08T02:30:00+09:00', zone, 'end')).toBe('2026-03-07T17:30:00.000Z');
    expect(utc('2026-03-08T02:30:00.123Z', zone, 'start')).toBe('2026-03-08T02:30:00.123Z');
  }
});

for (const [season, midnight, utcMidnight] of [
  ['spring', '2026-03-08T00:00Z', '2026-03-08T08:00Z'],
  ['autumn', '2026-11-01T00:00Z', '2026-11-01T07:00Z'],
] as const) {
  test(`a sale of a ${season} night is on whenever the clock on the wall is between its start and its end`, () => {
    const minutes = fc.integer({ min: 0, max: 300 });
    const after = (time: string, count: number) => new Date(Date.parse(time) + count * 60_000);
    const onTheWall = (count: number) => after(midnight, count).toISOString().slice(0, 16);
    fc.assert(
      fc.property(minutes, minutes, minutes, (a, b, passed) => {
        const [start, end] = [onTheWall(Math.min(a, b)), onTheWall(Math.max(a, b))];
        const now = after(utcMidnight, passed);
        const shown = localTime(now, LOS_ANGELES).slice(0, 16);
        const begun = now >= (momentOf(start, LOS_ANGELES, 'start') as Date);
        const over = now >= (momentOf(end, LOS_ANGELES, 'end') as Date);
        if (shown >= start && shown < end) expect([begun, over]).toEqual([true, false]);
        if (shown < start) expect(begun && !over && season === 'spring').toBe(false);
        if (over) expect(shown >= end).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
}

test('rejects texts that are not times, days that do not exist, and times that cannot be stored', () => {
  for (const text of [
    '',
    'now',
    '1719000030',
    '20261212',
    '2026-12',
    '2026-13-01',
    '2026-02-29',
    '2026-12-12 20:00',
    '2026-12-12T24:00',
    '2026-12-12T20:60',
    '2026-12-12T20',
    '2026-12-12T20:00[Asia/Jakarta]',
    '2026-12-12T20:00:00Z[u-ca=hebrew]',
    '2026-12-12Z',
    '+002026-12-12',
    '2026-02-30T00:00:00Z',
    '1970-01-01',
    '1969-12-31T23:59:59Z',
    '9999-01-01',
    '9999-12-31T23:59:59-23:59',
  ]) {
    expect([text, isMoment(text), utc(text, 'UTC', 'start')]).toEqual([text, false, null]);
  }
});

test('rejects a last day whose end cannot be stored', () => {
  expect([utc('9998-12-31', 'UTC', 'start'), utc('9998-12-31', 'UTC', 'end')]).toEqual([
    '9998-12-31T00:00:00.000Z',
    null,
  ]);
});

test('formats the local time of a zone with its offset at that moment', () => {
  const end = new Date('2026-11-01T08:30:00Z');
  expect(localTime(end, LOS_ANGELES)).toBe('2026-11-01T01:30:00.000-07:00');
  expect(localTime(new Date(end.getTime() + 3_600_000), LOS_ANGELES)).toBe('2026-11-01T01:30:00.000-08:00');
  expect(localTime(end, 'Asia/Tokyo')).toBe('2026-11-01T17:30:00.000+09:00');
  expect(localTime(end, 'UTC')).toBe('2026-11-01T08:30:00.000+00:00');
});

test('a shopper in Tokyo gets the end of a sale in Los Angeles, not of their own day', () => {
  const end = momentOf('2026-12-24', LOS_ANGELES, 'end') as Date;
  expect(end.toISOString()).toBe('2026-12-25T08:00:00.000Z');
  expect(localTime(end, LOS_ANGELES)).toBe('2026-12-25T00:00:00.000-08:00');
  const late = new Date('2026-12-25T16:59:59+09:00');
  expect([late < end, new Date('2026-12-25T17:00:00+09:00') < end]).toEqual([true, false]);
});

test('accepts the time zones of the world, and no offsets', () => {
  for (const zone of ['UTC', LOS_ANGELES, JAKARTA, 'Etc/GMT+7', 'asia/jakarta', 'Europe/Kyiv'])
    expect([zone, isTimeZone(zone)]).toEqual([zone, true]);
  for (const zone of [
    '',
    'Mars/Olympus',
    '+07:00',
    '-08',
    'Z2',
    'local',
    'America/Los_Angeles[u-ca=iso8601]',
    '2026-12-12T00:00Z',
    '\ud800',
  ])
    expect([zone, isTimeZone(zone)]).toEqual([zone, false]);
});
