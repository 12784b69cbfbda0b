import { createHash } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import type { CampaignId, ReservationId } from '../domain/ids.js';
import { Batch } from './batch.js';
import type { Database } from './pool.js';

/** An attempt of a user with a code or a campaign, and its outcome. */
export type Attempt = {
  action: 'validate' | 'redeem' | 'checkout';
  /** `valid`, `redeemed`, `reserved`, `queued`, or the code of the error. */
  outcome: string;
  campaignId: CampaignId | null;
  /** The canonical code; null when none was sent. */
  code: string | null;
  /** Whether the code exists. Other texts are stored as a hash only, because they may be anything, even secrets. */
  codeExists: boolean;
  userId: string | null;
  deviceFp: string | null;
  /** IPv4 address or IPv6 /64 (api/guards/caller/address.ts). */
  network: string | null;
  reservationId: ReservationId | null;
};

/** An attempt with its time in ms since 1970, and an id, so that writing it twice is harmless. */
export type TimedAttempt = Attempt & { id: string; atMs: number };

const ROWS = new Batch({
  ...{
    id: 'uuid',
    atMs: 'bigint',
    action: 'text',
    outcome: 'text',
    campaignId: 'uuid',
    code: 'text',
    codeHash: 'text',
  },
  ...{ userId: 'text', deviceFp: 'text', network: 'text', reservationId: 'uuid' },
});

/** Table `redemption_attempts`. */
export class RedemptionAttempts {
  constructor(readonly database: Database) {}

  /**
   * Inserts all attempts with one statement.
   * @throws EngineUnavailable; pg.DatabaseError when Postgres rejects one of them
   */
  async insert(attempts: readonly TimedAttempt[]): Promise<void> {
    const rows = attempts.map((attempt) => ({
      ...attempt,
      atMs: Math.floor(attempt.atMs),
      code: attempt.codeExists ? attempt.code : null,
      codeHash: attempt.codeExists || attempt.code === null ? null : hashOf(attempt.code),
    }));
    await this.database.query(
      `insert into redemption_attempts (attempt_id, at, action, outcome, campaign_id, code, code_hash, user_id, device_fp,
         network, reservation_id)
       select n.id, ms(n.atMs), n.action, n.outcome, n.campaignId, n.code, n.codeHash, n.userId, n.deviceFp, n.network,
         n.reservationId
       from ${ROWS.sql} on conflict (attempt_id) do nothing`,
      ROWS.of(rows),
    );
  }

  /**
   * Deletes attempts that were made before `before`, oldest first, at most `limit`. Their ids, which have an index, are
   * by the clocks of the APIs, so the time of each is compared as well.
   * @param before by the clock of Redis
   * @returns how many were removed; fewer than `limit` when nothing is left to remove
   */
  async prune(before: Date, limit: number): Promise<number> {
    const { rowCount } = await this.database.query(
      `delete from redemption_attempts where attempt_id in (
         select attempt_id from redemption_attempts where attempt_id < $1 and at < $2 order by attempt_id limit $3)`,
      [firstIdOf(before), before, limit],
    );
    return rowCount ?? 0;
  }
}

export const newAttemptId = (): string => uuidv7();

/** A hash of 96 bits in 16 characters, whatever the length of the code. */
const hashOf = (code: string): string => createHash('sha256').update(code).digest('base64url').slice(0, 16);

/** The lowest UUIDv7 of a millisecond. */
function firstIdOf(moment: Date): string {
  const hex = moment.getTime().toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
}
