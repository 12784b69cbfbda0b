import { ACTORS } from '../domain/actors.js';
import type { CampaignId, ProductId } from '../domain/ids.js';
import { writeAudit } from '../postgres/audit-log.js';
import type { Database } from '../postgres/pool.js';
import type { SaleCopy } from '../sale/sale-copy.js';
import { RestoredCampaigns } from './restored-campaigns.js';

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
    await new RestoredCampaigns(client).raiseTerms({ no, version: row.version }, inForce);
    const { version } = inForce;
    const [before, after] = [{ version: row.version }, { version, name: inForce.details.name }];
    const action = 'campaign.amend';
    await writeAudit(client, { actor: ACTORS.clock, action, campaignId: row.id, before, after, requestId: '' });
    return { kind: 'carried', version };
  });
}
