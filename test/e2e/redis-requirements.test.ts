import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { atEnd } from '../harness/cleanup.js';
import { RedisCluster } from '../harness/cluster.js';
import { createTestDatabase, startTestServer } from '../harness/engines.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';
import { until } from '../harness/until.js';

/** These are about the setup of one server, hence the same servers in every run of the suite. */
const database = await createTestDatabase();
const production = { NODE_ENV: 'production', SHOPPER_IDENTITY: 'gateway' };

/** A process decides whether it starts within seconds. One that starts would run until the test times out. */
const REFUSES_WITHIN_MS = 60_000;

/** Starts a process that must refuse to start. @returns its exit code, null = it did not refuse; its standard error */
function refusal(name: 'api' | 'worker', env: NodeJS.ProcessEnv): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [join(projectRoot(), 'dist', name, 'main.js')], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
    timeout: REFUSES_WITHIN_MS,
    killSignal: 'SIGKILL',
  });
  atEnd(`the ${name}`, () => void child.kill('SIGKILL'));
  let output = '';
  child.stderr.on('data', (chunk) => {
    output += chunk;
  });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })));
}

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

test('the remedies mend it, and outside production no append-only file is needed', async () => {
  const redis = await startTestServer(['--appendonly', 'no', '--maxmemory-policy', 'allkeys-lru']);
  await redis.client.config('SET', 'maxmemory-policy', 'noeviction');
  const worker = await startWorkerProcess(serviceEnv(redis.url, database.url));
  await worker.stop();
  await redis.client.config('SET', 'appendonly', 'yes');
  await startWorkerProcess(serviceEnv(redis.url, database.url, production));
  await startApiProcess(serviceEnv(redis.url, database.url, production));
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

test.each(['api', 'worker'] as const)('the %s refuses a REDIS_URL that names the other kind of Redis', async (name) => {
  const server = await startTestServer();
  const ofCluster = `redis+cluster://127.0.0.1:${server.port}`;
  const wrong = await refusal(name, serviceEnv(ofCluster, database.url));
  expect([wrong.code, wrong.output]).toEqual([
    1,
    expect.stringContaining(`127.0.0.1:${server.port} is a single server`),
  ]);
  expect(wrong.output).toContain(`Remedy: REDIS_URL=redis://127.0.0.1:${server.port}`);
  const cluster = await RedisCluster.start({ replicas: 0 });
  const ofServer = `redis://127.0.0.1:${cluster.nodes[0]?.engine.port}`;
  const other = await refusal(name, serviceEnv(ofServer, database.url));
  expect([other.code, other.output]).toEqual([1, expect.stringContaining('Redis is a node of a cluster')]);
  expect(other.output).toContain('Remedy: a REDIS_URL that starts with redis+cluster://');
});

test('on a cluster the server of each shard is checked, and a cluster that needs full coverage is warned about', async () => {
  const extraArgs = ['--cluster-require-full-coverage', 'yes'];
  const cluster = await RedisCluster.start({ replicas: 0, extraArgs });
  const { url } = await createTestDatabase();
  const env = serviceEnv(cluster.url, url, { SHARDS: '8', REDIS_WAIT_REPLICAS: '0' });
  const [, , last] = cluster.nodes;
  await last?.redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
  const { code, output } = await refusal('worker', env);
  expect([code, output.trim()]).toEqual([
    1,
    expect.stringContaining(`127.0.0.1:${last?.engine.port}: Redis may evict`),
  ]);
  await last?.redis.config('SET', 'maxmemory-policy', 'noeviction');
  const worker = await startWorkerProcess(env);
  const warned = worker.log.filter((line) => line.includes('cluster-require-full-coverage is yes'));
  expect(warned).toHaveLength(3);
});
