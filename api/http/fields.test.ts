import { expect, test } from '@jest/globals';
import { attributes, cart, metadata, note } from './fields.js';

const takes = (schema: { safeParse(value: unknown): { success: boolean } }, value: unknown) =>
  schema.safeParse(value).success;

test('a cart has whole minor units of an existing currency', () => {
  for (const subtotal of [0, 1, 999_999_999_999_999]) expect(takes(cart, { subtotal, currency: 'IDR' })).toBe(true);
  expect(takes(cart, { subtotal: 1, currency: 'IDR', items: [{ sku: 'a' }, 7] })).toBe(true);
  for (const subtotal of [-1, 0.5, 1e15, 1e300, '1', null, undefined])
    expect([subtotal, takes(cart, { subtotal, currency: 'IDR' })]).toEqual([subtotal, false]);
  for (const currency of ['idr', 'XYZ', '', null, undefined])
    expect([currency, takes(cart, { subtotal: 1, currency })]).toEqual([currency, false]);
  expect(takes(cart, { subtotal: 1, currency: 'IDR', items: 'none' })).toBe(false);
});

test('attributes are a few members with short names, and nested values are ignored', () => {
  const deep = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
  expect(attributes.parse({ tier: 'gold', deep })).toEqual({ tier: 'gold', deep: expect.anything() });
  const members = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`a${index}`, 1]));
  expect([takes(attributes, members(100)), takes(attributes, members(101))]).toEqual([true, false]);
  expect([takes(attributes, { ['a'.repeat(64)]: 1 }), takes(attributes, { ['a'.repeat(65)]: 1 })]).toEqual([
    true,
    false,
  ]);
  for (const value of [null, [], 'gold', 7]) expect([value, takes(attributes, value)]).toEqual([value, false]);
});

test('attributes do not change what objects inherit', () => {
  const given = attributes.parse(JSON.parse('{"__proto__": {"tier": "gold"}, "constructor": 1}'));
  expect([Object.hasOwn(given, 'tier'), ({} as Record<string, unknown>).tier]).toEqual([false, undefined]);
});

test('a note has no unpaired surrogates, which Postgres would change', () => {
  expect([takes(note, 'Indomie 🍜'), takes(note, '\ud83c'), takes(note, 'a\0')]).toEqual([true, false, false]);
});

const members = (count: number, value: unknown) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`!${i}`, value]));

test.each([
  ['metadata', metadata, 20],
  ['attributes', attributes, 100],
] as const)('%s with too many members are refused before each member is checked', (_, schema, most) => {
  const { error } = schema.safeParse(members(1_000, 7));
  expect(error?.issues.map(({ message, path }) => [message, path])).toEqual([
    [`must have at most ${most} members`, []],
  ]);
});

test('metadata and attributes may be missing, and have as many members as are allowed', () => {
  expect(metadata.optional().safeParse(undefined).success).toBe(true);
  expect(attributes.default({}).parse(undefined)).toEqual({});
  expect(attributes.safeParse(members(100, 7)).success).toBe(true);
  expect(metadata.parse({ cart: 'c-1' })).toEqual({ cart: 'c-1' });
  for (const wrong of [null, [], 'a', 7]) expect(metadata.safeParse(wrong).success).toBe(false);
});
