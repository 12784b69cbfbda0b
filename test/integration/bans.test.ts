import { expect, test } from '@jest/globals';
import { uuidv7 } from 'uuidv7';
import type { Ban } from '../../shared/domain/ban.js';
import { BansTable } from '../../shared/postgres/bans.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';

const database = await createTestDatabase();
const table = new BansTable(connectDatabase(database.url));
const NOW = Date.now();
const ban = (actor: string, untilMs: number | null, fields: Partial<Ban> = {}): Ban => ({
  id: uuidv7(),
  effect: 'ban',
  kind: 'device',
  subject: 'fp-1',
  untilMs,
  reason: 'r',
  actor,
  ...fields,
});
const idsOf = (bans: readonly { id: string }[]) => bans.map(({ id }) => id).sort();

test('bans of rules crowd out no ban of an operator, and are written once', async () => {
  const operators = [ban('ann', null, { kind: 'network', subject: '203.0.113.0/24' }), ban('ann', NOW + 60_000)];
  for (const one of operators) await table.insert(one);
  const rules = Array.from({ length: 50 }, () => ban('rule:x', NOW + 60_000));
  await table.insertOfRules(rules);
  await table.insertOfRules(rules.slice(0, 10));
  const inForce = await table.inForce(20);
  expect(idsOf(inForce)).toEqual(idsOf([...operators, ...rules.slice(30)]));
  expect(inForce.find(({ id }) => id === rules[49]?.id)).toMatchObject(rules[49] as Ban);
});

test('expired bans of rules are removed, a batch at a time, and those of operators stay', async () => {
  const over = [ban('rule:x', NOW - 5_000), ban('rule:x', NOW - 4_000), ban('rule:x', NOW - 1_000)];
  const kept = ban('ann', NOW - 5_000);
  await table.insert(kept);
  await table.insertOfRules(over);
  const before = new Date(NOW - 2_000);
  expect([await table.pruneOfRules(before, 1), await table.pruneOfRules(before, 10)]).toEqual([1, 1]);
  expect(await table.known(idsOf([...over, kept]))).toEqual(new Set([over[2]?.id, kept.id]));
});
