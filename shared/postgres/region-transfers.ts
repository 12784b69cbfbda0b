import type { ProductId } from '../domain/ids.js';
import type { RegionName } from '../domain/regions.js';
import type { Queryable } from './pool.js';

/**
 * Of the giver: `leaving`, `in_transit`, `arrived`; `refused` when it had too few units, `returning` and `returned`
 * when the taker refused. Of the taker: `arriving`, `arrived`, `refused`. `stuck`: an operator has to compare both
 * regions.
 */
export const TRANSFER_STATUSES = [
  'leaving',
  'in_transit',
  'arriving',
  'arrived',
  'refused',
  'returning',
  'returned',
  'stuck',
] as const;
export type TransferStatus = (typeof TRANSFER_STATUSES)[number];

/** Units of a product that move to or from another region. */
export type RegionTransfer = {
  id: string;
  product: ProductId;
  direction: 'out' | 'in';
  /** The other region. */
  region: RegionName;
  units: number;
  status: TransferStatus;
  /** Why it is not done; null = nothing is wrong. */
  detail: string | null;
  actor: string;
  createdAt: Date;
  updatedAt: Date;
};

type Row = {
  transfer_id: string;
  product_id: ProductId;
  direction: 'out' | 'in';
  region: string;
  units: number;
  status: TransferStatus;
  detail: string | null;
  actor: string;
  created_at: Date;
  updated_at: Date;
};

/** Table `region_transfers`: each region has its side of a transfer. */
export class RegionTransfers {
  constructor(readonly database: Queryable) {}

  /** Records a transfer, unless its id is known. @returns the transfer as it is recorded */
  async begin(
    transfer: Pick<RegionTransfer, 'id' | 'product' | 'direction' | 'region' | 'units' | 'status' | 'actor'>,
  ): Promise<RegionTransfer> {
    const { id, product, direction, region, units, status, actor } = transfer;
    await this.database.query(
      `insert into region_transfers (transfer_id, product_id, direction, region, units, status, actor)
       values ($1, $2, $3, $4, $5, $6, $7) on conflict (transfer_id) do nothing`,
      [id, product, direction, region, units, status, actor],
    );
    const { rows } = await this.database.query<Row>('select * from region_transfers where transfer_id = $1', [id]);
    return transferOf(rows[0] as Row);
  }

  async has(id: string): Promise<boolean> {
    const { rows } = await this.database.query('select 1 from region_transfers where transfer_id = $1', [id]);
    return rows.length > 0;
  }

  /**
   * Locks a transfer until the end of the transaction, so that one process at a time decides its next step.
   * @returns `agedMs`: for how long it has had its status, by the clock of Postgres
   */
  async lock(id: string, client: Queryable): Promise<RegionTransfer & { agedMs: number }> {
    const { rows } = await client.query<Row & { aged_ms: number }>(
      `select *, (extract(epoch from clock_timestamp() - stepped_at) * 1000)::float8 as aged_ms
       from region_transfers where transfer_id = $1 for update`,
      [id],
    );
    const row = rows[0] as (typeof rows)[number];
    return { ...transferOf(row), agedMs: row.aged_ms };
  }

  /** Moves a transfer from one status to another. @returns the transfer, in its own status if it was another already */
  async advance(
    id: string,
    from: TransferStatus,
    to: TransferStatus,
    detail: string | null,
    client: Queryable = this.database,
  ): Promise<RegionTransfer> {
    await client.query(
      `update region_transfers set status = $3, detail = $4, stepped_at = now(), updated_at = now()
       where transfer_id = $1 and status = $2`,
      [id, from, to, detail],
    );
    const { rows } = await client.query<Row>('select * from region_transfers where transfer_id = $1', [id]);
    return transferOf(rows[0] as Row);
  }

  /** Records why a transfer waits. */
  async note(id: string, detail: string): Promise<void> {
    await this.database.query('update region_transfers set detail = $2, updated_at = now() where transfer_id = $1', [
      id,
      detail,
    ]);
  }

  /** Leaves units that are on their way for longer than `giveUpMs` to an operator. */
  async giveUp(giveUpMs: number, detail: string): Promise<void> {
    await this.database.query(
      `update region_transfers set status = 'stuck', detail = $2, stepped_at = now(), updated_at = now()
       where status = 'in_transit' and created_at < now() - make_interval(secs => $1::float8 / 1000)`,
      [giveUpMs, detail],
    );
  }

  /** Deletes transfers that are done and were begun long ago, oldest first. @returns how many were deleted */
  async prune(keepMs: number, limit: number): Promise<number> {
    const { rowCount } = await this.database.query(
      `delete from region_transfers where transfer_id in (
         select transfer_id from region_transfers where status in ('arrived', 'refused', 'returned')
           and created_at < now() - make_interval(secs => $1::float8 / 1000) order by created_at limit $2)`,
      [keepMs, limit],
    );
    return rowCount ?? 0;
  }

  /** Transfers that this region gives and that no process has worked on for `idleMs`. */
  async open(idleMs: number, limit: number): Promise<RegionTransfer[]> {
    const { rows } = await this.database.query<Row>(
      `select * from region_transfers where status in ('leaving', 'in_transit', 'returning')
         and updated_at < now() - make_interval(secs => $1::float8 / 1000) order by updated_at limit $2`,
      [idleMs, limit],
    );
    return rows.map(transferOf);
  }

  /** Transfers of either direction that are not done, oldest first, also those that are stuck. */
  async unfinished(limit: number): Promise<RegionTransfer[]> {
    const { rows } = await this.database.query<Row>(
      `select * from region_transfers where status in ('leaving', 'in_transit', 'arriving', 'returning', 'stuck')
       order by created_at limit $1`,
      [limit],
    );
    return rows.map(transferOf);
  }

  /** The latest transfers of a product, latest first. */
  async ofProduct(product: ProductId, limit: number): Promise<RegionTransfer[]> {
    const { rows } = await this.database.query<Row>(
      'select * from region_transfers where product_id = $1 order by created_at desc limit $2',
      [product, limit],
    );
    return rows.map(transferOf);
  }

  /** Units that have left this region and are in no other one, of a product or of all (null). */
  async inTransit(product: ProductId | null): Promise<number> {
    const { rows } = await this.database.query<{ units: string }>(
      `select coalesce(sum(units), 0) as units from region_transfers
       where direction = 'out' and status in ('in_transit', 'returning') and ($1::text is null or product_id = $1)`,
      [product],
    );
    return Number(rows[0]?.units ?? 0);
  }

  /** Whether a change of stock is committed: the journal writes it and its audit entry in one transaction. */
  async isCommitted(product: ProductId, requestId: string, client: Queryable = this.database): Promise<boolean> {
    const { rows } = await client.query<{ found: boolean }>(
      `select exists (select 1 from audit_log join campaigns using (campaign_id)
         where product_id = $1 and action = 'campaign.restock' and request_id = $2) as found`,
      [product, requestId],
    );
    return rows[0]?.found ?? false;
  }
}

function transferOf(row: Row): RegionTransfer {
  const { transfer_id, product_id, direction, region, units, status, detail, actor } = row;
  return {
    ...{ id: transfer_id, product: product_id, direction, region, units, status, detail, actor },
    ...{ createdAt: row.created_at, updatedAt: row.updated_at },
  };
}
