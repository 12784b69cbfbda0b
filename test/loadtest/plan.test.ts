import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { COSTS, type Demand, LIMITS, mostTogether, planSale } from '../../loadtest/plan/plan.mjs';
import { ENVIRONMENT } from '../../shared/config/environment.js';
import { LIMITS as SERVICE } from '../../shared/config/limits.js';
import { projectRoot } from '../../shared/config/project-root.js';
import { MAX_BUCKETS, shardOfBucket } from '../../shared/domain/buckets.js';
import { pollAfterSeconds } from '../../shared/domain/polling.js';
import { SHARD_COUNTS, shardOfNewCampaign } from '../../shared/domain/shards.js';
import { folderOfTest } from './load-test.js';

const USUAL: Demand = { people: 10_000, units: 500, within: 2, campaigns: 1, line: true, sockets: 1, headroom: 0.3 };
const planOf = (changes: Partial<Demand>, costs = {}) => planSale({ ...USUAL, ...changes }, { ...COSTS, ...costs });
const range = (count: number) => Array.from({ length: count }, (_, i) => i);
const NODES = [1, 2, 3, 4, 8, 9, 16, 64].map((nodes) => ({ nodes, shards: planOf({ nodes }).redis.shards }));

describe('mostTogether', () => {
  it.each(NODES)('of $nodes nodes with $shards shards is what the service can place', ({ nodes, shards }) => {
    const together = Math.ceil(shards / nodes);
    const live = range(shards).map(() => 0);
    for (let campaigns = 1; campaigns <= 200; campaigns += 1) {
      const node = live.slice(0, together);
      // The worst hash is that of the emptiest shard of the node.
      const shard = shardOfNewCampaign(node.indexOf(Math.min(...node)), live);
      live[shard] = Number(live[shard]) + 1;
      const onNode = live.slice(0, together).reduce((sum, one) => sum + one, 0);
      expect([campaigns, mostTogether(campaigns, 1, shards, together)]).toEqual([campaigns, onNode]);
    }
    for (let buckets = 2; buckets <= Math.min(shards, MAX_BUCKETS); buckets += 1) {
      const isOnNode = (home: number) => (bucket: number) => shardOfBucket(home, bucket, buckets, shards) < together;
      const most = Math.max(...range(shards).map((home) => range(buckets).filter(isOnNode(home)).length));
      expect([buckets, mostTogether(3, buckets, shards, together)]).toEqual([buckets, 3 * most]);
    }
  });

  it('is that of the table in docs/planning.md', () => {
    const text = readFileSync(join(projectRoot(), 'docs/planning.md'), 'utf8');
    const rows = [...text.matchAll(/^\| (\d+) \| [\d.]+ \| (\d+) \|$/gm)].map((row) => row.slice(1).map(Number));
    expect(rows).toEqual([2, 3, 4, 8].map((nodes) => [nodes, planOf({ campaigns: 100, nodes }).redis.busiest]));
  });
});

describe('planSale', () => {
  const SALES = [{}, { line: false }, { sockets: 0 }, { campaigns: 6 }, { campaigns: 100, sockets: 0.2 }];
  it.each(SALES)('never needs less for more people of %j', (sale) => {
    let before: number[] = [];
    for (let people = 100; people < 200_000; people = Math.round(people * 1.2)) {
      const { redis, api, workers, postgres, lastResponse } = planOf({ ...sale, people });
      const needs = [redis.nodes, api.processes, workers, postgres.rows, Math.round(postgres.backlog), lastResponse];
      expect([people, needs.filter((need, i) => need < Number(before[i]))]).toEqual([people, []]);
      before = needs;
    }
  });

  it('divides a campaign that needs more than one core with its headroom', () => {
    const costs = { place_redis_us: 70, calls_to_join_buckets: 2 };
    expect(planOf({ within: 1 }, costs).redis).toMatchObject({ nodes: 1, shards: 1, buckets: 1, busy: 0.7 });
    expect(planOf({ people: 30_000 }, costs).redis).toMatchObject({ nodes: 4, shards: 16, buckets: 3, busiest: 1 });
  });

  it('divides none of many campaigns, and has three primaries at least in a cluster', () => {
    expect(planOf({ people: 30_000, campaigns: 100 }).redis).toMatchObject({ nodes: 3, buckets: 1, busiest: 40 });
    expect(planOf({ people: 300_000, campaigns: 32, line: false }).redis.buckets).toBe(1);
  });

  it('has responses and rows as fast as the slowest part', () => {
    const costs = { checkout_api_us: 400, rows_per_second: 1_000, redis_empty_bytes: 9e6, redis_person_bytes: 900 };
    const { lastResponse, maxmemory, postgres } = planOf({ api: 1, headroom: 0.5 }, costs);
    expect([lastResponse, Math.round(maxmemory), planOf({}).postgres.after]).toEqual([4, 40e6, 2]);
    expect(postgres).toMatchObject({ rows: 10_000, perSecond: 1_000, backlog: 6_000, after: 10 });
    expect(planOf({ line: false }, costs).postgres).toMatchObject({ rows: 500, backlog: 400, after: 0.5 });
    expect(planOf({ workers: 1 }, { row_worker_us: 1_000 }).postgres).toMatchObject({ perSecond: 1_000 });
  });

  it('counts with the limits and the polls of the service', () => {
    const [shards, journal] = [SHARD_COUNTS.at(-1), ENVIRONMENT.JOURNAL_LIMIT.parse(undefined)];
    const { sockets, redis } = SERVICE;
    expect(LIMITS).toEqual({
      buckets: MAX_BUCKETS,
      shards,
      sockets: sockets.perProcess,
      journal,
      memory: redis.memory.refuseAbove,
    });
    for (const inLine of [500, 5_000, 60_000]) {
      const polls = range(inLine).reduce((sum, position) => sum + 1 / pollAfterSeconds(position), 0);
      expect(planOf({ people: 500 + inLine, sockets: 0 }).api.polls / polls).toBeCloseTo(1, 1);
    }
  });
});

