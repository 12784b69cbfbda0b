import type { Acknowledged } from '../contracts/acknowledged.js';
import type { JournalEntry } from '../contracts/journal.js';
import { eventsOfPromise } from './events-of-entries.js';
import { insertEvents } from './outbox.js';
import { type Database, isRefusal, type Queryable } from './pool.js';

/** Table `salvaged_promises`: written by API processes when Redis lost its data, used up by the worker that fills it again. */
export class Salvage {
  constructor(readonly database: Database) {}

  async write(promises: readonly Acknowledged[]): Promise<void> {
    if (promises.length === 0) return;
    await this.database.query(
      `insert into salvaged_promises (journal_id, promise) select j ->> 'journalId', j from unnest($1::jsonb[]) j`,
      [promises.map((promise) => JSON.stringify(promise))],
    );
  }

  /** Those of the entries that Postgres takes without Redis. */
  writeEntries(entries: readonly JournalEntry[]): Promise<void> {
    return this.write(entries.flatMap((entry) => acknowledgedOf(entry) ?? []));
  }

  async isEmpty(): Promise<boolean> {
    const { rows } = await this.database.query('select 1 from salvaged_promises limit 1');
    return rows.length === 0;
  }

  /**
   * Writes every salvaged promise to the tables, in the journal's order, each unless it is there already or its reservation
   * went further: what Postgres has is at least as new. The cap and the allowances hold as always.
   * @returns how many were applied, and those that Postgres refused
   */
  async apply(): Promise<{ applied: number; refused: { promise: Acknowledged; reason: string }[] }> {
    const { rows } = await this.database.query<{ salvage_id: string; promise: Acknowledged }>(
      'select salvage_id, promise from salvaged_promises order by salvage_id',
    );
    const order = (promise: Acknowledged) => promise.journalId.split('-').map(Number) as [number, number];
    const sorted = [...rows].sort((a, b) => {
      const [aMs, aSeq] = order(a.promise);
      const [bMs, bSeq] = order(b.promise);
      return aMs - bMs || aSeq - bSeq || Number(a.salvage_id) - Number(b.salvage_id);
    });
    const refused: { promise: Acknowledged; reason: string }[] = [];
    let applied = 0;
    for (const { salvage_id, promise } of sorted) {
      try {
        await this.database.transaction(async (client) => {
          await client.query('delete from salvaged_promises where salvage_id = $1', [salvage_id]);
          const changed = await applyOne(client, promise);
          applied += changed;
          if (changed > 0) await this.#tell(client, promise);
        });
      } catch (error) {
        if (!isRefusal(error)) throw error;
        refused.push({ promise, reason: error.constraint ?? error.message });
        await this.database.query('delete from salvaged_promises where salvage_id = $1', [salvage_id]);
      }
    }
    return { applied, refused };
  }

  /** In the order of the outbox, which is kept by the lock on the cursor. */
  async #tell(client: Queryable, promise: Acknowledged): Promise<void> {
    await client.query('select 1 from journal_cursor for update');
    await insertEvents(client, eventsOfPromise(promise));
  }
}

async function applyOne(client: Queryable, promise: Acknowledged): Promise<number> {
  const atMs = Number(promise.journalId.split('-')[0]);
  switch (promise.kind) {
    case 'reserved': {
      const { reservation, no, user, order, qty, dueMs, key, answer, device, code, terms } = promise;
      const result = await client.query(
        `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, pay_before,
           redeemed_at, idempotency_key, idempotency_answer, device_fp, code_no, terms_version)
         select $1::uuid, c.campaign_id, $3::text, $4, $5, ${LOWEST_FREE_SLOT}, case when $6::bigint = 0 then 'redeemed' else 'reserved' end,
           ms($7), ms(nullif($6::bigint, 0)), case when $6::bigint = 0 then ms($7) end, $8, $9, nullif($10, ''),
           $11, $12
         from campaigns c where c.no = $2 on conflict (redemption_id) do nothing`,
        [reservation, no, user, order, qty, dueMs, atMs, key, answer, device, code, terms],
      );
      return result.rowCount ?? 0;
    }
    case 'queued': {
      const { reservation, no, user, order, qty, key, answer, device, code } = promise;
      const result = await client.query(
        `insert into waiting_tickets (campaign_id, line_no, user_id, qty, status, reservation_id, order_id, joined_at,
           idempotency_key, idempotency_answer, device_fp, code_no)
         select c.campaign_id, 1 + coalesce((select max(line_no) from waiting_tickets t where t.campaign_id = c.campaign_id), 0),
           $3, $4, 'waiting', $1::uuid, nullif($5, ''), ms($6), $7, $8, nullif($9, ''), $10
         from campaigns c where c.no = $2 and c.status <> 'closed'
           and not exists (select 1 from waiting_tickets t where t.campaign_id = c.campaign_id and t.reservation_id = $1::uuid)
         on conflict do nothing`,
        [reservation, no, user, qty, order, atMs, key, answer, device, code],
      );
      return result.rowCount ?? 0;
    }
    case 'redeemed':
    case 'released':
    case 'expired': {
      const result = await client.query(
        `update redemptions set status = $2, redeemed_at = case when $2 = 'redeemed' then ms($3) end,
           released_at = case when $2 <> 'redeemed' then ms($3) end
         where redemption_id = $1 and status = 'reserved'`,
        [promise.reservation, promise.kind, atMs],
      );
      return result.rowCount ?? 0;
    }
    case 'refunded': {
      const result = await client.query(
        `update redemptions set status = 'refunded', burned = $2, refunded_at = ms($3)
         where redemption_id = $1 and status = 'redeemed'`,
        [promise.reservation, promise.burned, atMs],
      );
      return result.rowCount ?? 0;
    }
  }
}

const LOWEST_FREE_SLOT = `(select min(s) from generate_series(1, c.per_user_limit + 1) s where not exists (
  select 1 from redemptions r where r.campaign_id = c.campaign_id and r.user_id = $3 and r.slot = s
    and (r.status in ('reserved', 'redeemed') or r.burned)))`;

function acknowledgedOf(entry: JournalEntry): Acknowledged | null {
  switch (entry.kind) {
    case 'reserved':
    case 'queued':
    case 'redeemed':
    case 'refunded':
      return entry;
    case 'released':
    case 'expired':
      return { kind: entry.kind, reservation: entry.reservation, journalId: entry.journalId };
    default:
      return null;
  }
}
