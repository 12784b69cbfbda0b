import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { createTestDatabase, startTestRedis } from '../harness/engines.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { until } from '../harness/until.js';

const database = await createTestDatabase();
const production = { NODE_ENV: 'production', SHOPPER_IDENTITY: 'gateway' };

/** Starts a process that must refuse to start. @returns its exit code and its standard error */
function refusal(name: 'api' | 'worker', env: NodeJS.ProcessEnv): Promise<{ code: number | null; told: string }> {
  const child = spawn(process.execPath, [join(projectRoot(), 'dist', name, 'main.js')], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  atEnd(`the ${name}`, () => void child.kill('SIGKILL'));
  let told = '';
  child.stderr.on('data', (chunk) => {
    told += chunk;
  });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, told })));
}

test.each(['api', 'worker'] as const)('the %s refuses a Redis that evicts, and says how to mend it', async (name) => {
  const redis = await startTestRedis(['--maxmemory', '64mb', '--maxmemory-policy', 'allkeys-lru']);
  const { code, told } = await refusal(name, serviceEnv(redis.url, database.url));
  expect(code).toBe(1);
  expect(told).toContain('maxmemory-policy is allkeys-lru');
  expect(told).toContain('Remedy: redis-cli CONFIG SET maxmemory-policy noeviction');
  expect(told.trim().split('\n').length).toBe(1);
});

test.each(['api', 'worker'] as const)(
  'in production the %s refuses a Redis without an append-only file, and tells every problem at once',
  async (name) => {
    const redis = await startTestRedis(['--appendonly', 'no', '--maxmemory-policy', 'volatile-ttl']);
    const { code, told } = await refusal(name, serviceEnv(redis.url, database.url, production));
    expect(code).toBe(1);
    expect(told).toContain('maxmemory-policy is volatile-ttl');
    expect(told).toContain('Remedy: redis-cli CONFIG SET appendonly yes');
  },
);

test('in production a file that is written later than the reply is not enough, unless replicas have the promise', async () => {
  const redis = await startTestRedis(['--appendfsync', 'everysec']);
  const { code, told } = await refusal('worker', serviceEnv(redis.url, database.url, production));
  expect(code).toBe(1);
  expect(told).toContain('appendfsync is everysec');
  expect(told).toContain('Remedy: redis-cli CONFIG SET appendonly yes and redis-cli CONFIG SET appendfsync always');
  const worker = await startWorkerProcess(
    serviceEnv(redis.url, database.url, { ...production, REDIS_WAIT_REPLICAS: '1' }),
  );
  expect(worker.log.join('\n')).toContain('promises are protected by one replica');
  expect(worker.log.join('\n')).toContain('REDIS_WAIT_REPLICAS is 1 and 0 replicas are connected');
});

test('the remedies mend it, and outside production no append-only file is needed', async () => {
  const redis = await startTestRedis(['--appendonly', 'no', '--maxmemory-policy', 'allkeys-lru']);
  await redis.client.config('SET', 'maxmemory-policy', 'noeviction');
  const worker = await startWorkerProcess(serviceEnv(redis.url, database.url));
  await worker.stop();
  await redis.client.config('SET', 'appendonly', 'yes');
  await startWorkerProcess(serviceEnv(redis.url, database.url, production));
  await startApiProcess(serviceEnv(redis.url, database.url, production));
});

test('a Redis that takes another shape while it is away is not asked any more until it is mended', async () => {
  const redis = await startTestRedis([]);
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
