import { setFlagsFromString } from 'node:v8';

/**
 * V8 remembers for each place in the code whether most of the objects that it makes live long. If they do for a
 * moment, as in the first second of a flood, it makes them where only a full collection finds garbage, for hours. Then
 * each request stays in memory until such a collection, and so does all that it refers to. Records: decision 80.
 */
const FLAGS = [
  '--no-allocation-site-pretenuring',
  /** A full collection comes when the heap has grown by this share since the last one. By default up to fourfold. */
  '--heap-growing-percent=50',
];

/** Chooses how V8 collects garbage. Must be called when a program starts, before code is optimized. */
export function configureHeap(): void {
  for (const flag of FLAGS) setFlagsFromString(flag);
}
