import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import type pg from 'pg';
import { BucketClaims } from '../../shared/buckets/bucket-claims.js';
import { Places } from '../../shared/buckets/places.js';
import { Transfers } from '../../shared/buckets/transfers.js';
import { projectRoot } from '../../shared/config/project-root.js';
import {
  type IdempotencyKey,
  newReservationPrefix,
  type ProductId,
  type ReservationId,
  type UserId,
} from '../../shared/domain/ids.js';
import { shardPrefix } from '../../shared/domain/shards.js';
import { compareCampaign } from '../../shared/image/compare-campaign.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { CampaignBuckets } from '../../shared/postgres/campaign-buckets.js';
import { CampaignsTable, type StoredCampaign } from '../../shared/postgres/campaigns.js';
import { JournalHistories } from '../../shared/postgres/journal-histories.js';
import type { Database } from '../../shared/postgres/pool.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { connectForCommands } from '../../shared/redis/connections.js';
import { writeEpoch } from '../../shared/redis/epoch.js';
import { Journal } from '../../shared/redis/journal.js';
import { RequestNames } from '../../shared/redis/request-names.js';
import { ScriptRunner } from '../../shared/redis/script-runner.js';
import type { ReserveInput } from '../../shared/sale/reserve-input.js';
import { SaleCopy } from '../../shared/sale/sale-copy.js';
import { SaleStore } from '../../shared/sale/sale-store.js';
import { Sales } from '../../shared/sale/sales.js';
import type { BucketHeads } from '../../shared/sale/scripts/buckets.js';
import type { ReserveOutcome } from '../../shared/sale/scripts/reserve.js';
import { ShardMap } from '../../shared/shards/shard-map.js';
import { Persist } from '../../worker/persist/persist.js';
import { RefusedEntries } from '../../worker/persist/refused-entries.js';
import { RedisFill } from '../../worker/recovery/redis-fill.js';
import { restoreCampaign } from '../../worker/recovery/restore-campaign.js';
import { atEnd } from './cleanup.js';
import { createTestDatabase, startTestServer } from './engines.js';
import { connectDatabase } from './persistence.js';
import { recordingLog } from './recording-log.js';
import { describeCampaign, TEST_LIMITS } from './sale.js';

const LUA = join(projectRoot(), 'lua');
const SHARDS = 4;

type Shard = {
  index: number;
  redis: Redis;
  store: SaleStore;
  journal: Journal;
  cursor: JournalCursor;
  persist: Persist;
};

/** Several shards on one real Redis, which differ in their prefix, and the writing of the worker behind each. */
export class DividedSale {
  readonly log = recordingLog();
  readonly metrics = new Metrics(false);
  readonly map = new ShardMap(SHARDS);
  readonly table: CampaignBuckets;
  readonly campaigns: CampaignsTable;
  readonly shards: Shard[] = [];
  readonly sales: Sales;
  readonly #tokens = new Map<number, number>();

  constructor(
    readonly database: Database,
    readonly sql: pg.Client,
    connections: readonly Redis[],
    /** Of the engines, for commands. */
    readonly urls: { redis: string; database: string },
  ) {
    this.table = new CampaignBuckets(database);
    this.campaigns = new CampaignsTable(database);
    for (const [index, redis] of connections.entries()) this.shards.push(this.#shard(index, redis));
    this.sales = new Sales(
      this.shards.map(({ store }) => store),
      this.map,
    );
  }

  static async start(): Promise<DividedSale> {
    const engine = await startTestServer();
    const { url, client } = await createTestDatabase();
    await client.query('update installation set shards = $1', [SHARDS]);
    const connections: Redis[] = [];
    for (let index = 0; index < SHARDS; index += 1) {
      const prefix = shardPrefix(index, SHARDS, false);
      const redis = connectForCommands(engine.url, { commandMs: 20_000, connectMs: 5_000 }, () => {}, prefix);
      atEnd('a connection to Redis', () => redis.disconnect());
      await once(redis, 'ready');
      const generation = generationOf(index);
      await writeEpoch(redis, { generation, server: 'test' });
      await client.query("insert into journal_cursor (shard, last_id) values ($1, '0-0') on conflict do nothing", [
        index,
      ]);
      await client.query(
        `insert into journal_histories (generation, server, after_id, reason, opened_at, shard)
         values ($1, 'test', '0-0', 'test', now(), $2)`,
        [generation, index],
      );
      connections.push(redis);
    }
    return new DividedSale(connectDatabase(url), client, connections, { redis: engine.url, database: url });
  }

  #shard(index: number, redis: Redis): Shard {
    const { database, metrics, log } = this;
    const store = new SaleStore(new ScriptRunner(redis, LUA), TEST_LIMITS);
    const [journal, cursor] = [new Journal(redis), new JournalCursor(database, index, true)];
    const refused = new RefusedEntries({
      ...{ sale: store, copy: new SaleCopy(redis), database },
      ...{ redemptions: new RedemptionsTable(database), cursor, metrics, log },
    });
    const persist = new Persist({
      ...{ database, journal, cursor, refused, metrics, log },
      histories: new JournalHistories(database, index, SHARDS),
      requests: new RequestNames(redis),
      limits: { batchEntries: 50, idempotencyTtlMs: TEST_LIMITS.idempotencyTtlMs },
    });
    return { index, redis, store, journal, cursor, persist };
  }

