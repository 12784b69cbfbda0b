import { ALL_FAULTS } from './faults/all-faults.js';
import { type Fault, type Lane, PROCESS_LANES, processNames } from './faults/fault.js';
import type { Random } from './random.js';

/** `after`: it waits, too, until the fault that strikes this lane at that moment is healed. */
export type PlannedFault = { id: number; atMs: number; fault: string; lane: Lane; after?: Lane };

/** Milliseconds between the end of one fault and the beginning of the next in a lane, shortest and longest. */
const GAPS: Record<Lane, readonly [number, number]> = {
  redis: [4_000, 14_000],
  postgres: [6_000, 20_000],
  'api-1': [10_000, 40_000],
  'api-2': [10_000, 40_000],
  'api-3': [10_000, 40_000],
  'api-4': [10_000, 40_000],
  'worker-1': [10_000, 40_000],
  'worker-2': [10_000, 40_000],
  network: [3_000, 15_000],
  clock: [10_000, 40_000],
  moves: [8_000, 24_000],
};
/** Of a fault itself, for the plan; a lane that is late goes on with its next fault when it can. */
const TYPICAL_MS = 4_000;
/** In each round faults begin during the first part; in the rest the system must work. */
const ROUND_MS = 100_000;
const CALM_MS = 30_000;
/** Losses of Redis are hardest while Postgres is away, or a campaign is on its way. */
const WEIGHTS: Partial<Record<Lane, number>> = { postgres: 5, moves: 3 };
/** When the other fault begins, before or after the one of Redis. */
const COMBINED_MS = [-3_000, 500] as const;
/** The first fault waits until shoppers hold units and places. */
const BEGIN_MS = 3_000;
/** Within this time after one engine the other one is set back, unless it waits for the repair of the first. */
const BOTH_BACK_MS = [2_000, 22_000] as const;

/** The faults of a run, from its seed: the same seed, length and names give the same plan. */
export function planFaults(
  random: Random,
  lengthMs: number,
  options: { faults: readonly string[] | null; canReconcile: boolean; shards: number; apis: number },
): PlannedFault[] {
  const faults = ALL_FAULTS.filter((fault) => mayStrike(fault, options));
  const processes = processNames(options.apis);
  const isThere = (lane: Lane) => !(PROCESS_LANES as readonly Lane[]).includes(lane) || processes.includes(lane);
  const lanes = [...new Set(faults.flatMap(({ lanes: all }) => all))].filter(isThere);
  const planned = lanes.flatMap((lane) => planLane(random.fork(lane), lane, lengthMs, faults));
  const combined = combine(random.fork('combine'), planned, lanes, faults);
  return setBackBoth(random.fork('both'), combined, lengthMs, faults)
    .sort((a, b) => a.atMs - b.atMs)
    .map((one, i) => ({ id: i + 1, ...one }));
}

function mayStrike(fault: Fault, { faults: names, canReconcile, shards }: Parameters<typeof planFaults>[2]): boolean {
  if (fault.needsShards && shards === 1) return false;
  return names ? names.includes(fault.name) : canReconcile || fault.needsReconcile !== true;
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
    const lane = random.weighted(others.map((one) => [one, WEIGHTS[one] ?? 1] as const));
    const atMs = Math.max(BEGIN_MS, near + random.int(...COMBINED_MS));
    all = all.filter((one) => one.lane !== lane || Math.abs(one.atMs - atMs) > 2 * TYPICAL_MS);
    all.push({ atMs, fault: random.weighted(candidatesOf(lane, faults)).name, lane });
  }
  return all;
}

/**
 * Once in each round both engines are set back, one after the other and in turns in either order, with a move between
 * them.
 */
function setBackBoth(
  random: Random,
  planned: readonly Unnumbered[],
  lengthMs: number,
  faults: readonly Fault[],
): Unnumbered[] {
  const setBacks = (lane: Lane) => candidatesOf(lane, faults).filter(([{ setsBack }]) => setsBack);
  const moves = candidatesOf('moves', faults);
  if (setBacks('redis').length === 0 || setBacks('postgres').length === 0) return [...planned];
  let all = [...planned];
  const order: [Lane, Lane] = random.chance(0.5) ? ['redis', 'postgres'] : ['postgres', 'redis'];
  const latest = Math.min(lengthMs, ROUND_MS - CALM_MS) - BOTH_BACK_MS[1];
  for (let round = 0; round + latest < lengthMs; round += ROUND_MS, order.reverse()) {
    const atMs = round + random.int(BEGIN_MS, Math.max(BEGIN_MS, latest));
    const endMs = atMs + random.int(...BOTH_BACK_MS);
    const isFree = (one: Unnumbered) => one.atMs < atMs - 2 * TYPICAL_MS || one.atMs > endMs + 2 * TYPICAL_MS;
    all = all.filter((one) => isFree(one) || !(order.includes(one.lane) || one.lane === 'moves'));
    const [first, second] = order;
    const after = random.chance(0.5) ? { after: first } : {};
    const setBack = (lane: Lane) => ({ fault: random.weighted(setBacks(lane)).name, lane });
    all.push({ atMs, ...setBack(first) }, { atMs: endMs, ...setBack(second), ...after });
    const betweenMs = random.int(atMs, endMs);
    if (moves.length > 0) all.push({ atMs: betweenMs, fault: random.weighted(moves).name, lane: 'moves' });
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
