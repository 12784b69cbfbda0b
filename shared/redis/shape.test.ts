import { expect, test } from '@jest/globals';
import type { Redis } from 'ioredis';
import { shapeProblems } from './shape.js';

/** What a Redis of that version would say; a real one that old cannot be had here, every other shape is tried on a real one. */
const said = (version: string, fields: Record<string, string> = {}) => {
  const info = { redis_version: version, maxmemory_policy: 'noeviction', aof_enabled: '1', ...fields };
  const text = Object.entries(info).map(([name, value]) => `${name}:${value}\r\n`);
  return { info: async () => `# Server\r\n${text.join('')}` } as unknown as Redis;
};

test.each(['6.2.0', '6.10.1', '7.0.15', '7.2.4-rc1', '8.0.0', '10.1.0'])('takes version %s', async (version) => {
  expect(await shapeProblems(said(version), true)).toEqual([]);
});

test.each(['2.8.24', '5.0.14', '6.0.20', '6.1.240', '0.0.0'])('refuses version %s', async (version) => {
  expect(await shapeProblems(said(version), true)).toEqual([
    `Redis is ${version}; 6.2 or newer is needed. Remedy: upgrade it.`,
  ]);
});

test('tells all that is wrong, each with its remedy', async () => {
  const problems = await shapeProblems(said('5.0.14', { maxmemory_policy: 'allkeys-lru', aof_enabled: '0' }), true);
  expect(problems.length).toBe(3);
  for (const problem of problems) expect(problem).toMatch(/Remedy: ./);
});
