import { setTimeout as sleep } from 'node:timers/promises';
import { ACTORS } from '../../shared/domain/actors.js';
import type { CampaignStatus } from '../../shared/domain/campaign.js';
import type { ProductId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { SaleStore } from '../../shared/sale/sale-store.js';
import type { StatusAction } from '../../shared/sale/scripts/campaign.js';

/** How long a difference must last. An operator or the clock changes all buckets within milliseconds. */
const SETTLE_MS = 500;

/**
 * Gives a bucket of a divided campaign the status of bucket 0, if it has missed a change: because it was away, or
 * because the process that changed the buckets died. A closed bucket 0 is final and is followed at once. Any other
 * difference must be the same in two looks, so that the end of one change is not taken for the beginning of another.
 * @returns unknown = bucket 0 is away or not in Redis, and this bucket is not closed
 */
export async function followHome(
  bucket: SaleStore,
  home: SaleStore,
  product: ProductId,
  log: Log,
): Promise<'same' | 'followed' | 'unknown'> {
  const first = await missedAction(bucket, home, product);
  if (first === 'unknown') return first;
  if (first === null) return 'same';
  if (first !== 'close') {
    await sleep(SETTLE_MS);
    const second = await missedAction(bucket, home, product);
    if (second !== first) return second === 'unknown' ? second : 'same';
  }
  const outcome = await bucket.campaigns.setStatus(product, first, ACTORS.clock, '', 'bucket 0 has changed');
  if (outcome.kind !== 'changed') return 'same';
  log.warn({ campaign: product, status: outcome.after }, 'a bucket that missed a change of its campaign has followed');
  return 'followed';
}

/**
 * Reads this bucket before bucket 0. Changes begin with bucket 0, so a change that reached this bucket is not read as
 * one that bucket 0 lacks.
 * @returns the action that this bucket has missed; null = none
 */
async function missedAction(
  bucket: SaleStore,
  home: SaleStore,
  product: ProductId,
): Promise<StatusAction | 'unknown' | null> {
  const own = (await bucket.reader.stock(product))?.status;
  if (own === undefined || own === 'closed') return null;
  const ofHome = await statusIn(home, product);
  return ofHome === null ? 'unknown' : actionFor(own, ofHome);
}

async function statusIn(home: SaleStore, product: ProductId): Promise<CampaignStatus | null> {
  try {
    return (await home.reader.stock(product))?.status ?? null;
  } catch (error) {
    if (error instanceof EngineUnavailable) return null;
    throw error;
  }
}

/** A bucket whose clock is ahead may be open while bucket 0 is scheduled. That is not a missed change. */
function actionFor(own: CampaignStatus, ofHome: CampaignStatus): StatusAction | null {
  if (own === ofHome || ofHome === 'draft') return null;
  if (ofHome === 'closed') return 'close';
  if (own === 'draft') return 'publish';
  if (ofHome === 'paused') return 'pause';
  if (own === 'paused') return 'resume';
  return own === 'scheduled' && ofHome === 'open' ? 'open' : null;
}
