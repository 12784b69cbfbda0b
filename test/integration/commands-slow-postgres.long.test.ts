import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { createTestDatabase, startTestRedis } from '../harness/engines.js';
import { runProgram } from '../harness/programs.js';
import { EngineProxy } from '../harness/proxy.js';

test('reshard waits for a Postgres that takes longer to connect than a worker waits, as on an overloaded machine', async () => {
  const [redis, database] = [await startTestRedis(), await createTestDatabase()];
  const url = new URL(database.url);
  url.port = String((await EngineProxy.before(Number(url.port), 800)).port);
  const { status, stderr } = await runProgram(
    process.execPath,
    [join(projectRoot(), 'scripts/command.mjs'), 'reshard', '--campaign', 'none', '--to-shard', '0'],
    { REDIS_URL: redis.url, DATABASE_URL: url.href },
  );
  expect([status, stderr]).toEqual([1, 'stopped: there is no campaign for none\n']);
});
