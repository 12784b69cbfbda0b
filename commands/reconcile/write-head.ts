import { termColumns } from '../../shared/domain/terms.js';
import { raiseTerms, versionOf } from '../../shared/image/carry-terms.js';
import type { StoredCampaign } from '../../shared/postgres/campaigns.js';
import { endImports } from '../../shared/postgres/code-jobs.js';
import { raiseSequence } from '../../shared/postgres/outbox-numbers.js';
import type { Queryable } from '../../shared/postgres/pool.js';
import { emptyProjection } from '../../shared/projection/projection.js';
import { writeProjection } from '../../shared/projection/write-projection.js';
import type { CampaignCopy } from '../../shared/sale/sale-copy.js';
import type { Need } from './need.js';

const ACTOR = 'npm run reconcile';
const ACTION = 'reconcile after restore';
const FIRST_VERSION = 1;

/** A campaign as Postgres must have it, and its row; null = Postgres lacks it. */
export type HeadOf = {
  copy: CampaignCopy;
  row: StoredCampaign | null;
  need: Need;
  /** That has it, or its bucket 0; null = there is one shard. */
  shard: number | null;
  /** How many it has, if Postgres lacks it. */
  buckets: number;
  /** Earlier than in the terms, if the sale was opened before its start time. */
  startsAt: Date;
};

/** Writes terms, units and status of a campaign in the caller's transaction. */
export async function writeHead(
  client: Queryable,
  { copy, row, need, startsAt, ...place }: HeadOf,
  nowMs: number,
): Promise<void> {
  const { no, total, status, version } = copy;
  if (!row) await create(client, copy, place);
  else if (need.terms) await raiseTerms(client, row.termsVersion, copy);
  // First the jobs, because a worker locks a job before the numbers.
  if (row && need.codes) await endImports(client, 'campaign_id', [row.id]);
  if (need.codes) await raiseCodes(client, copy);
  if (need.total)
    await client.query('update campaigns set total_limit = $2, updated_at = now() where no = $1', [no, total]);
  const batch = emptyProjection();
  if (need.status) batch.statuses.set(no, status);
  if (row && status === 'open') batch.begun.set(no, startsAt.getTime());
  if (!row || need.total || need.status || need.terms) {
    const before = row ? { total_limit: row.totalLimit, status: row.status, version: row.termsVersion } : {};
    const after = { total_limit: total, status, version };
    batch.audit.push({ atMs: nowMs, actor: ACTOR, action: ACTION, no, before, after, request: '' });
  }
  await writeProjection(client, batch);
}

/** Creates a campaign again with its number and its first terms. The trigger on `campaigns` writes its terms. */
async function create(
  client: Queryable,
  copy: CampaignCopy,
  { shard, buckets }: Pick<HeadOf, 'shard' | 'buckets'>,
): Promise<void> {
  const { no, product, type, total, status } = copy;
  const { details, terms } = versionOf(copy, FIRST_VERSION);
  const columns = termColumns({ ...details, ...terms });
  await client.query(
    `insert into campaigns (campaign_id, no, product_id, type, total_limit, status, rules, code, terms_version, shard,
       buckets, ${columns.map(({ column }) => column).join(', ')})
     overriding system value
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, ${columns.map((_, i) => `$${i + 12}`).join(', ')})`,
    [
      ...[details.id, no, product, type, total, status, JSON.stringify(details.rules), details.code, FIRST_VERSION],
      ...[shard, buckets],
      ...columns.map(({ value }) => value),
    ],
  );
  await raiseSequence(client, 'campaigns', 'no', no);
  await raiseTerms(client, FIRST_VERSION, copy);
}

/** Raises the last code number of a campaign, so that no number is used twice. */
async function raiseCodes(client: Queryable, { no, codes }: CampaignCopy): Promise<void> {
  await client.query(
    `insert into code_series (campaign_id, last_no) select campaign_id, $2 from campaigns where no = $1
     on conflict (campaign_id) do update set last_no = greatest(code_series.last_no, excluded.last_no)`,
    [no, codes],
  );
}
