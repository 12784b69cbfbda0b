import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { AUDIENCE_LIMITS, type AudienceRule, matchesAudience, readAudience, storedAudience } from './audience.js';

const matches = (rule: unknown, attributes: Record<string, unknown>): boolean => {
  const { rule: read, problems } = readAudience(rule);
  if (!read) throw new Error(JSON.stringify(problems));
  return matchesAudience(read, attributes);
};
const where = (rule: unknown) => (readAudience(rule).problems ?? []).map(({ path }) => `#/${path.join('/')}`);

describe('a condition', () => {
  const table: [string, unknown, unknown, boolean][] = [
    ['eq, the same text', { eq: 'gold' }, 'gold', true],
    ['eq, another text', { eq: 'gold' }, 'Gold', false],
    ['eq, a number for its text', { eq: '1' }, 1, false],
    ['eq, true for its text', { eq: true }, 'true', false],
    ['eq, a list with it', { eq: 'gold' }, ['gold'], false],
    ['in, one of them', { in: ['ID', 'SG', 3] }, 3, true],
    ['in, none of them', { in: ['ID', 'SG'] }, 'US', false],
    ['contains, a list that has it', { contains: 'vip' }, ['new', 'vip'], true],
    ['contains, a list that has not', { contains: 'vip' }, ['new', ['vip']], false],
    ['contains, a text that has it', { contains: 'vip' }, 'a vip', false],
    ['gte, the same', { gte: 18 }, 18, true],
    ['gt, the same', { gt: 18 }, 18, false],
    ['lt, the same', { lt: 18 }, 18, false],
    ['lte, the same', { lte: 18 }, 18, true],
    ['lt, below', { lt: 18 }, 17.5, true],
    ['gt, above', { gt: 18 }, 19, true],
    ['gt, a number as text', { gt: 18 }, '19', false],
    ['a range, inside', { gte: 18, lt: 65 }, 64, true],
    ['a range, outside', { gte: 18, lt: 65 }, 65, false],
    ['a date, before', { lt: '2026-01-31' }, '2026-01-30T23:59:59.999Z', true],
    ['a date, the same moment in another zone', { lte: '2026-01-31T00:00:00Z' }, '2026-01-31T07:00:00+07:00', true],
    ['a date, a millisecond later', { lte: '2026-01-31T00:00:00Z' }, '2026-01-31T07:00:00.001+07:00', false],
    ['a date, an offset west of Greenwich', { gt: '2026-01-31T06:00:00Z' }, '2026-01-31T00:00:00-07:00', true],
    ['a date, a text that is none', { lt: '2026-01-31' }, '2025', false],
    ['a date, a day that no year has', { lt: '2026-12-31' }, '2026-02-30', false],
    ['a date, the year 99', { lt: '0100-01-01' }, '0099-12-31', true],
    ['a date, a number', { lt: '2026-01-31' }, 0, false],
    ['exists, there', { exists: true }, false, true],
    ['exists, null', { exists: true }, null, false],
    ['exists not, there', { exists: false }, 0, false],
    ['exists not, null', { exists: false }, null, true],
    ['eq, something nested', { eq: 1 }, { eq: 1 }, false],
  ];
  for (const [what, tests, value, expected] of table) {
    test(what, () => expect(matches({ attribute: 'a', ...(tests as object) }, { a: value })).toBe(expected));
  }

  test('on a missing attribute does not match, whatever the test', () => {
    for (const tests of [
      { eq: 'x' },
      { in: ['x'] },
      { contains: 'x' },
      { lt: 1 },
      { gt: '2026-01-31' },
      { exists: true },
    ])
      expect([tests, matches({ attribute: 'a', ...tests }, {})]).toEqual([tests, false]);
    expect(matches({ attribute: 'a', exists: false }, {})).toBe(true);
  });

  test('on a name like `constructor` reads own members only', () => {
    for (const attribute of ['constructor', '__proto__', 'toString', 'hasOwnProperty'])
      expect([attribute, matches({ attribute, exists: true }, {})]).toEqual([attribute, false]);
    expect(matches({ attribute: '__proto__', eq: 'x' }, JSON.parse('{"__proto__":"x"}'))).toBe(true);
  });
});

