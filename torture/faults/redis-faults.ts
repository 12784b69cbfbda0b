import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Fault, type FaultStage, type Lane, lastFor } from './fault.js';

const LANES: readonly Lane[] = ['redis'];
const KIB = 1_024;

/** What happens to the Redis primary and its replica. */
export const REDIS_FAULTS: readonly Fault[] = [
  {
    name: 'redis-restart',
    about: 'the primary is killed and started again with its data',
    lanes: LANES,
    weight: 3,
    async strike({ cluster: { redis }, random }) {
      await redis.kill(redis.primary);
      await lastFor(random, 100, 4_000);
      await redis.launch(redis.primary);
      await redis.replicated();
    },
  },
  {
    name: 'redis-empty',
    about: 'the primary and the replica are killed and start without data',
    lanes: LANES,
    weight: 2,
    setsBack: true,
    strike: (stage) => startOn(stage, 'empty', null),
  },
  {
    name: 'redis-snapshot',
    about: 'the primary starts on a copy of its data that is some seconds old; the replica follows it',
    lanes: LANES,
    weight: 2,
    setsBack: true,
    async strike(stage) {
      const copy = join(stage.folder, 'snapshot');
      await stage.cluster.redis.copyData(stage.cluster.redis.primary, copy);
      await lastFor(stage.random, 500, 6_000);
      await startOn(stage, 'snapshot', copy);
    },
  },
  {
    name: 'redis-promote',
    about:
      'the primary is killed, the replica, which may lack the last seconds, is promoted; the old primary follows it later',
    lanes: LANES,
    weight: 3,
    async strike({ cluster, history, random }) {
      const { redis } = cluster;
      const lags = random.chance(0.5);
      if (lags) redis.replica.engine?.kill('SIGSTOP');
      if (lags) await lastFor(random, 100, 2_500);
      history.event({ what: 'redis-lost', mode: 'promoted' });
      await redis.kill(redis.primary);
      redis.replica.engine?.kill('SIGCONT');
      await lastFor(random, 50, 1_500);
      await redis.promote();
      cluster.switchRedis();
      await lastFor(random, 500, 3_000);
      await redis.join(redis.replica);
    },
  },
  {
    name: 'redis-demote',
    about: 'a clean failover (FAILOVER): connections to the demoted primary stay open, new ones reach the new primary',
    lanes: LANES,
    weight: 2,
    async strike({ cluster, random }) {
      if (await cluster.redis.failOver()) cluster.switchRedis({ keep: true });
      await lastFor(random, 500, 3_000);
    },
  },
  {
    name: 'redis-partition',
    about: 'some processes stay on the old primary while the others use the promoted replica, and come back later',
    lanes: LANES,
    weight: 2,
    strike: partition,
  },
  {
    name: 'redis-full',
    about: 'the primary reaches its memory limit (CONFIG SET maxmemory), which is raised later',
    lanes: LANES,
    weight: 2,
    async strike({ cluster: { redis }, random }) {
      const used = Number((await redis.info(redis.primary)).get('used_memory'));
      await redis.command(redis.primary, ['CONFIG', 'SET', 'maxmemory', used + random.int(4, 512) * KIB]);
      await lastFor(random, 1_000, 8_000);
      await redis.command(redis.primary, ['CONFIG', 'SET', 'maxmemory', 0]);
    },
  },
  {
    name: 'redis-script-flush',
    about: 'the primary forgets its scripts (SCRIPT FLUSH)',
    lanes: LANES,
    weight: 1,
    async strike({ cluster: { redis } }) {
      await redis.command(redis.primary, ['SCRIPT', 'FLUSH']);
    },
  },
  {
    name: 'redis-freeze',
    about: 'the primary is stopped (SIGSTOP) and continues',
    lanes: LANES,
    weight: 2,
    async strike({ cluster: { redis }, random }) {
      const { engine } = redis.primary;
      engine?.kill('SIGSTOP');
      await lastFor(random, 300, 6_000);
      engine?.kill('SIGCONT');
    },
  },
];

/** Both servers are killed; the primary starts on other data, and the replica takes them over. */
async function startOn({ cluster, history, random }: FaultStage, mode: 'empty' | 'snapshot', data: string | null) {
  const { redis } = cluster;
  history.event({ what: 'redis-lost', mode });
  await Promise.all([redis.kill(redis.primary), redis.kill(redis.replica)]);
  await redis.replaceData(redis.primary, data);
  await lastFor(random, 50, 2_000);
  await redis.launch(redis.primary);
  await redis.join(redis.replica);
}

async function partition({ cluster, history, random }: FaultStage): Promise<void> {
  const { redis, connected } = cluster;
  const some = connected.filter(() => random.chance(0.4));
  const isolated = some.length === 0 || some.length === connected.length ? [random.pick(connected)] : some;
  const names = isolated.map(({ name }) => name);
  history.event({ what: 'redis-lost', mode: 'promoted' });
  history.event({ what: 'isolated', phase: 'begin', processes: names });
  await redis.promote();
  cluster.switchRedis({ except: names });
  await lastFor(random, 500, 6_000);
  // Half of the time the old primary learns of the new one before its connections are cut.
  const keep = random.chance(0.5);
  for (const { links } of isolated) links.redis.switchTo(redis.primary.port, { keep });
  await redis.join(redis.replica);
  if (keep) await sleep(500);
  history.event({ what: 'isolated', phase: 'end', processes: names });
}
