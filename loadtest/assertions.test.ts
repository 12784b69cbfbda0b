import { expect, test } from '@jest/globals';
import { findFailures } from './assertions.mjs';
import { outcomeOf, Tally } from './tally.mjs';
import { type CampaignVerdict, comparePromises } from './verdict.mjs';

const ANSWERS = { checkout: ['200 completed', '202 queued'] };
const FINE: CampaignVerdict = {
  product: 'p',
  ledger: { confirmed: 1, persisted: 1, lost: 0, duplicated: 0, over_cap: 0, drift: 0 },
  told: { promises: 1, missing: 0, another: 0, voided: 0, twice: 0 },
};

/** The failures of a run in which one checkout succeeded before `happens`. */
function failuresAfter(
  happens: (tally: Tally) => void,
  verdict: CampaignVerdict = FINE,
  checks: boolean[] = [],
): string[] {
  const tally = new Tally();
  tally.sent('checkout');
  tally.answered('checkout', '200 completed', 5);
  happens(tally);
  const all = checks.map((holds, i) => ({ what: `check ${i}`, holds, found: i }));
  return findFailures({ answers: ANSWERS, tally, checks: all, verdicts: [verdict] });
}

const nothing = () => {};

test('findFailures passes a run in which every response is allowed', () => {
  expect(failuresAfter(nothing, FINE, [true])).toEqual([]);
});

test('findFailures reports one request without a response', () => {
  const failures = failuresAfter((tally) => {
    tally.sent('checkout');
    tally.broken('checkout', 'ECONNRESET');
  });
  expect(failures).toEqual(['checkout: 1 of 2 got no answer (1 × ECONNRESET)']);
});

test('findFailures reports one 5xx and one response that the scenario does not allow', () => {
  const answeredWith = (outcome: string) =>
    failuresAfter((tally) => {
      tally.sent('checkout');
      tally.answered('checkout', outcome, 5);
    });
  expect(answeredWith('503 temporarily_unavailable')).toEqual([
    'checkout: 1 × 503 temporarily_unavailable, answered with a server error',
  ]);
  expect(answeredWith('429 rate_limited').length).toBe(1);
  expect(answeredWith('202 queued')).toEqual([]);
});

test('findFailures reports a request for which the scenario lists no responses', () => {
  const failures = failuresAfter((tally) => {
    tally.sent('forgotten');
    tally.answered('forgotten', '200', 5);
  });
  expect(failures.length).toBe(1);
});

test('findFailures reports a fault and a check that does not hold', () => {
  expect(failuresAfter((tally) => tally.fault('two units for one')).length).toBe(1);
  expect(failuresAfter(nothing, FINE, [true, false])).toEqual(['not so: check 1; found 1']);
});

test('findFailures reports a run without requests', () => {
  expect(findFailures({ answers: ANSWERS, tally: new Tally(), checks: [], verdicts: [FINE] })).toEqual([
    'nothing was tried',
  ]);
});

for (const what of ['lost', 'duplicated', 'over_cap', 'drift'] as const) {
  test(`findFailures reports one ${what} of the ledger`, () => {
    expect(failuresAfter(nothing, { ...FINE, ledger: { ...FINE.ledger, [what]: 1 } }).length).toBe(1);
  });
}

for (const what of ['missing', 'another', 'voided', 'twice'] as const) {
  test(`findFailures reports one promise that is ${what}`, () => {
    expect(failuresAfter(nothing, { ...FINE, told: { ...FINE.told, [what]: 1 } }).length).toBe(1);
  });
}

test('comparePromises counts promises without a row, with the row of another user, voided, or made to two users', () => {
  const rows = new Map([
    ['r1', { user: 'a', status: 'reserved' }],
    ['r2', { user: 'b', status: 'voided' }],
    ['r3', { user: 'c', status: 'redeemed' }],
  ]);
  const compare = (...promises: [string, string][]) =>
    comparePromises(
      promises.map(([user, reservation]) => ({ user, reservation })),
      rows,
    );
  expect(compare(['a', 'r1'], ['a', 'r1'], ['c', 'r3'])).toEqual({
    promises: 3,
    missing: 0,
    another: 0,
    voided: 0,
    twice: 0,
  });
  expect(compare(['a', 'r4'])).toMatchObject({ missing: 1 });
  expect(compare(['b', 'r2'])).toMatchObject({ voided: 1 });
  expect(compare(['a', 'r1'], ['d', 'r1'])).toMatchObject({ another: 1, twice: 1 });
});

test('outcomeOf shortens a response to its HTTP status and its status or code', () => {
  expect(outcomeOf(202, { data: { status: 'queued' } })).toBe('202 queued');
  expect(outcomeOf(410, { code: 'sold_out', status: 410 })).toBe('410 sold_out');
  expect(outcomeOf(200, { data: { valid: true } })).toBe('200');
  expect(outcomeOf(502, null)).toBe('502');
});
