import { Refused } from '../../shared/errors/faults.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';

/** How long a change of partitions waits for running statements. Meanwhile, later statements wait behind it. */
const LOCK_LIMIT_MS = 2_000;

/** `rows`: as the statistics estimate it. `no`: null = the partition of all campaigns without their own. */
export type Partition = { name: string; no: number | null; product: string | null; rows: number; bytes: number };

/**
 * The partitions of the table `redemptions`. A campaign with its own partition can be dropped at once, however many
 * rows it has. All others share `redemptions_shared` (decision 44).
 */
export class RedemptionPartitions {
  constructor(readonly database: Database) {}

  /** Returns the partitions, largest first. */
  async list(): Promise<Partition[]> {
    const { rows } = await this.database.query<Partition>(
      `select r.relname as name, c.no, c.product_id as product, greatest(r.reltuples, 0)::float8 as rows,
         pg_total_relation_size(r.oid)::float8 as bytes
       from pg_inherits i join pg_class r on r.oid = i.inhrelid
       left join campaigns c on r.relname = 'redemptions_c' || c.no
       where i.inhparent = 'redemptions'::regclass order by bytes desc, name`,
    );
    return rows;
  }

  /**
   * Gives a campaign its own partition. It must not have reservations yet. First proves that the shared partition has
   * none of its rows, while writers go on; without the proof, Postgres would read it whole while they wait.
   * @throws Refused; EngineUnavailable when running statements held the table for too long
   */
  async add(campaign: StoredCampaign): Promise<Partition> {
    const existing = (await this.list()).find(({ no }) => no === campaign.no);
    if (existing) return existing;
    if (campaign.reservations > 0) {
      throw new Refused(
        `The campaign has ${campaign.reservations} reservations already. Only a campaign without reservations can get its own partition.`,
      );
    }
    const proof = `redemptions_without_c${campaign.no}`;
    await this.#change(
      `alter table redemptions_shared drop constraint if exists ${proof}, add constraint ${proof}
         check (not (campaign_id is not null and campaign_id = '${campaign.id}'::uuid)) not valid`,
    );
    await this.#change(`alter table redemptions_shared validate constraint ${proof}`);
    await this.#change(
      'select 1 from journal_cursor for update',
      `select redemptions_add_partition('${campaign.id}')`,
      `alter table redemptions_shared drop constraint ${proof}`,
    );
    const added = (await this.list()).find(({ no }) => no === campaign.no);
    if (!added) throw new Error('the partition that was made does not exist');
    return added;
  }

  /**
   * Whether events of a campaign wait to be sent: to the stream, a webhook or Kafka. A Kafka to which no worker has
   * sent for a day was turned off, and does not count.
   * @param published `seq` of the last event in the stream
   */
  async hasUnsentEvents(campaign: StoredCampaign, published: number): Promise<boolean> {
    const { rows } = await this.database.query(
      `select 1 from outbox where campaign_id = $1
         and seq > least($2::bigint, (select min(last_seq) from webhook_endpoints where enabled),
           (select min(last_seq) from outbox_cursors
            where coalesce(leased_until, created_at) > now() - interval '1 day')) limit 1`,
      [campaign.id, published],
    );
    return rows.length > 0;
  }

  /**
   * Drops the rows of a campaign. Its counters, minutes, line, codes, terms and audit log stay. The caller has checked
   * that the campaign is closed and nothing needs the rows.
   * @param actor for the audit log
   * @throws Refused when the campaign has no partition of its own, or its minutes are not counted yet
   */
  async drop(campaign: StoredCampaign, actor: string): Promise<void> {
    const partition = (await this.list()).find(({ no }) => no === campaign.no);
    if (!partition) {
      throw new Refused('The campaign has no partition of its own, so its rows cannot be dropped at once. They stay.');
    }
    await this.database.transaction(async (client) => {
      await client.query(`set local lock_timeout = ${LOCK_LIMIT_MS}`);
      // First, because it may wait for an operator, and the journal must not. Operators lock in the same order.
      await client.query('select 1 from campaigns where campaign_id = $1 for no key update', [campaign.id]);
      const heads = await headsOf(client, campaign.id);
      await client.query(
        `insert into audit_log (at, actor, action, campaign_id, before, request_id)
         values (now(), $1, 'campaign.drop_redemptions', $2, $3, '')`,
        [actor, campaign.id, JSON.stringify({ reservations: campaign.reservations, bytes: partition.bytes, ...heads })],
      );
      await client.query('select 1 from journal_cursor for update');
      const pending = await client.query('select 1 from sale_minutes_pending where campaign_id = $1', [campaign.id]);
      if (pending.rows.length > 0)
        throw new Refused('A worker still counts the minutes of this sale. Repeat the command in some minutes.');
      const { rows } = await client.query(
        `update campaigns set redemptions_dropped_at = now() where campaign_id = $1 and status = 'closed' and held = 0
         returning 1`,
        [campaign.id],
      );
      if (rows.length === 0) throw new Refused('The campaign is not closed any more.');
      // Nothing finds the reasons of a user any more, so they go with the reservations. The rest of the history stays.
      await client.query(`select set_config('doorbuster.erases_user', 'yes', true)`);
      await client.query(
        'update redemption_history set reason = null, reason_salt = null where campaign_id = $1 and reason_salt is not null',
        [campaign.id],
      );
      await client.query(`drop table ${partition.name}`);
    });
  }

  /** Runs statements in one transaction that gives up when the table is in use for too long. */
  async #change(...statements: readonly string[]): Promise<void> {
    await this.database.transaction(async (client) => {
      await client.query(`set local lock_timeout = ${LOCK_LIMIT_MS}`);
      for (const statement of statements) await client.query(statement);
    });
  }
}

/** The last link of the history in each bucket of a campaign, for the audit log. */
async function headsOf(client: Queryable, campaign: string): Promise<{ history?: Record<string, string> }> {
  const { rows } = await client.query<{ bucket: number; link: string }>(
    `select distinct on (bucket) bucket, encode(link, 'hex') as link from redemption_links
     where campaign_id = $1 order by bucket, batch desc`,
    [campaign],
  );
  return rows.length > 0 ? { history: Object.fromEntries(rows.map(({ bucket, link }) => [bucket, link])) } : {};
}
