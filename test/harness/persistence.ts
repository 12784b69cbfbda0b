import type pg from 'pg';
import type { RawEntry } from '../../shared/contracts/journal.js';
import type { Verdict } from '../../shared/contracts/verdict.js';
import type { CampaignRules } from '../../shared/domain/campaign.js';
import { drawCodes } from '../../shared/domain/codes.js';
import type { CampaignTerms } from '../../shared/domain/terms.js';
import type { PartDeps } from '../../shared/image/campaign-part.js';
import { compareCampaign } from '../../shared/image/compare-campaign.js';
import { Metrics } from '../../shared/observability/metrics.js';
import { CampaignsTable, type NewCampaign } from '../../shared/postgres/campaigns.js';
import { CodesTable } from '../../shared/postgres/codes.js';
import { JournalHistories } from '../../shared/postgres/journal-histories.js';
import { Database } from '../../shared/postgres/pool.js';
import { RecoveredEntries } from '../../shared/postgres/recovered-entries.js';
import { RedemptionsTable } from '../../shared/postgres/redemptions.js';
import type { WrittenEvents } from '../../shared/projection/event-writer.js';
import { JournalCursor } from '../../shared/projection/journal-cursor.js';
import { readEpoch, writeEpoch } from '../../shared/redis/epoch.js';
import type { Journal } from '../../shared/redis/journal.js';
import { JOURNAL_START, journalPlace } from '../../shared/redis/journal-ids.js';
import { keys } from '../../shared/redis/keys.js';
import { RequestNames } from '../../shared/redis/request-names.js';
import { SaleCopy } from '../../shared/sale/sale-copy.js';
import { Persist } from '../../worker/persist/persist.js';
import { RefusedEntries } from '../../worker/persist/refused-entries.js';
import { type Applied, applyRecovered } from '../../worker/recovery/apply-recovered.js';
import { TestCampaign } from './campaign.js';
import { atEnd } from './cleanup.js';
import { createTestDatabase } from './engines.js';
import { recordingLog } from './recording-log.js';
import { describeCampaign, type Sale, TEST_LIMITS } from './sale.js';

/** Postgres behind a sale: a database of its own and the worker's writing, called directly. */
export async function startPersistence(sale: Sale): Promise<Persistence> {
  const { url, client } = await createTestDatabase();
  const epoch = await readEpoch(sale.redis);
  // As a worker does when it puts this Redis into service.
  await client.query(
    `insert into journal_histories (generation, server, after_id, reason, opened_at) values ($1, $2, '0-0', 'test', now())`,
    [epoch?.generation, epoch?.server],
  );
  // What was persisted elsewhere and trimmed is not missing here.
  const { firstId, lastId } = await sale.journal.position();
  const first = journalPlace(firstId ?? lastId);
  if (firstId === null || first[1] > 0) {
    const before = firstId === null ? lastId : `${first[0]}-${first[1] - 1}`;
    await client.query('update journal_cursor set last_id = $1', [before]);
  }
  return new Persistence(sale, client, connectDatabase(url), url);
}

/** A pool as the product makes it; closed with the test file. */
export function connectDatabase(url: string): Database {
  const database = new Database({
    url,
    name: 'tests',
    connections: 6,
    statementMs: 20_000,
    connectMs: 5_000,
    onError: () => {},
  });
  atEnd('a pool', () => database.close());
  return database;
}

export type PersistOptions = {
  batchEntries?: number;
  database?: Database;
  journal?: Journal;
  refused?: RefusedEntries;
  publish?: (written: WrittenEvents) => void;
};

export class Persistence {
  readonly log = recordingLog();
  readonly metrics = new Metrics(false);
  readonly campaigns: CampaignsTable;
  readonly cursor: JournalCursor;
  readonly refused: RefusedEntries;
  readonly #persist: Persist;

  constructor(
    readonly sale: Sale,
    /** A connection for reading rows, and for changes by other programs. */
    readonly sql: pg.Client,
    readonly database: Database,
    readonly url: string,
  ) {
    this.campaigns = new CampaignsTable(database);
    this.cursor = new JournalCursor(database);
    const { cursor, metrics, log } = this;
    this.refused = new RefusedEntries({
      ...{ sale: sale.store, copy: new SaleCopy(sale.redis), database },
      ...{ redemptions: new RedemptionsTable(database), cursor, metrics, log },
    });
    this.#persist = this.persistWith();
  }

  persistWith(options: PersistOptions = {}): Persist {
    const {
      batchEntries = 500,
      database = this.database,
      journal = this.sale.journal,
      refused = this.refused,
      publish = () => {},
    } = options;
    const cursor = new JournalCursor(database);
    const histories = new JournalHistories(database);
    const { metrics, log } = this;
    return new Persist({
      database,
      journal,
      cursor,
      histories,
      refused,
      requests: new RequestNames(this.sale.redis),
      metrics,
      log,
      limits: { batchEntries, idempotencyTtlMs: TEST_LIMITS.idempotencyTtlMs },
      publish,
    });
  }

  /** Writes all current entries of the journal. */
  async persist(persist = this.#persist): Promise<void> {
    await persist.upTo(await this.sale.journal.lastId());
  }

