import fc from 'fast-check';

/** At least `fewest`, then up to `most` of those that begin within `forMs`, which a busy machine does not reach. */
export type Runs = { fewest: number; most?: number; forMs?: number };

/** Between two looks at the clock. */
const AT_ONCE = 5;

/**
 * Tries a property on fresh random values.
 * @param isMet while it is false, the time does not end the runs
 * @returns how many runs it made
 */
export async function tryOften<Values>(
  property: fc.IAsyncProperty<Values>,
  { fewest, most = fewest, forMs = 0 }: Runs,
  isMet: () => boolean = () => true,
): Promise<number> {
  const end = performance.now() + forMs;
  let made = 0;
  for (; made < fewest || (made < most && (performance.now() < end || !isMet())); made += AT_ONCE)
    await fc.assert(property, { numRuns: AT_ONCE });
  return made;
}
