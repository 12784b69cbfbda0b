import { ALL_FAULTS } from './faults/all-faults.js';
import type { Fault, Lane } from './faults/fault.js';
import type { Random } from './random.js';

export type PlannedFault = { id: number; atMs: number; fault: string; lane: Lane };

/** Milliseconds between the end of one fault and the beginning of the next in a lane, shortest and longest. */
const GAPS: Record<Lane, readonly [number, number]> = {
  redis: [4_000, 14_000],
  postgres: [6_000, 20_000],
  'api-1': [10_000, 40_000],
  'api-2': [10_000, 40_000],
  'worker-1': [10_000, 40_000],
  'worker-2': [10_000, 40_000],
  network: [3_000, 15_000],
  clock: [10_000, 40_000],
};
/** Of a fault itself, for the plan; a lane that is late goes on with its next fault when it can. */
const TYPICAL_MS = 4_000;
/** In each round faults begin during the first part; in the rest the system must work. */
const ROUND_MS = 100_000;
const CALM_MS = 30_000;
/** Losses of Redis are hardest while Postgres is away. */
const POSTGRES_WEIGHT = 5;
/** When the other fault begins, before or after the one of Redis. */
const COMBINED_MS = [-3_000, 500] as const;
/** The first fault waits until shoppers hold units and places. */
const BEGIN_MS = 3_000;

/** The faults of a run, from its seed: the same seed, length and names give the same plan. */
export function planFaults(
  random: Random,
  lengthMs: number,
  { faults: names, canReconcile }: { faults: readonly string[] | null; canReconcile: boolean },
): PlannedFault[] {
  const isUsual = (fault: Fault) => canReconcile || fault.needsReconcile !== true;
  const faults = ALL_FAULTS.filter((fault) => (names ? names.includes(fault.name) : isUsual(fault)));
  const lanes = [...new Set(faults.flatMap(({ lanes: all }) => all))];
  const planned = lanes.flatMap((lane) => planLane(random.fork(lane), lane, lengthMs, faults));
  const combined = combine(random.fork('combine'), planned, lanes, faults);
  return combined.sort((a, b) => a.atMs - b.atMs).map((one, i) => ({ id: i + 1, ...one }));
}

type Unnumbered = Omit<PlannedFault, 'id'>;

/** Lets a fault of another lane strike at about the time of half of Redis's faults: what is hard is seldom alone. */
function combine(
  random: Random,
  planned: readonly Unnumbered[],
  lanes: readonly Lane[],
  faults: readonly Fault[],
): Unnumbered[] {
  const others = lanes.filter((lane) => lane !== 'redis' && lane !== 'clock');
  let all = [...planned];
  for (const { atMs: near } of planned.filter(({ lane }) => lane === 'redis')) {
    if (others.length === 0 || random.chance(0.5)) continue;
    const lane = random.weighted(others.map((one) => [one, one === 'postgres' ? POSTGRES_WEIGHT : 1] as const));
    const atMs = Math.max(BEGIN_MS, near + random.int(...COMBINED_MS));
    all = all.filter((one) => one.lane !== lane || Math.abs(one.atMs - atMs) > 2 * TYPICAL_MS);
    all.push({ atMs, fault: random.weighted(candidatesOf(lane, faults)).name, lane });
  }
  return all;
}

const candidatesOf = (lane: Lane, faults: readonly Fault[]) =>
  faults.filter(({ lanes }) => lanes.includes(lane)).map((fault) => [fault, fault.weight] as const);

function planLane(random: Random, lane: Lane, lengthMs: number, faults: readonly Fault[]): Unnumbered[] {
  const candidates = candidatesOf(lane, faults);
  const planned: Unnumbered[] = [];
  const [shortest, longest] = GAPS[lane];
  for (let atMs = BEGIN_MS + random.int(0, longest / 2); atMs < lengthMs; ) {
    if (atMs % ROUND_MS < ROUND_MS - CALM_MS) planned.push({ atMs, fault: random.weighted(candidates).name, lane });
    atMs += TYPICAL_MS + random.int(shortest, longest);
  }
  return planned;
}