  /**
   * Redis loses its journal with everything that is not persisted, a new history begins, and what the processes kept of
   * it is applied, as in a recovery.
   */
  async loseJournal(kept: readonly RawEntry[]): Promise<Applied> {
    const { redis } = this.sale;
    const epoch = await readEpoch(redis);
    const next = { generation: (epoch?.generation ?? 0) + 1, server: 'test' };
    await redis.del(keys.journal);
    await writeEpoch(redis, next);
    await this.sql.query(
      `insert into journal_histories (generation, server, after_id, reason, opened_at) values ($1, $2, $3, 'test', now())`,
      [next.generation, next.server, await this.cursor.read()],
    );
    return this.recover(kept);
  }

  async recover(kept: readonly RawEntry[]): Promise<Applied> {
    const recovered = new RecoveredEntries(this.database);
    await recovered.save('a process', kept);
    const redemptions = new RedemptionsTable(this.database);
    const { database, cursor, metrics, log } = this;
    const histories = [{ generation: Number.MAX_SAFE_INTEGER, afterId: JOURNAL_START }];
    return applyRecovered({ database, recovered, cursor, redemptions, metrics, log }, histories, new Map());
  }

  /** Puts a campaign into Postgres only. */
  async storeCampaign(
    terms: Partial<CampaignTerms & Pick<NewCampaign, 'totalLimit' | 'status' | 'productId' | 'type' | 'code'>> = {},
    rules: CampaignRules = {},
  ): Promise<TestCampaign> {
    const stored = await this.campaigns.insert({ ...describeCampaign(terms), rules });
    if (!stored) throw new Error('there is a campaign for this product');
    return new TestCampaign(this.sale, stored);
  }

  /** Puts a campaign into Postgres and Redis, as an operator does. */
  async openCampaign(
    terms: Parameters<Persistence['storeCampaign']>[0] = {},
    rules: CampaignRules = {},
  ): Promise<TestCampaign> {
    return this.sale.load(await this.storeCampaign(terms, rules));
  }

  /** Issues further codes of a campaign, as the worker does. @returns how many it has by then */
  async issueCodes(campaign: TestCampaign, count: number): Promise<number> {
    const { id } = campaign.terms;
    const codes = new CodesTable(this.database);
    const all = await this.database.transaction(async (client) => {
      const last = await codes.lockSeries(id, client);
      const fresh = drawCodes(count, { prefix: '', symbols: 12 }).map((code, i) => ({
        code,
        codeNo: last + i + 1,
        userId: null,
      }));
      await codes.insert(id, fresh, client);
      return last + count;
    });
    await campaign.addCodes(all);
    return all;
  }

  /** Compares a campaign, as the ledger does. */
  async verdictOf({ product }: TestCampaign): Promise<Verdict> {
    const stored = await this.campaigns.find(product);
    if (!stored) throw new Error('the campaign is not in Postgres');
    return compareCampaign({ parts: [this.part], redemptions: new RedemptionsTable(this.database) }, stored);
  }

  /** Where the campaigns are. */
  get part(): PartDeps {
    return { sale: this.sale.store.reader, journal: this.sale.journal, cursor: this.cursor };
  }

  /** Rows of a campaign in the order in which its reservations were made. */
  async redemptions(campaign: TestCampaign): Promise<Record<string, unknown>[]> {
    const { rows } = await this.sql.query('select * from redemptions where campaign_id = $1 order by redemption_id', [
      campaign.terms.id,
    ]);
    return rows;
  }

  async redemption(id: string): Promise<Record<string, unknown> | undefined> {
    return (await this.sql.query('select * from redemptions where redemption_id = $1', [id])).rows[0];
  }

  async tickets(campaign: TestCampaign): Promise<Record<string, unknown>[]> {
    const { rows } = await this.sql.query(
      'select line_no::int, user_id, qty, status, reservation_id, order_id, code_no from waiting_tickets where campaign_id = $1 order by line_no',
      [campaign.terms.id],
    );
    return rows;
  }

  async campaignRow(
    campaign: TestCampaign,
  ): Promise<{ status: string; total_limit: number | null; taken: number } | undefined> {
    const { rows } = await this.sql.query(
      'select status, total_limit::float8, taken::float8 from campaigns where campaign_id = $1',
      [campaign.terms.id],
    );
    return rows[0];
  }

  /** Of each reservation: its state in Redis, and the status and the reason of its row. */
  async bothSides(campaign: TestCampaign, ids: readonly string[]): Promise<unknown[][]> {
    const sides: unknown[][] = [];
    for (const id of ids) {
      const row = await this.redemption(id);
      sides.push([(await campaign.reservation(id))?.state, row?.status, row?.reason]);
    }
    return sides;
  }

  /** Whether nothing is left to be written. */
  async isCaughtUp(): Promise<boolean> {
    const { journal } = this.sale;
    return (await this.cursor.read()) === (await journal.lastId()) && (await journal.backlog()).entries === 0;
  }

  async rejects(): Promise<{ journal_id: string; fields: Record<string, string>; reason: string }[]> {
    return (await this.sql.query('select journal_id, fields, reason from journal_rejects order by journal_id')).rows;
  }

  /** Writes a row behind the product's back, as a person with psql or another system would. */
  async insertByHand(
    campaign: TestCampaign,
    row: { user: string; qty?: number; slot?: number; status?: string; code?: number },
  ): Promise<void> {
    await this.sql.query(
      `insert into redemptions (redemption_id, campaign_id, user_id, order_id, qty, slot, status, reserved_at, code_no)
       values (gen_random_uuid(), $1, $2, 'by-hand', $3, $4, $5, now(), $6)`,
      [campaign.terms.id, row.user, row.qty ?? 1, row.slot ?? 1, row.status ?? 'redeemed', row.code ?? null],
    );
  }
}
