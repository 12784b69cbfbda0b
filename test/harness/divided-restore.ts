import { expect } from '@jest/globals';
import type { Findings } from '../../commands/reconcile/findings.js';
import { restoreTogether } from '../../commands/reconcile/restore.js';
import { Transfers } from '../../shared/buckets/transfers.js';
import type { ProductId, UserId } from '../../shared/domain/ids.js';
import type { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import type { Database } from '../../shared/postgres/pool.js';
import { EventStream } from '../../shared/redis/event-stream.js';
import { Rounds } from '../../worker/rounds/rounds.js';
import type { DividedCampaign, DividedSale } from './divided-sale.js';

/** What tests need whose Postgres was set back while divided campaigns were sold. */
export class DividedRestore {
  readonly #transfers: Transfers;
  #users = 0;

  constructor(readonly sale: DividedSale) {
    const committing = Object.assign(Object.create(sale.table) as CampaignBuckets, {
      countLeft: async (...args: Parameters<CampaignBuckets['countLeft']>) => {
        await sale.persistAll();
        return sale.table.countLeft(...args);
      },
    });
    this.#transfers = new Transfers(sale.sales, committing, { transferCommitMs: 5_000 });
  }

  /** Repairs all shards, as the command does. Then workers go on where the journals begin. */
  async repair(dryRun = false, database: Database = this.sale.database): Promise<Findings[]> {
    const { shards, map } = this.sale;
    const [home] = shards;
    if (!home) throw new Error('there is no shard');
    const stream = new EventStream(home.store.scripts, 100_000);
    const parts = shards.map(({ redis, journal, cursor }) => ({ redis, journal, cursor, stream, database }));
    const options = { dryRun, settleMs: 50, bucketsOf: (product: ProductId) => map.bucketsOf(product) };
    const findings = await restoreTogether(parts, options);
    if (!dryRun) await this.sale.persistAll();
    return findings;
  }

  /** Moves units, which have left and arrived afterwards. */
  move({ product, stored }: DividedCampaign, from: number, to: number, units: number, codes = 0): Promise<void> {
    return this.#transfers.move(product, stored.id, [{ from, to, units, codes }]);
  }

  /** Runs rounds until they change nothing more. */
  async rounds({ product, stored }: DividedCampaign): Promise<void> {
    const { sales, map, metrics, log } = this.sale;
    const rounds = new Rounds({
      ...{ sales, metrics, log, divided: () => map.divided, hasTurn: async () => true, transfers: this.#transfers },
      limits: { roundEveryMs: 20, awayMs: 0, promoteBatch: 50, lineSettleMs: 600_000 },
    });
    for (let round = 0; round < 4; round += 1) {
      await rounds.round({
        ...{ product, id: stored.id, completedAt: Number.NEGATIVE_INFINITY, canMove: true },
        ...{ away: new Map<number, number>(), spentSince: null, isOver: false },
      });
      await this.sale.persistAll();
    }
  }

  /** A new user of a bucket. */
  userOf({ product }: DividedCampaign, bucket: number): UserId {
    for (;;) {
      this.#users += 1;
      const user = `shopper-${this.#users}` as UserId;
      if (this.sale.map.bucketOf(product, user) === bucket) return user;
    }
  }

  /** The rows of a campaign, without the times that a repair cannot know. */
  async rowsOf({ product }: DividedCampaign): Promise<object> {
    const read = async (sql: string) => (await this.sale.sql.query(sql, [product])).rows;
    return {
      campaign: await read(
        `select no, campaign_id, status, total_limit, buckets, terms_version, held, redeemed, burned, reservations
         from campaigns where product_id = $1`,
      ),
      buckets: await read(
        `select b.bucket, b.total, b.held, b.redeemed, b.burned, b.reservations, b.sealed_at is not null as sealed
         from campaign_buckets b join campaigns c using (campaign_id) where c.product_id = $1 order by 1`,
      ),
      transfers: await read(
        `select t.from_bucket, t.out_no, t.to_bucket, t.units, t.codes, t.moved_in_at is not null as arrived
         from stock_transfers t join campaigns c using (campaign_id) where c.product_id = $1 order by 1, 2`,
      ),
      places: await read(
        `select t.line_no, t.user_id, t.status, t.reservation_id
         from waiting_tickets t join campaigns c using (campaign_id) where c.product_id = $1 order by 1`,
      ),
      reservations: await read(
        `select r.redemption_id, r.user_id, r.qty, r.status, r.burned, r.line_no, r.code_no
         from redemptions r join campaigns c using (campaign_id) where c.product_id = $1 order by 1`,
      ),
    };
  }

  /** Nothing is lost, duplicated, over the cap or different, and no entry was rejected. */
  async expectWhole(campaign: DividedCampaign): Promise<void> {
    const clean = { lost: 0, duplicated: 0, over_cap: 0, drift: 0, differences: [] };
    expect(await campaign.ledger()).toMatchObject(clean);
    expect((await this.sale.sql.query('select * from journal_rejects')).rows).toEqual([]);
    expect((await this.sale.sql.query("select 1 from redemptions where status = 'voided'")).rows).toEqual([]);
  }
}
