import type { RegionAcknowledgements } from '../../shared/postgres/region-acknowledgements.js';
import type { RegionTransfers } from '../../shared/postgres/region-transfers.js';

export type ForgetRegionsLimits = {
  acknowledgementsKeepMs: number;
  transfersKeepMs: number;
  pruneBatch: number;
  attemptsPruneBatches: number;
};

/**
 * Deletes decisions of other regions that were returned long ago, and old transfers that are done. One run deletes a
 * bounded number; the next one continues.
 */
export async function forgetRegions(
  acknowledgements: Pick<RegionAcknowledgements, 'prune'>,
  transfers: Pick<RegionTransfers, 'prune'>,
  { acknowledgementsKeepMs, transfersKeepMs, pruneBatch, attemptsPruneBatches }: ForgetRegionsLimits,
): Promise<void> {
  for (let batch = 0; batch < attemptsPruneBatches; batch += 1)
    if ((await acknowledgements.prune(acknowledgementsKeepMs, pruneBatch)) < pruneBatch) break;
  for (let batch = 0; batch < attemptsPruneBatches; batch += 1)
    if ((await transfers.prune(transfersKeepMs, pruneBatch)) < pruneBatch) break;
}