  /** Creates and opens a campaign with one bucket in each shard. */
  async open(
    total: number,
    line: boolean,
    others: Parameters<typeof describeCampaign>[0] = {},
  ): Promise<DividedCampaign> {
    const terms = describeCampaign({
      productId: `divided-${randomUUID()}` as ProductId,
      maxQty: 1,
      holdSeconds: 3_600,
      waitingRoom: { enabled: line, maxSize: 1_000, presenceSeconds: null },
      ...others,
    });
    const stored = await this.database.transaction(async (client) => {
      const created = await this.campaigns.insert({ ...terms, totalLimit: total, buckets: SHARDS }, client);
      if (!created) throw new Error('the product has a campaign');
      await this.table.create(client, created.id, total, SHARDS);
      return created;
    });
    const buckets = new Map([...this.map.divided, [stored.productId, { id: stored.id, buckets: SHARDS }] as const]);
    this.map.replace({ version: this.map.version + 1, moved: new Map(), buckets, mayExclude: false });
    for (const [bucket, store] of this.sales.all(stored.productId).entries()) {
      const { part } = await this.table.part(stored.id, bucket);
      await store.campaigns.load(stored, undefined, null, null, part);
    }
    return new DividedCampaign(this, stored);
  }

  /** Adds codes to a pool in Postgres. The buckets learn of them later. @param codes total number */
  async issueCodes({ id }: StoredCampaign, codes: number): Promise<void> {
    await this.sql.query(
      `insert into code_series (campaign_id, last_no) values ($1, $2)
       on conflict (campaign_id) do update set last_no = excluded.last_no`,
      [id, codes],
    );
  }

  /** A bucket learns how many codes Postgres has. */
  async learnCodes({ productId, buckets }: StoredCampaign, bucket: number): Promise<void> {
    const codes = (await this.campaigns.find(productId))?.codes ?? 0;
    await this.sales.of(productId, bucket).campaigns.addCodes(productId, codes, buckets);
  }

  /** Writes the journal of one shard. */
  async persist(index: number): Promise<void> {
    const { persist, journal } = this.shards[index] as Shard;
    await persist.upTo(await journal.lastId());
  }

  async persistAll(): Promise<void> {
    for (const { index } of this.shards) await this.persist(index);
  }

  /** A shard loses a campaign and gets it from Postgres, as in a recovery. */
  async refill(index: number, campaign: StoredCampaign): Promise<void> {
    const { store, redis, cursor } = this.shards[index] as Shard;
    const fill = new RedisFill(store.scripts);
    const attempt = (this.#tokens.get(index) ?? 0) + 1;
    this.#tokens.set(index, attempt);
    await this.persist(index);
    const token = `test-${attempt}`;
    await fill.begin(token);
    const bucket = this.map.bucketIn(campaign.productId, index);
    const newest = (await this.campaigns.find(campaign.productId)) ?? campaign;
    const { database, log, table } = this;
    const partOf = async () => (bucket === null ? null : table.part(campaign.id, bucket));
    const { idempotencyTtlMs } = TEST_LIMITS;
    await restoreCampaign({ database, cursor, partOf, sale: store, log, idempotencyTtlMs }, newest, Date.now(), token);
    await fill.end(token, { generation: generationOf(index), server: 'test' });
    await redis.ping();
  }

  /** Transfers of one process, whose calls may be cut off. */
  transfersOf(sales: Sales, table: CampaignBuckets, commitMs = 5_000): Transfers {
    return new Transfers(sales, table, { transferCommitMs: commitMs });
  }
}

type FoundReservation = {
  id: ReservationId;
  bucket: number;
  user: string;
  state: string;
  lineNo: number;
  code: number | null;
};

/** One divided campaign, and what users do with it. */
export class DividedCampaign {
  readonly #claims: BucketClaims;
  readonly #places: Places;

