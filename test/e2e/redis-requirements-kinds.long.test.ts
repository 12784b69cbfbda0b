import { expect, test } from '@jest/globals';
import { RedisCluster } from '../harness/cluster.js';
import { createTestDatabase, startTestServer } from '../harness/engines.js';
import { database, production, refusal } from '../harness/redis-requirements-stage.js';
import { serviceEnv, startApiProcess, startWorkerProcess } from '../harness/service.js';

test('the remedies mend it, and outside production no append-only file is needed', async () => {
  const redis = await startTestServer(['--appendonly', 'no', '--maxmemory-policy', 'allkeys-lru']);
  await redis.client.config('SET', 'maxmemory-policy', 'noeviction');
  const worker = await startWorkerProcess(serviceEnv(redis.url, database.url));
  await worker.stop();
  await redis.client.config('SET', 'appendonly', 'yes');
  await startWorkerProcess(serviceEnv(redis.url, database.url, production));
  await startApiProcess(serviceEnv(redis.url, database.url, production));
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
