import { createHash } from 'node:crypto';
import { uuidv7 } from 'uuidv7';
import type { CampaignId, ReservationId } from '../domain/ids.js';
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

/** Table `redemption_attempts`. */
export class RedemptionAttempts {
  constructor(readonly database: Database) {}

  /**
   * Inserts all attempts with one statement.
   * @throws EngineUnavailable; pg.DatabaseError when Postgres rejects one of them
   */
  async insert(attempts: readonly TimedAttempt[]): Promise<void> {
    const column = <Value>(value: (attempt: TimedAttempt) => Value) => attempts.map(value);
    await this.database.query(
      `insert into redemption_attempts (attempt_id, at, action, outcome, campaign_id, code, code_hash, user_id, device_fp,
         network, reservation_id)
       select n.id, ms(n.at), n.action, n.outcome, n.campaign_id, n.code, n.code_hash, n.user_id, n.device_fp, n.network,
         n.reservation_id
       from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::text[],
         $9::text[], $10::text[], $11::uuid[])
         as n(id, at, action, outcome, campaign_id, code, code_hash, user_id, device_fp, network, reservation_id)
       on conflict (attempt_id) do nothing`,
      [
        column(({ id }) => id),
        column(({ atMs }) => Math.floor(atMs)),
        column(({ action }) => action),
        column(({ outcome }) => outcome),
        column(({ campaignId }) => campaignId),
        column(({ code, codeExists }) => (codeExists ? code : null)),
        column(({ code, codeExists }) => (codeExists || code === null ? null : hashOf(code))),
        column(({ userId }) => userId),
        column(({ deviceFp }) => deviceFp),
        column(({ network }) => network),
        column(({ reservationId }) => reservationId),
      ],
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
