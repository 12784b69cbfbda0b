import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { inspectRedis, judgeRedis, parseInfo } from './redis-requirements.js';

const INFO = { redis_version: '7.0.15', maxmemory_policy: 'noeviction', aof_enabled: '1', connected_slaves: '0' };
const REQUIREMENTS = { production: true, waitReplicas: 0, onCluster: false };
const judge = (fields: Record<string, string> = {}, appendfsync: string | null = 'always', waitReplicas = 0) =>
  judgeRedis(new Map(Object.entries({ ...INFO, ...fields })), { appendfsync }, { ...REQUIREMENTS, waitReplicas });

describe('judgeRedis', () => {
  it.each(['7.0.0', '7.0.15', '7.2.4-rc1', '8.0.0', '10.1.0'])('accepts version %s', (redis_version) => {
    expect(judge({ redis_version }).problems).toEqual([]);
  });

  it.each(['2.8.24', '5.0.14', '6.2.14', '6.10.1', '0.0.0'])('refuses version %s', (redis_version) => {
    expect(judge({ redis_version }).problems).toEqual([
      `Redis has version ${redis_version}; 7.0 or newer is required. Remedy: upgrade it.`,
    ]);
  });

  it('names every problem, each with its remedy', () => {
    const { problems } = judge({ redis_version: '5.0.14', maxmemory_policy: 'allkeys-lru', aof_enabled: '0' });
    expect(problems.length).toBe(3);
    for (const problem of problems) expect(problem).toMatch(/Remedy: ./);
  });

  it.each([
    ['1', 'always', 0, 'disk'],
    ['1', 'always', 1, 'disk and replicas'],
    ['1', 'everysec', 1, 'replicas'],
    ['0', 'always', 2, 'replicas'],
    ['1', null, 1, 'replicas'],
    ['1', 'everysec', 0, 'none'],
    ['0', 'always', 0, 'none'],
    ['1', null, 0, 'none'],
  ])(
    'with aof_enabled %s, appendfsync %s and %s replicas the protection is: %s',
    (aof_enabled, appendfsync, wait, expected) => {
      const shape = judge({ aof_enabled, connected_slaves: '5' }, appendfsync, wait);
      expect(shape.protection).toBe(expected);
      expect(shape.problems.length).toBe(expected === 'none' ? 1 : 0);
      expect(shape.summary).toMatch(/^promises are protected by /);
      expect(shape.warnings).toEqual([]);
    },
  );

  it('demands no protection outside production', () => {
    const info = new Map(Object.entries({ ...INFO, aof_enabled: '0' }));
    expect(judgeRedis(info, { appendfsync: null }, { ...REQUIREMENTS, production: false }).problems).toEqual([]);
  });

  it('warns, and does not refuse, while fewer replicas are connected than a promise needs', () => {
    const { problems, warnings } = judge({ connected_slaves: '1' }, 'always', 2);
    expect(problems).toEqual([]);
    expect(warnings).toEqual([expect.stringContaining('REDIS_WAIT_REPLICAS is 2 and 1 replicas are connected')]);
    // After a failover the new primary would have none.
    const wanting = judge({ connected_slaves: '1' }, 'always', 1);
    expect([wanting.problems, wanting.warnings]).toEqual([[], [expect.stringContaining('Remedy: one replica more')]]);
    expect(judge({ connected_slaves: '2' }, 'always', 1).warnings).toEqual([]);
  });
});

describe('judgeRedis on a cluster', () => {
  const onCluster = { ...REQUIREMENTS, onCluster: true };
  const info = new Map(Object.entries({ ...INFO, cluster_enabled: '1' }));

  it('refuses a node of a cluster when REDIS_URL names a single server', () => {
    expect(judge({ cluster_enabled: '1' }).problems).toEqual([expect.stringContaining('redis+cluster://')]);
    expect(judgeRedis(info, { appendfsync: 'always' }, onCluster).problems).toEqual([]);
  });

  it.each([
    ['yes', 1],
    ['no', 0],
    [null, 0],
  ])('with cluster-require-full-coverage %s there are %s warnings', (fullCoverage, count) => {
    const { problems, warnings } = judgeRedis(info, { appendfsync: 'always', fullCoverage }, onCluster);
    expect(problems).toEqual([]);
    expect(warnings).toEqual(Array(count).fill(expect.stringContaining('cluster-require-full-coverage is yes')));
  });
});

describe('inspectRedis', () => {
  const redis = (config: () => Promise<string[]>) =>
    ({
      info: async () =>
        `# Server\r\n${Object.entries(INFO)
          .map((pair) => `${pair.join(':')}\r\n`)
          .join('')}`,
      config,
      get: async () => null,
      exists: async () => 0,
    }) as unknown as Redis;

  it('takes a CONFIG that is refused for unknown', async () => {
    const refused = async () => {
      throw Object.assign(new Error('ERR unknown command CONFIG'), { name: 'ReplyError' });
    };
    const { problems } = await inspectRedis(redis(refused), REQUIREMENTS);
    expect(problems).toEqual([expect.stringContaining('CONFIG GET is refused')]);
  });

  it('reads appendfsync', async () => {
    expect(
      (
        await inspectRedis(
          redis(async () => ['appendfsync', 'always']),
          REQUIREMENTS,
        )
      ).problems,
    ).toEqual([]);
  });

  it('fails when Redis is away', async () => {
    const away = async () => {
      throw new Error('Connection is closed.');
    };
    await expect(inspectRedis(redis(away), REQUIREMENTS)).rejects.toThrow('closed');
  });
});

describe('parseInfo', () => {
  it('reads fields, whose values may have colons', () => {
    expect([...parseInfo('# Server\r\nos:Linux\r\nlistener0:name=tcp,bind=127.0.0.1:1\r\n')]).toEqual([
      ['os', 'Linux'],
      ['listener0', 'name=tcp,bind=127.0.0.1:1'],
    ]);
  });
});
