import { expect, test } from '@jest/globals';
import { startTestServer } from '../harness/engines.js';
import { database, production, refusal } from '../harness/redis-requirements-stage.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { until } from '../harness/until.js';

test.each(['api', 'worker'] as const)('the %s refuses a Redis that evicts, and says how to mend it', async (name) => {
  const redis = await startTestServer(['--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru']);
  const { code, output } = await refusal(name, serviceEnv(redis.url, database.url));
  expect(code).toBe(1);
  expect(output).toContain('maxmemory-policy is allkeys-lru');
  expect(output).toContain('Remedy: redis-cli CONFIG SET maxmemory-policy noeviction');
  expect(output.trim().split('\n').length).toBe(1);
});

test.each(['api', 'worker'] as const)(
  'in production the %s refuses a Redis without an append-only file, and tells every problem at once',
  async (name) => {
    const redis = await startTestServer(['--appendonly', 'no', '--maxmemory-policy', 'volatile-ttl']);
    const { code, output } = await refusal(name, serviceEnv(redis.url, database.url, production));
    expect(code).toBe(1);
    expect(output).toContain('maxmemory-policy is volatile-ttl');
    expect(output).toContain('Remedy: redis-cli CONFIG SET appendonly yes');
  },
);

test('in production a file that is written later than the reply is not enough, unless replicas have the promise', async () => {
  const redis = await startTestServer(['--appendfsync', 'everysec']);
  const { code, output } = await refusal('worker', serviceEnv(redis.url, database.url, production));
  expect(code).toBe(1);
  expect(output).toContain('appendfsync is everysec');
  expect(output).toContain('Remedy: redis-cli CONFIG SET appendonly yes and redis-cli CONFIG SET appendfsync always');
  const worker = await startWorkerProcess(
    serviceEnv(redis.url, database.url, { ...production, REDIS_WAIT_REPLICAS: '1' }),
  );
  expect(worker.log.join('\n')).toContain('promises are protected by one replica');
  expect(worker.log.join('\n')).toContain('REDIS_WAIT_REPLICAS is 1 and 0 replicas are connected');
});

test('a Redis that takes another shape while it is away is not asked any more until it is mended', async () => {
  const redis = await startTestServer([]);
  await startWorkerProcess(serviceEnv(redis.url, database.url));
  const { url } = await startApiProcess(serviceEnv(redis.url, database.url));
  const ready = () => fetch(`${url}/readyz`).then(({ status }) => status);
  await until('it serves', async () => (await ready()) === 200);
  await redis.client.config('SET', 'maxmemory-policy', 'allkeys-lru');
  await redis.client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  await until('it does not serve', async () => (await ready()) === 503);
  await redis.client.config('SET', 'maxmemory-policy', 'noeviction');
  await until('it serves again', async () => (await ready()) === 200);
});
