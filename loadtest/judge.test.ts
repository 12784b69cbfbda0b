import { expect, test } from '@jest/globals';
import { judge } from './judge.mjs';
import { outcomeOf, Tally } from './tally.mjs';
import { type CampaignVerdict, compareTold } from './verdict.mjs';

const ANSWERS = { checkout: ['200 completed', '202 queued'] };
const FINE: CampaignVerdict = {
  product: 'p',
  ledger: { confirmed: 1, persisted: 1, lost: 0, duplicated: 0, over_cap: 0, drift: 0 },
  told: { promises: 1, missing: 0, another: 0, voided: 0, twice: 0 },
};

/** What a run fails for in which one checkout went well, and then something happened. */
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
  return judge({ answers: ANSWERS, tally, checks: all, verdicts: [verdict] });
}

const nothing = () => {};

test('a run in which everybody was answered as he should be passes', () => {
  expect(failuresAfter(nothing, FINE, [true])).toEqual([]);
});

test('one person without an answer fails it', () => {
  const failures = failuresAfter((tally) => {
    tally.sent('checkout');
    tally.broken('checkout', 'ECONNRESET');
  });
  expect(failures).toEqual(['checkout: 1 of 2 got no answer (1 × ECONNRESET)']);
});

test('one 5xx fails it, and so does an answer that nobody should have been told', () => {
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

test('a request that no answers are known for fails it', () => {
  const failures = failuresAfter((tally) => {
    tally.sent('forgotten');
    tally.answered('forgotten', '200', 5);
  });
  expect(failures.length).toBe(1);
});

test('a fault, and a check that does not hold, fail it', () => {
  expect(failuresAfter((tally) => tally.fault('two units for one')).length).toBe(1);
  expect(failuresAfter(nothing, FINE, [true, false])).toEqual(['not so: check 1; found 1']);
});

test('a run in which nothing was tried fails', () => {
  expect(judge({ answers: ANSWERS, tally: new Tally(), checks: [], verdicts: [FINE] })).toEqual(['nothing was tried']);
});

for (const what of ['lost', 'duplicated', 'over_cap', 'drift'] as const) {
  test(`one ${what} in the ledger fails it`, () => {
    expect(failuresAfter(nothing, { ...FINE, ledger: { ...FINE.ledger, [what]: 1 } }).length).toBe(1);
  });
}

for (const what of ['missing', 'another', 'voided', 'twice'] as const) {
  test(`one promise that is ${what} fails it`, () => {
    expect(failuresAfter(nothing, { ...FINE, told: { ...FINE.told, [what]: 1 } }).length).toBe(1);
  });
}

test('promises are held against their rows: none is missing, of another, voided, or told to two people', () => {
  const rows = new Map([
    ['r1', { user: 'a', status: 'reserved' }],
    ['r2', { user: 'b', status: 'voided' }],
    ['r3', { user: 'c', status: 'redeemed' }],
  ]);
  const told = (...promises: [string, string][]) =>
    compareTold(
      promises.map(([user, reservation]) => ({ user, reservation })),
      rows,
    );
  expect(told(['a', 'r1'], ['a', 'r1'], ['c', 'r3'])).toEqual({
    promises: 3,
    missing: 0,
    another: 0,
    voided: 0,
    twice: 0,
  });
  expect(told(['a', 'r4'])).toMatchObject({ missing: 1 });
  expect(told(['b', 'r2'])).toMatchObject({ voided: 1 });
  expect(told(['a', 'r1'], ['d', 'r1'])).toMatchObject({ another: 1, twice: 1 });
});

test('an answer is told in short by its status and the standing or the code in it', () => {
  expect(outcomeOf(202, { data: { status: 'queued' } })).toBe('202 queued');
  expect(outcomeOf(410, { code: 'sold_out', status: 410 })).toBe('410 sold_out');
  expect(outcomeOf(200, { data: { valid: true } })).toBe('200');
  expect(outcomeOf(502, null)).toBe('502');
});
