import { z } from 'zod';
import type { Log } from '../../shared/observability/log.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { CampaignsTable } from '../../shared/postgres/campaigns.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId } from '../http/fields.js';
import { requireNoFields } from '../http/json-body.js';
import { BODY_REFUSALS, type Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { campaignData } from './campaign.contract.js';
import { campaignView } from './campaign-form.js';
import type { Campaigns } from './campaigns.js';

const params = z.object({ id: campaignId });

export type HideRouteDeps = { campaigns: Campaigns; table: CampaignsTable; apiKeys: ApiKeys; log: Log };

/** POST /admin/campaigns/:id/hide and /unhide: what the list shows. Nothing else changes. */
export function hideRoutes({ campaigns, table, apiKeys, log }: HideRouteDeps): Route[] {
  const route = (action: 'hide' | 'unhide', summary: string, description: string): Route =>
    defineRoute(
      {
        operationId: `${action}Campaign`,
        method: 'post',
        path: `/admin/campaigns/:id/${action}`,
        summary,
        description,
        tag: 'admin',
        caller: 'admin',
        params,
        answers: { 200: { description: 'The campaign after the change.', data: campaignData } },
        errors: [
          'unauthorized',
          'forbidden',
          'campaign_not_found',
          'campaign_conflict',
          'temporarily_unavailable',
          ...BODY_REFUSALS,
        ],
      },
      async (call) => {
        const { req } = call;
        const name = apiKeys.require(req, 'admin');
        await requireNoFields(req);
        const campaign = await campaigns.find(validate(params, req.params).id);
        if (action === 'hide' && campaign.status !== 'closed' && campaign.status !== 'draft')
          throw call.refusal('campaign_conflict', `The campaign is ${campaign.status}. Close it before you hide it.`);
        const changed = await table.database.transaction(async (client) => {
          const hidden = await table.hide(campaign.id, action === 'hide', client);
          if (hidden)
            await writeAudit(client, {
              actor: name,
              action: `campaign.${action}`,
              campaignId: campaign.id,
              before: { hidden: campaign.hidden },
              after: { hidden: hidden.hidden },
              requestId: req.requestId,
            });
          return hidden;
        });
        log.info({ request_id: req.requestId, operator: name, campaign: campaign.productId }, `campaign.${action}`);
        call.reply(200, campaignView(changed ?? campaign));
      },
    );
  return [
    route(
      'hide',
      'Hide a campaign from the list',
      'Only a closed campaign or a draft. It can still be read. Idempotent.',
    ),
    route('unhide', 'List a hidden campaign again', 'Idempotent.'),
  ];
}
