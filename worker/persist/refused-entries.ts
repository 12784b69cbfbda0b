import type { RawEntry } from '../../shared/contracts/journal.js';
import type { ReservationId } from '../../shared/domain/ids.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { isRefusal, type Queryable } from '../../shared/postgres/pool.js';
import type { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { voidedEvent } from '../../shared/projection/events-of-entries.js';
import type { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { insertEvents } from '../../shared/projection/new-events.js';
import { insertHistory, voidedRow } from '../../shared/projection/write-history.js';
import { unlessRefused } from '../../shared/projection/write-projection.js';
import { Judged, type JudgedDeps, takesUnits } from './judged.js';

/** Another row uses the user's allowance or order. The unit exists, and goes to the next user. */
const TAKEN_CONSTRAINTS = new Set([
  'redemptions_one_per_allowance',
  'redemptions_within_limit',
  'redemptions_one_per_order',
  'redemptions_combinable',
]);

/** Another row uses the code. The unit exists, but the code cannot be issued again. */
const CODE_CONSTRAINT = 'redemptions_one_per_code';

export type RefusedEntriesDeps = JudgedDeps & {
  redemptions: RedemptionsTable;
  cursor: JournalCursor;
  metrics: Metrics;
};

/**
 * Settles an entry that Postgres rejects even when it is written alone. First both engines are compared, and the entry
 * is written again. If Postgres still refuses it, a reservation, or a late payment that took a unit again, is voided:
 * in Redis by lua/void.lua, and in Postgres as a row with its reason. Any other entry is stored in journal_rejects,
 * counted and logged as an error.
 */
export class RefusedEntries {
  constructor(readonly deps: RefusedEntriesDeps) {}

  /** The caller writes the entry again before it settles it. @throws PostgresBehind, EngineUnavailable */
  compare(raw: RawEntry, error: Error, draining: boolean): Promise<Judged> {
    return Judged.compare(this.deps, raw, error, draining);
  }

  /** @param error that of the entry's last attempt */
  async settle(client: Queryable, judged: Judged, error: Error): Promise<void> {
    const { cursor, metrics, log } = this.deps;
    if (isRefusal(error) && (await this.#void(client, judged))) return;
    const { raw, constraint } = judged;
    await cursor.reject(client, raw, `${constraint}: ${error.message}`);
    metrics.rejected.inc();
    log.error(
      { err: error, journal_id: raw.journalId, kind: raw.fields.kind },
      'a journal entry was rejected; see journal_rejects',
    );
  }

  /**
   * @returns false when the entry took no unit of a campaign in Redis, or when Postgres rejects even the voided row,
   *   for example because a value does not fit its column
   */
  async #void(client: Queryable, { entry, product, constraint }: Judged): Promise<boolean> {
    if (!entry || !product || !takesUnits(entry)) return false;
    const { sale, redemptions, cursor, metrics, log } = this.deps;
    const unit =
      constraint === CODE_CONSTRAINT ? 'code_used' : TAKEN_CONSTRAINTS.has(constraint) ? 'returns' : 'never_existed';
    const outcome = await sale.reservations.void(product, entry.reservation as ReservationId, unit, constraint);
    await cursor.lockWrites(client);
    const written = await unlessRefused(client, async () => {
      if (entry.kind === 'reserved') await redemptions.void(client, entry, constraint);
      else await redemptions.voidExisting(client, entry.reservation, constraint);
      await insertEvents(client, [voidedEvent(entry.no, entry.reservation, constraint)]);
      // Redis journals what it voids.
      if (outcome.kind !== 'voided') await insertHistory(client, [voidedRow(entry, '', constraint)]);
    });
    if (written instanceof Error) return false;
    metrics.voided.inc({ constraint });
    log.error(
      { campaign: product, reservation: entry.reservation, constraint, redis: outcome.kind },
      'Postgres refused a reservation; it was voided',
    );
    return true;
  }
}
