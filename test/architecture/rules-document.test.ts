import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { discount, stacking } from '../../api/admin/rules.contract.js';
import { isMoment } from '../../shared/calendar/sale-window.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { AUDIENCE_LIMITS, matchesAudience, readAudience } from '../../shared/domain/audience.js';
import { MAX_AMOUNT } from '../../shared/domain/money.js';
import { MAX_CODES, USUAL_PRIORITY } from '../../shared/domain/stacking.js';

/** docs/rules.md against the code: its examples and its numbers. */
const text = readFileSync(join(projectRoot(), 'docs/rules.md'), 'utf8');
const examples = [...text.matchAll(/^\| `(\{.*\})` \| `(\{.*\})` \| (yes|no) \|$/gm)];

test('the document has examples of every word of the language', () => {
  expect(examples.length).toBeGreaterThan(10);
  for (const word of ['and', 'or', 'not', 'eq', 'in', 'contains', 'exists', 'gt', 'gte', 'lt'])
    expect([word, examples.some(([, rule]) => rule?.includes(`"${word}":`))]).toEqual([word, true]);
});

for (const [, rule, attributes, expected] of examples) {
  test(`${rule} with ${attributes}: ${expected}`, () => {
    const { rule: read, problems } = readAudience(JSON.parse(String(rule)));
    expect(problems).toBeUndefined();
    expect(read && matchesAudience(read, JSON.parse(String(attributes)))).toBe(expected === 'yes');
  });
}

test('discounts, stacking and times are examples of themselves', () => {
  const discounts = [...text.matchAll(/^\| `(\{"kind".*?\})` /gm)].map(([, json]) => JSON.parse(String(json)));
  expect(discounts.map((example) => discount.parse(example))).toEqual(discounts);
  expect(discounts.map(({ kind }) => kind)).toEqual(['percent', 'amount', 'free_shipping']);
  const stack = JSON.parse(/`(\{"exclusive".*?\})`/.exec(text)?.[1] ?? '');
  expect(stacking.parse(stack)).toEqual({ exclusive: false, group: 'food', priority: USUAL_PRIORITY });
  const times = [...text.matchAll(/^\| `(2026-[^`]+)` /gm)].map(([, time]) => String(time));
  expect(times.map((time) => [time, isMoment(time)])).toEqual(times.map((time) => [time, true]));
  expect(times.length).toBe(3);
});

test('the numbers are those of the code', () => {
  const { depth, nodes, values, nameCharacters, textCharacters } = AUDIENCE_LIMITS;
  expect(text).toContain(
    `Limits: ${depth} levels, ${nodes} parts, ${values} values in a set, texts of ${textCharacters} characters.`,
  );
  expect(text).toContain(`names of ${nameCharacters} characters`);
  expect(text).toContain(MAX_AMOUNT.toLocaleString('en'));
  expect([MAX_CODES, text.includes('At most ten codes')]).toEqual([10, true]);
});
