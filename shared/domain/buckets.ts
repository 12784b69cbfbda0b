import { campaignNoOf, type ReservationId, type UserId } from './ids.js';
import { spread } from './shards.js';

/**
 * A campaign may have several buckets: parts of its stock, each in another shard of Redis (docs/buckets.md). A user
 * belongs to one bucket, which decides every request of that user.
 */

/**
 * A number of a campaign has 31 bits: four of the region (regions.ts), four of the bucket, and 23 that count the
 * campaigns.
 */
export const MAX_BUCKETS = 16;
const COUNTING_BITS = 23;
const BUCKET_MASK = (MAX_BUCKETS - 1) << COUNTING_BITS;

/** The bucket that speaks for its campaign, and the only one of a campaign that is not divided. */
export const FIRST_BUCKET = 0;

/** The bucket of a user: the leading bits of the FNV-1a hash. @returns 0 to `buckets` - 1 */
export function bucketOfUser(user: UserId, buckets: number): number {
  return buckets === 1 ? 0 : Math.floor((spread(user) / 2 ** 32) * buckets);
}

/** The bucket of an idempotency record. @param user "" = of an operator, whose records are in bucket 0 */
export function bucketOfResponse(user: string, buckets: number): number {
  return user === '' ? 0 : bucketOfUser(user as UserId, buckets);
}

/**
 * The shard of a bucket. Neighbouring shards are on one node, so the buckets of a campaign are as far apart as the
 * number of shards allows.
 * @param buckets of the campaign, at most `shards`
 */
export function shardOfBucket(home: number, bucket: number, buckets: number, shards: number): number {
  return (home + Math.floor((bucket * shards) / buckets)) % shards;
}

/** The bucket that a shard has of a campaign; null = none. */
export function bucketOfShard(home: number, shard: number, buckets: number, shards: number): number | null {
  const distance = (shard - home + shards) % shards;
  const bucket = Math.ceil((distance * buckets) / shards);
  return bucket < buckets && shardOfBucket(home, bucket, buckets, shards) === shard ? bucket : null;
}

/**
 * The number that Redis, the journal and reservation ids have for a bucket of a campaign. Bucket 0 has the number of
 * the campaign, like a campaign without buckets.
 */
export function numberOfBucket(campaignNo: number, bucket: number): number {
  return campaignNo | (bucket << COUNTING_BITS);
}

/** The campaign number in a number of `numberOfBucket`. */
export function campaignOfNumber(no: number): number {
  return no & ~BUCKET_MASK;
}

/** The bucket in a number of `numberOfBucket`. */
export function bucketOfNumber(no: number): number {
  return (no & BUCKET_MASK) >>> COUNTING_BITS;
}

/** The bucket in a reservation id. @param reservation an id that was parsed or made here */
export function bucketOfReservation(reservation: ReservationId | string): number {
  return bucketOfNumber(campaignNoOf(reservation));
}

/**
 * Splits the units of a campaign evenly; bucket 0 gets the remainder. @param total null = unlimited
 * @returns the units of each bucket
 */
export function splitUnits(total: number | null, buckets: number): (number | null)[] {
  const share = total === null ? null : Math.floor(total / buckets);
  return Array.from({ length: buckets }, (_, bucket) =>
    share === null || total === null ? null : share + (bucket === 0 ? total - share * buckets : 0),
  );
}

/**
 * How many of the codes of a pool are at home in a bucket: code number n in bucket (n - 1) mod `buckets`
 * (lua/includes/bucket_codes.lua).
 */
export function homeCodes(codes: number, bucket: number, buckets: number): number {
  return Math.floor((codes - bucket + buckets - 1) / buckets);
}
