import { expect, jest, test } from '@jest/globals';
import type { Log } from '../../../shared/observability/log.js';
import { KeyCache } from './key-cache.js';

test('the keys of the last read are in force for a limited time without Postgres, and again once it replies', async () => {
  const now = jest.spyOn(performance, 'now').mockReturnValue(0);
  const digest = Buffer.from('of a secret');
  const key = { id: 'k-1', name: 'shop', role: null, digest, expiresAt: null };
  const cache = new KeyCache({
    table: { inForce: async () => [key] as never, markUsed: async () => {} },
    nowMs: () => 0,
    log: {} as Log,
    limits: { apiKeysEveryMs: 1_000, apiKeysKeptMs: 600_000, apiKeyUseEveryMs: 60_000 },
  });
  expect([cache.isLoaded, cache.find(digest)]).toEqual([false, null]);
  await cache.refresh();
  now.mockReturnValue(600_000);
  expect([cache.isLoaded, cache.find(digest)?.id, cache.byId('k-1')?.id]).toEqual([true, 'k-1', 'k-1']);
  now.mockReturnValue(600_001);
  expect([cache.isLoaded, cache.find(digest), cache.byId('k-1')]).toEqual([false, null, null]);
  await cache.refresh();
  expect(cache.find(digest)?.id).toBe('k-1');
  now.mockRestore();
});