describe('npm run plan', () => {
  const costs = join(folderOfTest(), 'costs.json');
  writeFileSync(costs, '{ "rows_per_second": 1000, "position_api_us": 1 }');
  writeFileSync(`${costs}.wrong`, '{ "row_worker_us": 9, "row": 9 }');
  writeFileSync(`${costs}.zero`, '{ "row_worker_us": 0 }');
  const SALE = '--people 1,000,000 --units 50_000 --within 10s';
  it.each([
    ['--help', 0, /^usage: npm run plan/],
    [SALE, 0, /16 × a primary.*"buckets": 16\n[\s\S]*maxmemory \d+ MB[\s\S]*record\.json, 20/],
    [`${SALE} --json --costs ${costs}`, 0, /"people": 1000000,[\s\S]*"place_redis_us": 62/],
    [`${SALE} --nodes 3`, 1, /The busiest core of Redis is \d+ % busy\. Add some: leave out --nodes/],
    ['--people 300000 --units 9 --within 1s', 1, /--within 3s, or split the sale: --campaigns 27\./],
    ['--people 300000 --units 9 --within 1s --campaigns 27', 0, /./],
    [`${SALE} --api 8 --sold-out`, 1, /--api 8 is too few for \d\.\d cores/],
    [`${SALE} --api 40 --costs ${costs}`, 1, /--api 40 is too few/],
    [`--people 3000000 --units 9 --within 10m --costs ${costs}`, 1, /Raise JOURNAL_LIMIT/],
    ['--units 9 --within 10s', 2, /--people is missing[\s\S]*See npm run plan -- --help/],
    [`${SALE} --measure`, 2, /Unknown option '--measure'[\s\S]*See npm run plan -- --help/],
    [`${SALE} --nodes 65`, 2, /--nodes 65: expected a whole number from 1 to 64\.\n/],
    [`${SALE} --sockets 1.5`, 2, /--sockets 1\.5: expected a share from 0 to 1\.\n/],
    [`${SALE} --within 1,5s`, 2, /--within 1,5s: expected a time/],
    [`${SALE} --costs ${costs}.none`, 2, /ENOENT.*costs\.json\.none/],
    [`${SALE} --costs ${costs}.zero`, 2, /row_worker_us is no figure of .*, or not a number above 0/],
    [`${SALE} --costs ${costs}.wrong`, 2, /costs\.json\.wrong: row is no figure of docs\/planning\.md/],
  ])('%s exits with %d', async (args, exitCode, says) => {
    const command = [join(projectRoot(), 'loadtest/plan/main.mjs'), ...args.split(' ')];
    const [code, output] = await new Promise<[number, string]>((resolve) => {
      execFile(process.execPath, command, (error, stdout) => resolve([Number(error?.code ?? 0), stdout]));
    });
    expect([code, output]).toEqual([exitCode, expect.stringMatching(says)]);
    expect(output).not.toMatch(/NaN|undefined|Infinity|at .*\.mjs:\d+/);
  });
});
