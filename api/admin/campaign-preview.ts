import type { CampaignId, CampaignNo } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { CampaignsTable, StoredCampaign } from '../../shared/postgres/campaigns.js';
import type { AmendBody, CampaignBody, CampaignData } from './campaign.contract.js';
import { amendedTerms, campaignView, newCampaign } from './campaign-form.js';
import { changesOf, type TermChange } from './terms-history.js';

const NO_ID = '00000000-0000-0000-0000-000000000000' as CampaignId;

/**
 * The campaign that a body would create. Nothing is stored.
 * @throws Problem 400 as the creation does, 409 if the product has a campaign
 */
export async function previewNew(table: CampaignsTable, body: CampaignBody, now: Date): Promise<CampaignData> {
  const wanted = newCampaign(body, now);
  if ((await table.find(wanted.productId))?.productId === wanted.productId)
    throw new Problem('campaign_exists', `Product ${wanted.productId} already has a campaign.`);
  return campaignView({
    ...wanted,
    id: NO_ID,
    no: 0 as CampaignNo,
    termsVersion: 1,
    requireToken: false,
    hasAudience: false,
    stacking: '',
    codes: 0,
    hidden: false,
    shard: null,
    createdAt: now,
    updatedAt: now,
    ...{ held: 0, redeemed: 0, burned: 0, reservations: 0, redemptionsDroppedAt: null, recordsLost: false },
  });
}

/**
 * The campaign after a change of its terms, and what differs. Nothing is stored. Redis may still refuse the change.
 * @throws Problem 400 or 409 as the change does
 */
export function previewChange(
  current: StoredCampaign,
  body: AmendBody,
): { after: CampaignData; changes: TermChange[] } {
  if (current.status === 'closed') throw new Problem('campaign_conflict', 'The campaign is closed.');
  const { terms, rules } = amendedTerms(current, body);
  const after = campaignView({ ...current, ...terms, rules });
  return { after, changes: changesOf(campaignView(current), after) };
}
