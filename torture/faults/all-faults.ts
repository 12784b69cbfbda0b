import { CLOCK_FAULTS } from './clock-faults.js';
import type { Fault } from './fault.js';
import { MOVE_FAULTS } from './move-faults.js';
import { NETWORK_FAULTS } from './network-faults.js';
import { POSTGRES_FAULTS } from './postgres-faults.js';
import { PROCESS_FAULTS } from './process-faults.js';
import { REDIS_FAULTS } from './redis-faults.js';

export const ALL_FAULTS: readonly Fault[] = [
  ...PROCESS_FAULTS,
  ...REDIS_FAULTS,
  ...POSTGRES_FAULTS,
  ...NETWORK_FAULTS,
  ...CLOCK_FAULTS,
  ...MOVE_FAULTS,
];

export function faultNamed(name: string): Fault {
  const fault = ALL_FAULTS.find((one) => one.name === name);
  if (!fault) throw new Error(`there is no fault ${name}`);
  return fault;
}
