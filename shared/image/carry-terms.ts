import { ACTORS } from '../domain/actors.js';
import type { CampaignId, ProductId } from '../domain/ids.js';
import { termColumns } from '../domain/terms.js';
import { writeAudit } from '../postgres/audit-log.js';
import type { Database, Queryable } from '../postgres/pool.js';
import type { TermsCopy } from '../sale/packed-terms.js';
import type { CampaignCopy, SaleCopy } from '../sale/sale-copy.js';

/** `carried`: Redis had later terms, and Postgres has them now. `no_campaign`: Postgres lacks the campaign. */
export type CarriedTerms = { kind: 'even' | 'no_campaign' } | { kind: 'carried'; version: number };

/**
 * Compares the terms of a campaign in Redis and Postgres. Later ones of Redis are copied to Postgres, because they are
 * in force: an API has died between Redis and the commit (api/admin/campaigns.ts), or Postgres was set back. The row is
 * locked, so that this waits for the commit of an operator's open change. Redis is read before, so that the lock waits
 * for no other engine. Afterwards Postgres has the terms of every entry that was journaled before the call.
 * @param no of the campaign, without a bucket
 * @throws EngineUnavailable, also when the change stays open for longer than a statement of this pool may take
 */
export async function carryTerms(
  database: Database,
  copy: Pick<SaleCopy, 'campaign'>,
  no: number,
  product: ProductId,
): Promise<CarriedTerms> {
  const inForce = await copy.campaign(product);
  return database.transaction(async (client) => {
    const { rows } = await client.query<{ id: CampaignId; version: number }>(
      'select campaign_id as id, terms_version as version from campaigns where no = $1 and product_id = $2 for no key update',
      [no, product],
    );
    const [row] = rows;
    if (!row) return { kind: 'no_campaign' };
    if (inForce?.no !== no || inForce.version <= row.version) return { kind: 'even' };
    await raiseTerms(client, row.version, inForce);
    const { version } = inForce;
    const [before, after] = [{ version: row.version }, { version, name: inForce.details.name }];
    const action = 'campaign.amend';
    await writeAudit(client, { actor: ACTORS.clock, action, campaignId: row.id, before, after, requestId: '' });
    return { kind: 'carried', version };
  });
}

/**
 * Adds each version that Postgres lacks, as Redis has it, and since when.
 * @param version that Postgres has
 */
export async function raiseTerms(client: Queryable, version: number, copy: CampaignCopy): Promise<void> {
  for (let next = version + 1; next <= copy.version; next += 1) {
    const found = versionOf(copy, next);
    const columns = termColumns({ ...found.details, ...found.terms });
    const since = sinceOf(copy, found);
    await client.query(
      `update campaigns set terms_version = $2, updated_at = coalesce(to_timestamp($3::float8 / 1000), now()),
         rules = $4, ${columns.map(({ column }, i) => `${column} = $${i + 5}`).join(', ')}
       where no = $1 and terms_version = $2 - 1`,
      [copy.no, next, since, JSON.stringify(found.details.rules), ...columns.map(({ value }) => value)],
    );
    if (since !== null) await client.query(DATE_PRICE, [copy.no, since]);
  }
}

/** The trigger on `campaigns` has dated a price that changed with this transaction. */
const DATE_PRICE = `with changed as (
    delete from campaign_prices p using campaigns c
    where c.no = $1 and p.campaign_id = c.campaign_id and p.since = now() returning p.*)
  insert into campaign_prices select campaign_id, to_timestamp($2::float8 / 1000), amount, currency from changed
  on conflict (campaign_id, since) do update set amount = excluded.amount, currency = excluded.currency`;

/** The terms of a version. If Redis has forgotten it, those of the next one that Redis has. */
export function versionOf(copy: CampaignCopy, version: number): TermsCopy {
  return copy.former.findLast((former) => former.version >= version) ?? copy;
}

/** When these terms of a campaign came into force, ms; null = Redis does not know. */
function sinceOf({ former }: CampaignCopy, { version }: TermsCopy): number | null {
  return former.find((earlier) => earlier.version < version)?.until ?? null;
}
