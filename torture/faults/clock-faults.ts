import { type Fault, type Lane, lastFor } from './fault.js';

const LANES: readonly Lane[] = ['clock'];
const HOUR_MS = 3_600_000;

/** What happens to clocks. */
export const CLOCK_FAULTS: readonly Fault[] = [
  {
    name: 'process-clock',
    about: 'the clock of an API or worker process jumps by up to three hours and comes back',
    lanes: LANES,
    weight: 2,
    async strike({ cluster, random }) {
      const clock = cluster.clocks.get(random.pick([...cluster.clocks.keys()]));
      clock?.move(random.int(-3 * HOUR_MS, 3 * HOUR_MS));
      await lastFor(random, 1_000, 8_000);
      clock?.move(0);
    },
  },
  {
    name: 'redis-clock',
    about: 'the clock of both Redis servers jumps by some seconds and comes back (needs a C compiler)',
    lanes: LANES,
    weight: 1,
    async strike({ cluster, history, random }) {
      if (!cluster.redisClock) return;
      const movedMs = 1_000 * random.int(1, 10) * (random.chance(0.5) ? 1 : -1);
      history.event({ what: 'redis-clock', movedMs });
      cluster.redisClock.move(movedMs);
      await lastFor(random, 1_000, 6_000);
      cluster.redisClock.move(0);
    },
  },
];
