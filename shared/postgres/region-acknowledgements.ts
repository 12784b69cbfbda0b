import type { ReservationId } from '../domain/ids.js';
import type { RegionName } from '../domain/regions.js';
import { Batch } from './batch.js';
import type { Queryable } from './pool.js';

/** What users and services ask another region to decide. */
export const REGION_OPERATIONS = ['redeem', 'checkout', 'confirm', 'extend', 'release', 'refund', 'leave'] as const;
export type RegionOperation = (typeof REGION_OPERATIONS)[number];

/**
 * A state that a response names: that of a reservation, or `queued` and `left` of a place in line. `paid_again`: a
 * second payment was recorded. `extended`: the deadline was moved.
 */
export const ACKNOWLEDGED_STATES = [
  ...(['reserved', 'redeemed', 'released', 'expired', 'refunded'] as const),
  ...(['queued', 'left', 'extended', 'paid_again'] as const),
] as const;
export type AcknowledgedState = (typeof ACKNOWLEDGED_STATES)[number];

/** A decision of another region that this one returned to its client, without code and user. */
export type RegionAcknowledgement = {
  id: string;
  /** ms since 1970, by the clock of Redis of the region that returned it. */
  atMs: number;
  /** The region that decided, and the owner epoch under which it did. */
  region: RegionName;
  epoch: number;
  operation: RegionOperation;
  /** Of a place in line: the one that its unit will have. */
  reservation: ReservationId;
  /** null = the process did not know the campaign yet */
  product: string | null;
  status: AcknowledgedState;
  /** Units that the reservation has, if some were given back; null = the response does not say. */
  qty: number | null;
  /** Of a confirmed payment; null = the call named none. */
  payment: string | null;
  requestId: string;
  /** Decisions of any region before this one that could not be recorded. */
  unrecorded: number;
};

/** A place in the order of the table. */
export type AcknowledgementCursor = Pick<RegionAcknowledgement, 'id' | 'atMs'>;

type Row = {
  acknowledgement_id: string;
  at_ms: number;
  region: string;
  epoch: string;
  operation: RegionOperation;
  reservation_id: ReservationId;
  product_id: string | null;
  status: AcknowledgedState;
  qty: number | null;
  payment_ref: string | null;
  request_id: string;
  unrecorded: number;
};

const ROWS = new Batch({
  ...{ id: 'uuid', atMs: 'bigint', region: 'text', epoch: 'bigint', operation: 'text', reservation: 'uuid' },
  ...{ product: 'text', status: 'text', qty: 'int', payment: 'text', requestId: 'text', unrecorded: 'int' },
});

/** Table `region_acknowledgements`. */
export class RegionAcknowledgements {
  constructor(readonly database: Queryable) {}

  /** Inserts rows with one statement. A row may be inserted again. @throws EngineUnavailable */
  async insert(rows: readonly RegionAcknowledgement[]): Promise<void> {
    await this.database.query(
      `insert into region_acknowledgements (acknowledgement_id, acknowledged_at, region, epoch, operation, reservation_id,
         product_id, status, qty, payment_ref, request_id, unrecorded)
       select n.id, ms(n.atMs), n.region, n.epoch, n.operation, n.reservation, n.product, n.status, n.qty, n.payment, n.requestId,
         n.unrecorded
       from ${ROWS.sql}
       on conflict (acknowledged_at, acknowledgement_id) do update set unrecorded = excluded.unrecorded`,
      ROWS.of(rows.map((row) => ({ ...row, atMs: Math.floor(row.atMs) }))),
    );
  }

  /**
   * A page of the decisions of a region under earlier owner epochs than `below`, oldest first; and every row before
   * which decisions could not be recorded, whatever its region.
   */
  async page(
    region: RegionName,
    below: number,
    after: AcknowledgementCursor,
    limit: number,
  ): Promise<RegionAcknowledgement[]> {
    const { rows } = await this.database.query<Row>(
      `select *, (extract(epoch from acknowledged_at) * 1000)::float8 as at_ms from region_acknowledgements
       where (acknowledged_at, acknowledgement_id) > (ms($3), $4::uuid)
         and ((region = $1 and epoch < $2) or unrecorded > 0)
       order by acknowledged_at, acknowledgement_id limit $5`,
      [region, below, Math.floor(after.atMs), after.id, limit],
    );
    return rows.map(fromRow);
  }

  /** Deletes what is older than `keepMs`, oldest first. @returns how many were deleted */
  async prune(keepMs: number, limit: number): Promise<number> {
    const { rowCount } = await this.database.query(
      `delete from region_acknowledgements where (acknowledged_at, acknowledgement_id) in (
         select acknowledged_at, acknowledgement_id from region_acknowledgements
         where acknowledged_at < now() - make_interval(secs => $1::float8 / 1000)
         order by acknowledged_at, acknowledgement_id limit $2)`,
      [keepMs, limit],
    );
    return rowCount ?? 0;
  }
}

function fromRow(row: Row): RegionAcknowledgement {
  const { acknowledgement_id, at_ms, region, epoch, operation, reservation_id, product_id, status, qty } = row;
  return {
    ...{ id: acknowledgement_id, atMs: at_ms, region, epoch: Number(epoch), operation, reservation: reservation_id },
    ...{
      product: product_id,
      status,
      qty,
      payment: row.payment_ref,
      requestId: row.request_id,
      unrecorded: row.unrecorded,
    },
  };
}
