import { expect, test } from '@jest/globals';
import type { Ban } from '../../../shared/domain/ban.js';
import { BanCache } from './ban-cache.js';

let made = 0;
const ban = (fields: Partial<Ban> = {}): Ban => {
  made += 1;
  const id = String(made);
  return { id, effect: 'ban', kind: 'user', subject: `user-${id}`, untilMs: null, reason: '', actor: 'ann', ...fields };
};
const ofRule = (fields: Partial<Ban> = {}): Ban =>
  ban({ actor: 'rule:accounts_per_device', untilMs: 1_000, ...fields });
const start = (capacity: number) => new BanCache(capacity, () => 0);

test('bans by rules never evict bans by operators', () => {
  const known = start(100);
  const [banned, allowed] = [ban({ kind: 'network', subject: '203.0.113.0/24' }), ban({ effect: 'allow' })];
  known.put(banned);
  known.put(allowed);
  const rules = Array.from({ length: 1_000 }, () => ofRule());
  for (const one of rules) known.put(one);
  expect(known.size).toBe(102);
  expect(known.banOf('network', '203.0.113.9')).toBe(banned);
  expect(known.allowanceOf('user', allowed.subject)).toBe(allowed);
  // The newest bans by rules stay.
  expect([rules[0], rules[899], rules[900]].map((one) => known.banOf('user', String(one?.subject)))).toEqual([
    null,
    null,
    rules[900],
  ]);
  known.replace([banned, ...rules, allowed]);
  expect([known.size, known.banOf('network', '203.0.113.9')]).toEqual([102, banned]);
});

test('a full cache keeps the newest bans by operators', () => {
  const known = start(2);
  const bans = [ban(), ban(), ban()];
  for (const one of bans) known.put(one);
  expect(bans.map(({ subject }) => known.banOf('user', subject)?.subject)).toEqual([
    undefined,
    bans[1]?.subject,
    bans[2]?.subject,
  ]);
});

test('a ban by an operator overrides one by a rule, and of two alike the longer one counts', () => {
  const known = start(10);
  const subject = 'ann';
  const [rule, short, long] = [
    ofRule({ subject, untilMs: 9_000 }),
    ban({ subject, untilMs: 100 }),
    ban({ subject, untilMs: 200 }),
  ];
  for (const one of [short, rule, long]) known.put(one);
  expect(known.banOf('user', subject)).toBe(long);
  known.end(long.id);
  expect(known.banOf('user', subject)).toBe(short);
  known.end(rule.id);
  expect(known.banOf('user', subject)).toBe(short);
  known.remove(short.id);
  expect([known.banOf('user', subject), known.size, known.has(rule.id)]).toEqual([null, 0, false]);
});
