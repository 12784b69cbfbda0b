import { setFlagsFromString } from 'node:v8';

/**
 * V8 remembers for each place in the code whether most of the objects that it makes live long. If they do for a
 * moment, as in the first second of a flood, it makes them where only a full collection finds garbage, for hours. Then
 * each request stays in memory until such a collection, and so does all that it refers to. Records: decision 80.
 */
const PRETENURING_OFF = '--no-allocation-site-pretenuring';

/**
 * Chooses how V8 collects garbage. Must be called when a program starts, before code is optimized.
 * @param growth a full collection comes when the heap has grown by this share since the last one, percent. By default
 * up to fourfold.
 */
export function configureHeap(growth: number): void {
  for (const flag of [PRETENURING_OFF, `--heap-growing-percent=${growth}`]) setFlagsFromString(flag);
}