test('evaluates and, or and not', () => {
  const gold = { attribute: 'tier', eq: 'gold' };
  const local = { attribute: 'country', in: ['ID', 'SG'] };
  const table: [unknown, Record<string, unknown>, boolean][] = [
    [{ and: [gold, local] }, { tier: 'gold', country: 'ID' }, true],
    [{ and: [gold, local] }, { tier: 'gold', country: 'US' }, false],
    [{ or: [gold, local] }, { tier: 'tin', country: 'SG' }, true],
    [{ or: [gold, local] }, { tier: 'tin', country: 'US' }, false],
    [{ not: gold }, { tier: 'tin' }, true],
    [{ not: gold }, {}, true],
    [{ not: { or: [gold, local] } }, { tier: 'gold' }, false],
  ];
  for (const [rule, attributes, expected] of table) expect(matches(rule, attributes)).toBe(expected);
});

describe('a rule is refused, with the place of the mistake, when', () => {
  const nested = (levels: number, inside: unknown = { attribute: 'a', eq: 1 }): unknown =>
    levels === 0 ? inside : { not: nested(levels - 1, inside) };
  const many = (count: number) => ({ or: Array.from({ length: count }, () => ({ attribute: 'a', eq: 1 })) });
  const table: [string, unknown, string[]][] = [
    ['it is none', 'gold', ['#/']],
    ['it is a list', [], ['#/']],
    ['it is null inside', { not: null }, ['#/not']],
    ['it says nothing', {}, ['#/attribute', '#/']],
    ['it asks nothing of an attribute', { attribute: 'a' }, ['#/']],
    ['it has a word that nobody knows', { attribute: 'a', equals: 1 }, ['#/equals']],
    ['two connectives stand together', { and: [{ attribute: 'a', eq: 1 }], or: [] }, ['#/or']],
    ['an attribute stands beside a connective', { not: { attribute: 'a', eq: 1 }, attribute: 'a' }, ['#/attribute']],
    ['there is nothing to connect', { and: [] }, ['#/and']],
    ['the parts are no list', { or: { attribute: 'a', eq: 1 } }, ['#/or']],
    [
      'a mistake lies deep',
      { and: [{ attribute: 'a', eq: 1 }, { not: { attribute: 'b', eq: [] } }] },
      ['#/and/1/not/eq'],
    ],
    ['a name is empty', { attribute: '', eq: 1 }, ['#/attribute']],
    ['a name is long', { attribute: 'a'.repeat(65), eq: 1 }, ['#/attribute']],
    ['a name cannot be stored', { attribute: 'a\0', eq: 1 }, ['#/attribute']],
    ['a text is long', { attribute: 'a', eq: 'x'.repeat(257) }, ['#/eq']],
    ['a text cannot be stored', { attribute: 'a', eq: '\ud800' }, ['#/eq']],
    ['a number is none', { attribute: 'a', eq: Number.POSITIVE_INFINITY }, ['#/eq']],
    ['it compares with null', { attribute: 'a', eq: null }, ['#/eq']],
    ['a set is empty', { attribute: 'a', in: [] }, ['#/in']],
    ['a set is large', { attribute: 'a', in: Array.from({ length: 201 }, (_, index) => index) }, ['#/in']],
    ['a set has a list in it', { attribute: 'a', in: [[1]] }, ['#/in']],
    ['a bound is a word', { attribute: 'a', lt: 'soon' }, ['#/lt']],
    ['a bound has no offset', { attribute: 'a', lt: '2026-01-31T00:00:00' }, ['#/lt']],
    ['a bound has the 25th hour', { attribute: 'a', lt: '2026-01-31T24:00:00Z' }, ['#/lt']],
    ['exists is asked for with a word', { attribute: 'a', exists: 'yes' }, ['#/exists']],
    ['it is nested too deep', nested(AUDIENCE_LIMITS.depth), [`#${'/not'.repeat(AUDIENCE_LIMITS.depth)}`]],
    ['it has too many parts', many(AUDIENCE_LIMITS.nodes), [`#/or/${AUDIENCE_LIMITS.nodes - 1}`]],
    ['its words are inherited ones', { constructor: 1 }, ['#/attribute', '#/constructor']],
  ];
  for (const [what, rule, places] of table) test(what, () => expect(where(rule)).toEqual(places));

  test('one level less, or one part less, is taken', () => {
    expect(where(nested(AUDIENCE_LIMITS.depth - 1))).toEqual([]);
    expect(where(many(AUDIENCE_LIMITS.nodes - 1))).toEqual([]);
    expect(where({ attribute: 'a', in: Array.from({ length: 200 }, (_, index) => index) })).toEqual([]);
  });

  test('it has thousands of parts, of which only the first are looked at', () => {
    expect(where({ or: Array(5_000).fill(null) }).length).toBe(AUDIENCE_LIMITS.nodes);
  });

  test('it is nested a hundred thousand levels deep', () => {
    let rule: unknown = { attribute: 'a', eq: 1 };
    for (let level = 0; level < 100_000; level += 1) rule = level % 2 ? { not: rule } : { and: [rule] };
    expect(where(rule).length).toBe(1);
  });
});

