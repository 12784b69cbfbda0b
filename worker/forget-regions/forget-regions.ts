import type { RegionAcknowledgements } from '../../shared/postgres/region-acknowledgements.js';

/**
 * Deletes decisions of other regions that were returned long ago. One run deletes a bounded number; the next one
 * continues.
 */
export async function forgetAcknowledgements(
  acknowledgements: Pick<RegionAcknowledgements, 'prune'>,
  limits: { regionAcknowledgementsKeepMs: number; pruneBatch: number; attemptsPruneBatches: number },
): Promise<void> {
  for (let batch = 0; batch < limits.attemptsPruneBatches; batch += 1)
    if ((await acknowledgements.prune(limits.regionAcknowledgementsKeepMs, limits.pruneBatch)) < limits.pruneBatch)
      return;
}
