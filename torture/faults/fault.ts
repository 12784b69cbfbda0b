import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from '../cluster/cluster.js';
import type { History } from '../history.js';
import type { Random } from '../random.js';

/** A run has at most so many APIs. */
const APIS = ['api-1', 'api-2', 'api-3', 'api-4'] as const;
const WORKERS = ['worker-1', 'worker-2'] as const;
export const PROCESS_LANES = [...APIS, ...WORKERS] as const;

/** What is struck: faults of the same lane never overlap, those of different lanes do. */
export type Lane = 'redis' | 'postgres' | (typeof PROCESS_LANES)[number] | 'network' | 'clock' | 'moves';

export type FaultStage = { cluster: Cluster; history: History; random: Random; folder: string };

export type Fault = {
  name: string;
  about: string;
  lanes: readonly Lane[];
  weight: number;
  /** Needs `npm run reconcile`; without it the fault is only used when it is asked for by name. */
  needsReconcile?: true;
  /** Needs several shards. */
  needsShards?: true;
  /** An engine loses what it had since some seconds ago, or everything. */
  setsBack?: true;
  /** Causes the fault, waits, and heals it. */
  strike(stage: FaultStage, lane: Lane): Promise<void>;
};

/** The processes of a run with so many APIs. */
export const processNames = (apis: number): Lane[] => [...APIS.slice(0, apis), ...WORKERS];

/** A time between two limits, drawn from the fault's own generator. */
export const lastFor = (random: Random, fromMs: number, toMs: number): Promise<void> => sleep(random.int(fromMs, toMs));
