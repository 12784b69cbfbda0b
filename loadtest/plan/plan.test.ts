import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { ENVIRONMENT } from '../../shared/config/environment.js';
import { LIMITS } from '../../shared/config/limits.js';
import { POLL_MAX_SECONDS, POLL_MIN_SECONDS, pollAfterSeconds } from '../../shared/domain/polling.js';
import { SHARD_COUNTS } from '../../shared/domain/shards.js';
import { MAX_REQUESTS } from '../../shared/sale/scripts/reserve.js';
import { type Demand, meanPollSeconds, planCapacity } from './capacity.mjs';
import { type Costs, DEFAULT_COSTS, readCosts } from './costs.mjs';
import { LIMITS_OF_SERVICE } from './limits.mjs';
import { MOST_SHARDS } from './placement.mjs';
import { describePlan, rowsToShow } from './report.mjs';

/** Round figures: one core of Redis decides 10,000 a second, one of the API 5,000, one shard persists 4,000. */
const COSTS: Costs = {
  ...DEFAULT_COSTS,
  cpu_us: {
    checkout: { api: 200, redis: 100, worker: 50, postgres: 50 },
    place: { api: 200, redis: 100, worker: 50, postgres: 50 },
    refusal: { api: 100, redis: 50, worker: 0, postgres: 0 },
    poll: { api: 100, redis: 20, worker: 0, postgres: 0 },
    rejection: { api: 10, redis: 0, worker: 0, postgres: 0 },
    position: { api: 50, redis: 0, worker: 0, postgres: 0 },
  },
  persisted_per_second: 4_000,
  postgres_rows_per_second: 20_000,
};

const DEMAND: Demand = {
  people: 5_000,
  units: 500,
  withinSeconds: 1,
  campaigns: 1,
  nodes: null,
  api: null,
  workers: null,
  machines: null,
  cores: 4,
  pollSeconds: null,
  sockets: 1,
  holdSeconds: 900,
  line: true,
  headroom: 0.3,
};

const planOf = (demand: Partial<Demand>) => planCapacity({ ...DEMAND, ...demand }, COSTS);

describe('planCapacity', () => {
  it('needs one node and no shards for a sale that one core decides', () => {
    const { redis, campaign, problems } = planOf({ people: 5_000 });
    expect([redis.nodes, redis.shards, campaign.buckets, problems]).toEqual([1, 1, 1, []]);
    expect(redis.busy).toBeCloseTo(0.5);
  });

  it('divides a campaign that needs more than one core into buckets', () => {
    expect(planOf({ people: 7_000 }).problems).toEqual([]);
    const { campaign, redis, problems } = planOf({ people: 30_000 });
    expect([campaign.perCore, campaign.isDivided, problems]).toEqual([7_000, true, []]);
    expect(campaign.buckets).toBeGreaterThanOrEqual(5);
    expect(campaign.buckets).toBeLessThanOrEqual(redis.shards);
    expect(redis.busy).toBeLessThanOrEqual(0.7);
  });

  it('says over how many campaigns a sale must be split that needs more buckets than there can be', () => {
    const { campaign, problems } = planOf({ people: 200_000 });
    expect(campaign.isDivided).toBe(false);
    expect(problems[0]).toMatch(/200,000 requests a second.*7,000.*more than the 16 buckets.*--campaigns 29/);
  });

  it('warns when the nodes that were asked for are too few for the buckets', () => {
    expect(planOf({ people: 30_000, nodes: 3 }).problems[0]).toMatch(/The busiest node has \d of \d+ buckets/);
  });

  it('leaves the same headroom when the campaign is split as it says', () => {
    const { redis, campaign } = planOf({ people: 30_000, campaigns: 5 });
    expect(campaign.buckets).toBe(1);
    expect(redis.busy).toBeLessThanOrEqual(0.7);
  });

  it('spreads many campaigns over nodes so that the busiest one has its headroom', () => {
    const { redis } = planOf({ people: 30_000, campaigns: 100 });
    expect(redis.shards).toBe(16);
    expect(redis.nodes).toBeGreaterThanOrEqual(5);
    expect(redis.busiest).toBeGreaterThan(100 / redis.nodes);
    expect(redis.busy).toBeLessThanOrEqual(0.7);
  });

  it('warns when only an even placement of few campaigns would do', () => {
    const { redis, problems } = planOf({ people: 30_000, campaigns: 6 });
    expect(redis.evenOnly).toBe(true);
    expect(problems.join()).toMatch(/\d of them may lie on one node\. Move some before the sale: npm run reshard/);
  });

  it('counts API processes by work, sockets and headroom', () => {
    expect(planOf({ people: 7_000, units: 7_000 }).api.processes).toBe(2);
    // 100,000 position frames a second at 50 µs are 5 cores, which are 7.1 with headroom.
    expect(planOf({ people: 100_000, units: 0, withinSeconds: 100 }).api.processes).toBe(8);
    const few = planOf({ people: 100_000, units: 0, withinSeconds: 100, api: 2 });
    expect(few.problems.join()).toMatch(/--api 2 is too few.*5\.0 cores.*\n?/);
    expect(few.problems.join()).toMatch(/accepts 20,000 sockets, and 50,000 would come/);
  });

  it('counts polls instead of frames for people without a socket', () => {
    const { load, api } = planOf({ people: 100_000, units: 0, withinSeconds: 100, sockets: 0, pollSeconds: 10 });
    expect([load.sockets, load.pollsPerSecond]).toEqual([0, 10_000]);
    expect(api.lineCores).toBeCloseTo(1);
  });

  it('counts the memory of people, records and the whole journal on the busiest node', () => {
    const { redis } = planOf({ people: 5_000, units: 1_000 });
    const { bytes } = COSTS;
    expect(redis.bytes.people).toBe(1_000 * bytes.redis_reservation + 4_000 * bytes.redis_place);
    expect(redis.bytes.records).toBe(5_000 * bytes.redis_record);
    expect(redis.bytes.journal).toBe(5_000 * bytes.redis_journal_entry);
    expect(redis.bytes.maxmemory).toBeCloseTo(redis.bytes.total / 0.9 / 0.7);
  });

  it('writes no rows for people who are refused', () => {
    const { postgres, course, load } = planOf({ people: 5_000, units: 500, line: false });
    expect([postgres.rows, load.sockets]).toEqual([500, 0]);
    expect(course.seconds.reduce((sum, { persisted }) => sum + persisted, 0)).toBe(500);
  });

  it('persists no faster than the shards in use, Postgres and the workers', () => {
    const perSecond = (demand: Partial<Demand>) => planOf(demand).workers.perSecond;
    expect(perSecond({})).toBe(4_000);
    expect(perSecond({ people: 30_000, campaigns: 100 })).toBe(20_000);
    expect(perSecond({ people: 30_000, campaigns: 100, nodes: 8, workers: 1 })).toBe(20_000);
    expect(
      planCapacity(
        { ...DEMAND, workers: 1 },
        { ...COSTS, persisted_per_second: 50_000, postgres_rows_per_second: 90_000 },
      ).workers.perSecond,
    ).toBe(20_000);
  });

  it('names what a machine that all parts share cannot do', () => {
    const { problems, course } = planOf({ people: 5_000, machines: 1, cores: 1, api: 1, workers: 1 });
    expect(problems.join()).toMatch(/needs 4 cores with headroom, and there are 1/);
    // 400 µs a checkout in all parts: 2,500 a second.
    expect(course.seconds[0]?.decided).toBe(2_500);
  });

  it('returns finite figures without units, and with more units than people', () => {
    for (const demand of [{ units: 0 }, { units: 10_000 }, { people: 1, units: 1 }]) {
      const { problems, course, demand: _, ...parts } = planOf(demand);
      // JSON has null for NaN and Infinity.
      expect(JSON.stringify(parts)).not.toContain('null');
      expect([problems, course.lastResponseSeconds]).toEqual([[], 1]);
    }
  });
});

