import { afterEach, describe, expect, it } from '@jest/globals';
import { keys } from '../../shared/redis/keys.js';
import { SweepTurns } from '../../worker/sweeps/sweep-turns.js';
import { type Sweep, Sweeps } from '../../worker/sweeps/sweeps.js';
import { atEnd } from '../harness/cleanup.js';
import { startTestRedis } from '../harness/engines.js';
import { until } from '../harness/until.js';

const engine = await startTestRedis();
const redis = engine.client;
const running: Sweeps<string>[] = [];
afterEach(async () => {
  await Promise.all(running.splice(0).map((sweeps) => sweeps.stop()));
  await redis.config('SET', 'maxmemory', '0');
  await redis.flushall();
});

type Options = { inService?: () => boolean; failures?: string[] };

/** A worker's sweeps, on a connection of its own. */
function work(sweeps: Record<string, Sweep>, { inService = () => true, failures = [] }: Options = {}): Sweeps<string> {
  const connection = redis.duplicate();
  atEnd('a connection', () => connection.disconnect());
  const worker = new Sweeps({
    sweeps,
    turns: new SweepTurns(connection),
    inService,
    onFailed: (name, error) => failures.push(`${name}: ${error.message}`),
  });
  worker.start();
  running.push(worker);
  return worker;
}

describe('Sweeps', () => {
  it('runs each sweep again and again, also after a run that failed', async () => {
    const ran = { one: 0, other: 0 };
    const failures: string[] = [];
    const run = (name: keyof typeof ran) => async () => {
      ran[name] += 1;
      if (name === 'one') throw new Error('not now');
    };
    work({ one: { everyMs: 20, run: run('one') }, other: { everyMs: 30, run: run('other') } }, { failures });
    await until('both have run three times', () => ran.one >= 3 && ran.other >= 3);
    expect(new Set(failures)).toEqual(new Set(['one: not now']));
  });

  it('holds up no other sweep by one that takes long, and waits for it when it stops', async () => {
    let [ran, ended] = [0, false];
    const count = () => {
      ran += 1;
    };
    let finish = () => {};
    const long = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const worker = work({
      long: {
        everyMs: 10,
        run: () =>
          long.then(() => {
            ended = true;
          }),
      },
      short: { everyMs: 10, run: async () => count() },
    });
    await until('the short one has run', () => ran >= 3);
    const stopped = worker.stop();
    const before = ran;
    finish();
    await stopped;
    expect([ended, ran]).toEqual([true, before]);
  });

  it('runs in one worker at a time, and in another one when that dies', async () => {
    const ran: number[] = [];
    const sweepOf = (i: number) => ({ expire: { everyMs: 20, run: async () => void ran.push(i) } });
    const first = work(sweepOf(0));
    await until('the first has run', () => ran.length > 0);
    // Its turn lasts for as long as the test needs.
    await until('it has a turn', async () => (await redis.persist(keys.sweep('expire'))) === 1);
    let asked = 0;
    const ask = () => {
      asked += 1;
      return true;
    };
    work(sweepOf(1), { inService: ask });
    await until('the second has tried more than once', () => asked >= 3);
    expect(ran).not.toContain(1);
    await first.stop();
    await redis.pexpire(keys.sweep('expire'), 1);
    await until('the second runs', () => ran.includes(1));
  });

  it('runs nothing while Redis is out of service', async () => {
    let [ran, inService, asked] = [0, false, 0];
    const run = async () => {
      ran += 1;
    };
    const ask = () => {
      asked += 1;
      return inService;
    };
    work({ expire: { everyMs: 10, run } }, { inService: ask });
    await until('it has been asked', () => asked >= 3);
    expect([ran, await redis.exists(keys.sweep('expire'))]).toEqual([0, 0]);
    inService = true;
    await until('it runs', () => ran > 0);
  });
});

describe('SweepTurns', () => {
  const workers = Array.from({ length: 5 }, () => new SweepTurns(redis));
  const [first, second] = workers as [SweepTurns, SweepTurns];
  const asks = async (...names: [SweepTurns, string][]) =>
    Promise.all(names.map(([turns, name]) => turns.take(name, 60_000)));

  it('gives a turn to one of many, for less than the interval', async () => {
    const taken = await Promise.all(workers.map((turns) => turns.take('tend', 60_000)));
    expect(taken.filter(Boolean)).toHaveLength(1);
    expect(await redis.pttl(keys.sweep('tend'))).toBeLessThanOrEqual(48_000);
    expect(await first.take('expire', 60_000)).toBe(true);
  });

  it('lets a worker run a frequent sweep several times in its turn, for a second at most', async () => {
    expect(await first.take('publish', 250)).toBe(true);
    expect(await second.take('publish', 250)).toBe(false);
    expect(await redis.pttl(keys.sweep('publish'))).toBeLessThanOrEqual(800);
    await redis.config('RESETSTAT');
    expect(await first.take('publish', 250)).toBe(true);
    expect(await redis.info('commandstats')).not.toContain('cmdstat_set:');
    await until('the second takes over', () => second.take('publish', 250));
  });

  it('does not wait for a turn that a clock which went back has made long', async () => {
    await redis.set(keys.sweep('archive'), '1', 'PX', 3_600_000);
    expect(await asks([first, 'archive'])).toEqual([false]);
    expect(await asks([first, 'archive'])).toEqual([true]);
  });

  it('gives turns to every worker while Redis is full', async () => {
    await redis.config('SET', 'maxmemory', '1');
    expect(await asks([first, 'velocity'], [second, 'velocity'])).toEqual([true, true]);
  });
});
