import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from '../cluster/cluster.js';
import type { History } from '../history.js';
import type { Random } from '../random.js';

/** What is struck: faults of the same lane never overlap, those of different lanes do. */
export type Lane = 'redis' | 'postgres' | 'api-1' | 'api-2' | 'worker-1' | 'worker-2' | 'network' | 'clock';

export type FaultStage = { cluster: Cluster; history: History; random: Random; folder: string };

export type Fault = {
  name: string;
  about: string;
  lanes: readonly Lane[];
  weight: number;
  /** Needs `npm run reconcile`; without it the fault is only used when it is asked for by name. */
  needsReconcile?: true;
  /** Causes the fault, waits, and heals it. */
  strike(stage: FaultStage, lane: Lane): Promise<void>;
};

export const PROCESS_LANES = ['api-1', 'api-2', 'worker-1', 'worker-2'] as const;

/** A time between two limits, drawn from the fault's own generator. */
export const lastFor = (random: Random, fromMs: number, toMs: number): Promise<void> => sleep(random.int(fromMs, toMs));