  constructor(
    readonly sale: DividedSale,
    readonly stored: StoredCampaign,
  ) {
    const { sales, table } = sale;
    this.#places = new Places(sales, { placesFreshMs: 0 });
    // The claim waits for the commit, which nothing else makes here.
    const committing = Object.assign(Object.create(table) as CampaignBuckets, {
      countLeft: async (...args: Parameters<CampaignBuckets['countLeft']>) => {
        await sale.persistAll();
        return table.countLeft(...args);
      },
    });
    this.#claims = new BucketClaims(sales, this.#places, sale.transfersOf(sales, committing), {
      claimMs: 60_000,
    });
    for (const { reservations } of sales.stores) reservations.units = this.#claims;
  }

  get product(): ProductId {
    return this.stored.productId;
  }

  /** @param meanwhile happens between the first decision of the user's bucket and what follows from it */
  async checkout(user: string, meanwhile: () => Promise<unknown> = async () => {}): Promise<ReserveOutcome> {
    return this.claim(this.claimOf(user), meanwhile);
  }

  async claim(input: ReserveInput, meanwhile: () => Promise<unknown> = async () => {}): Promise<ReserveOutcome> {
    const first = await this.storeOfUser(input.claim.user).claims.reserve(input);
    await meanwhile();
    return this.#claims.decide(input, first);
  }

  /** A checkout under a new key. */
  claimOf(user: string): ReserveInput {
    return {
      claim: {
        ...{ product: this.product, user: user as UserId, qty: 1, key: randomUUID() as IdempotencyKey, order: null },
        ...{ token: null, device: null, proven: false, holderDevice: null, counted: null, network: '', trace: '' },
        ...{ metadata: null, coupon: null },
      },
      ...{ reservationPrefix: newReservationPrefix(), ticketKey: 't1', newKeys: 60, terms: 0 },
      bucket: { buckets: this.sale.map.bucketsOf(this.product), place: null },
    };
  }

  storeOfUser(user: string): SaleStore {
    return this.storeOf(this.sale.map.bucketOf(this.product, user as UserId));
  }

  storeOf(bucket: number): SaleStore {
    return this.sale.sales.of(this.product, bucket);
  }

  /** Reservations of all buckets. */
  async reservations(): Promise<FoundReservation[]> {
    const found: FoundReservation[] = [];
    for (const [bucket, store] of this.sale.sales.all(this.product).entries())
      for await (const some of store.reader.reservations(this.product, 100))
        for (const [id, { user, state, lineNo, code }] of some)
          found.push({ id: id as ReservationId, bucket, user, state, lineNo, code });
    return found;
  }

  /** The stock and the line of each bucket. */
  async heads(): Promise<BucketHeads[]> {
    const all = await Promise.all(
      this.sale.sales.all(this.product).map((store) => store.buckets.heads(this.product, 1_000)),
    );
    return all.flatMap((one) => (one.kind === 'heads' ? [one] : []));
  }

  /** The numbers of the users who wait, in all buckets. */
  async waiting(): Promise<number[]> {
    return (await this.heads()).flatMap(({ heads }) => heads.map(({ lineNo }) => lineNo));
  }

  /** Compares Redis and Postgres as the ledger does. */
  async ledger() {
    const { shards, database, campaigns, map } = this.sale;
    const parts = Array.from({ length: this.stored.buckets }, (_, bucket) => {
      const { store, journal, cursor } = shards[map.shardOf(this.product, bucket)] as Shard;
      return { sale: store.reader, journal, cursor };
    });
    const campaign = await campaigns.find(this.product);
    if (!campaign) throw new Error('the campaign is missing');
    return compareCampaign({ parts, redemptions: new RedemptionsTable(database) }, campaign);
  }
}

/** Generations of different shards differ. */
const generationOf = (index: number) => 64 * 1_000 + index;
