import type pg from 'pg';
import type { JournalEntry, RawEntry } from '../../shared/contracts/journal.js';
import type { CampaignNo, ProductId, ReservationId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { voidedEvent } from '../../shared/postgres/events-of-entries.js';
import type { JournalCursor } from '../../shared/postgres/journal-cursor.js';
import { insertEvents } from '../../shared/postgres/outbox.js';
import { isRefusal, type Queryable } from '../../shared/postgres/pool.js';
import type { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import type { SaleStore } from '../../shared/redis/sale-store.js';

/** Constraints that mean "somebody else has this allowance": the unit is real and goes to the next. */
const ALLOWANCE_CONSTRAINTS = new Set(['redemptions_one_per_allowance', 'redemptions_within_limit']);

/** Another row uses the code: the unit is real, the code is not to be had. */
const CODE_CONSTRAINT = 'redemptions_one_per_code';

/**
 * What becomes of an entry that Postgres refuses by itself. A reservation, or a late payment that took a unit again, is
 * voided: in Redis by lua/void.lua and here as a row with its reason. Anything else is kept in journal_rejects, counted
 * and logged as an error. Never silence.
 */
export class RefusedEntries {
  constructor(
    readonly sale: SaleStore,
    readonly redemptions: RedemptionsTable,
    readonly cursor: JournalCursor,
    readonly metrics: Metrics,
    readonly log: Log,
  ) {}

  async settle(client: Queryable, raw: RawEntry, entry: JournalEntry | null, error: Error): Promise<void> {
    const constraint = isRefusal(error) ? ((error as pg.DatabaseError).constraint ?? error.code ?? '') : error.name;
    if (entry && isRefusal(error) && (entry.kind === 'reserved' || entry.kind === 'redeemed')) {
      const product = await this.sale.productOf(entry.no as CampaignNo);
      if (product && (await this.#void(client, product, entry, constraint))) return;
    }
    await this.cursor.reject(client, raw, `${constraint}: ${error.message}`);
    this.metrics.rejected.inc();
    this.log.error(
      { err: error, journal_id: raw.journalId, kind: raw.fields.kind },
      'a journal entry was rejected; see journal_rejects',
    );
  }

  /** @returns false when Postgres takes not even the voided row, as with a value that fits no column */
  async #void(
    client: Queryable,
    product: ProductId,
    entry: Extract<JournalEntry, { kind: 'reserved' | 'redeemed' }>,
    constraint: string,
  ): Promise<boolean> {
    const unit =
      constraint === CODE_CONSTRAINT
        ? 'code_used'
        : ALLOWANCE_CONSTRAINTS.has(constraint)
          ? 'returns'
          : 'never_existed';
    const outcome = await this.sale.void(product, entry.reservation as ReservationId, unit, constraint);
    await client.query('savepoint voided');
    try {
      if (entry.kind === 'reserved') await this.redemptions.void(client, entry, constraint);
      else await this.redemptions.voidExisting(client, entry.reservation, constraint);
      await insertEvents(client, [voidedEvent(entry.no, entry.reservation, constraint)]);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      await client.query('rollback to savepoint voided');
      return false;
    }
    this.metrics.voided.inc({ constraint });
    this.log.error(
      { campaign: product, reservation: entry.reservation, constraint, redis: outcome.kind },
      'Postgres refused a reservation; it was voided',
    );
    return true;
  }
}