test('admits no user by a stored rule that cannot be read, and every user without a rule', () => {
  expect(storedAudience(null)).toBeNull();
  expect(storedAudience(undefined)).toBeNull();
  expect(matchesAudience(storedAudience({ not: { tier: ['gold'] } }) as AudienceRule, { tier: 'tin' })).toBe(false);
  expect(storedAudience({ attribute: 'a', eq: 1 })).toEqual({ attribute: 'a', eq: 1 });
});

const names = fc.constantFrom('a', 'b', 'c', '__proto__');
const scalars = fc.oneof(
  fc.constantFrom('x', 'y', 0, 1, 2, true, false),
  fc.constantFrom('2026-01-31', '2026-02-01T00:00:00Z'),
);
const conditions = fc.oneof(
  fc.record({ attribute: names, eq: scalars }),
  fc.record({ attribute: names, in: fc.array(scalars, { minLength: 1, maxLength: 3 }) }),
  fc.record({ attribute: names, contains: scalars }),
  fc.record({ attribute: names, gt: fc.integer({ min: -1, max: 2 }), lte: fc.integer({ min: 0, max: 3 }) }),
  fc.record({ attribute: names, exists: fc.boolean() }),
);
const { rule: rules } = fc.letrec<{ rule: AudienceRule }>((tie) => ({
  rule: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    conditions as fc.Arbitrary<AudienceRule>,
    fc.record({ and: fc.array(tie('rule'), { minLength: 1, maxLength: 3 }) }),
    fc.record({ or: fc.array(tie('rule'), { minLength: 1, maxLength: 3 }) }),
    fc.record({ not: tie('rule') }),
  ),
}));
const attributes = fc.dictionary(names, fc.oneof(scalars, fc.array(scalars, { maxLength: 3 }), fc.constant(null)));

test('obeys the laws of logic', () => {
  fc.assert(
    fc.property(fc.array(rules, { minLength: 1, maxLength: 4 }), attributes, (parts, person) => {
      const each = parts.map((part) => matchesAudience(part, person));
      expect(matchesAudience({ and: parts }, person)).toBe(!each.includes(false));
      expect(matchesAudience({ or: parts }, person)).toBe(each.includes(true));
      expect(matchesAudience({ not: { or: parts } }, person)).toBe(
        matchesAudience({ and: parts.map((part) => ({ not: part })) }, person),
      );
      expect(matchesAudience({ not: { not: { and: parts } } }, person)).toBe(matchesAudience({ and: parts }, person));
    }),
  );
});

test('accepts every rule that is made of its words', () => {
  fc.assert(fc.property(rules, (rule) => expect(where(rule)).toEqual([])));
});

test('evaluates any rule on any attributes that JSON can express', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.dictionary(fc.string(), fc.jsonValue()), rules, (rule, person, good) => {
      const { rule: read } = readAudience(rule);
      if (read) expect(typeof matchesAudience(read, person)).toBe('boolean');
      expect(typeof matchesAudience(good, person)).toBe('boolean');
    }),
    { numRuns: 1_000 },
  );
});