describe('the limits of a plan', () => {
  it('are those of the service', () => {
    expect(LIMITS_OF_SERVICE).toMatchObject({
      checkoutsInFlight: LIMITS.checkoutsInFlight,
      socketsPerProcess: LIMITS.socketsPerProcess,
      promisesKept: LIMITS.promisesKept,
      refuseAboveMemory: LIMITS.redisMemory.refuseAbove,
      redisCommandMs: LIMITS.redisCommandMs,
      sentAtOnce: 4 * MAX_REQUESTS,
      pollMinSeconds: POLL_MIN_SECONDS,
      pollMaxSeconds: POLL_MAX_SECONDS,
      journalLimit: ENVIRONMENT.JOURNAL_LIMIT.parse(undefined),
    });
    expect(MOST_SHARDS).toBe(SHARD_COUNTS.at(-1));
  });

  it('have the mean pause between polls that the service asks for', () => {
    for (const inLine of [100, 5_000, 60_000]) {
      let polls = 0;
      for (let position = 0; position < inLine; position += 1) polls += 1 / pollAfterSeconds(position);
      expect(meanPollSeconds(inLine)).toBeCloseTo(inLine / polls, 6);
    }
    expect(meanPollSeconds(0)).toBe(POLL_MAX_SECONDS);
  });
});

describe('readCosts', () => {
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-costs-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const write = (value: unknown): string => {
    const path = join(folder, 'costs.json');
    writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value));
    return path;
  };

  it('reads what --measure writes', () => {
    expect(readCosts(write(COSTS))).toEqual(COSTS);
  });

  it('names the file and the figure that is missing', () => {
    const { poll: _, ...others } = COSTS.cpu_us;
    expect(() => readCosts(write({ ...COSTS, cpu_us: others }))).toThrow(/costs.*: cpu_us\.poll must be an object/);
    expect(() => readCosts(write({ ...COSTS, persisted_per_second: '4000' }))).toThrow(/persisted_per_second must be/);
    expect(() => readCosts(write('{'))).toThrow(/is no file of costs/);
    expect(() => readCosts('/nowhere/costs.json')).toThrow(/is no file of costs.*ENOENT/);
  });
});

describe('describePlan', () => {
  it('shows each part, each second and the margins', () => {
    const text = describePlan(planOf({}), COSTS);
    expect(text).toMatch(/^5,000 people within 1 s for 500 units in 1 campaign: 5,000 checkouts a second/);
    for (const part of ['SHARDS=1', 'maxmemory', 'JOURNAL_LIMIT=2000000', 'sockets', 'Postgres', 'network', '1 bucket'])
      expect(text).toContain(part);
    expect(text).toMatch(/second +arrive +get a unit[\s\S]*\n +1 +5,000 +500 +4,500/);
    expect(text).toContain('30 % of each core stays free');
    expect(text).not.toMatch(/does not hold|NaN|undefined|Infinity/);
  });

  it('ends with the reasons why the plan does not hold', () => {
    expect(describePlan(planOf({ people: 200_000 }), COSTS)).toMatch(
      /This does not hold as asked:\n- One campaign gets/,
    );
  });

  it('shows the first seconds and the last, and few between', () => {
    expect(rowsToShow(3)).toEqual([0, 1, 2]);
    const rows = rowsToShow(1_000);
    expect([rows.slice(0, 3), rows.at(-1), rows.length < 30]).toEqual([[0, 1, 2], 999, true]);
  });
});
