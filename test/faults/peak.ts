import { until } from '../harness/until.js';
import type { Stage } from './stage.js';

/** Half of the units are sold and people are on their way: the moment at which a fault hurts. */
export async function atThePeak(crowd: ReturnType<Stage['crowd']>): Promise<void> {
  await until('half of the units are gone', () => crowd.completed.length >= 250);
  await until('people are on their way', () => crowd.inFlight > 0);
}
