import { EngineUnavailable } from '../../shared/errors/faults.js';

/** Redis has less than Postgres, so it cannot be used to repair Postgres. */
export class RedisBehind extends Error {
  override readonly name = 'RedisBehind';
}

/** A shard is empty or being filled, so it proves nothing. */
export class OutOfService extends EngineUnavailable {}

/** Another server continues the journal of a shard, so this one may lack its last entries. */
export class Superseded extends Error {
  override readonly name = 'Superseded';
}

/** The buckets of a campaign contradict each other or Postgres, so that its units cannot be determined. */
export class BucketsDiffer extends Error {
  override readonly name = 'BucketsDiffer';
}

/** The journal has an entry of a campaign that no shard has, so a worker cannot write it after the repair. */
export class EntryOfNoCampaign extends Error {
  override readonly name = 'EntryOfNoCampaign';
}
