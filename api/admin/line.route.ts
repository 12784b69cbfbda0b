import { z } from 'zod';
import { assertNever } from '../../shared/domain/assert-never.js';
import type { Sales } from '../../shared/sale/sales.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId } from '../http/fields.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import type { Campaigns } from './campaigns.js';
import { lineData, lineLimit, lineView } from './line.contract.js';
import { headOfLine } from './line-head.js';

const params = z.object({ id: campaignId });
const query = z.object({ limit: lineLimit.default(20) });

export type LineRouteDeps = { campaigns: Campaigns; sales: Sales; apiKeys: ApiKeys };

/** GET /admin/campaigns/:id/line: the head of the line, and why no user is promoted. */
export function lineRoute({ campaigns, sales, apiKeys }: LineRouteDeps): Route {
  return defineRoute(
    {
      operationId: 'getLine',
      method: 'get',
      path: '/admin/campaigns/:id/line',
      summary: 'The head of the line, and why no user is promoted',
      description: 'One consistent read, whose cost does not depend on the length of the line.',
      tag: 'admin',
      caller: 'admin',
      params,
      query,
      answers: { 200: { description: 'The head of the line.', data: lineData } },
      errors: ['unauthorized', 'forbidden', 'invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
    },
    async (call) => {
      const { req } = call;
      apiKeys.require(req, 'admin');
      const { limit } = validate(query, req.query);
      const campaign = await campaigns.find(validate(params, req.params).id);
      const outcome = await headOfLine(sales, campaign.productId, limit);
      switch (outcome.kind) {
        case 'line':
          return call.reply(200, lineView(outcome));
        case 'not_found':
          throw call.refusal('campaign_not_found', 'The campaign has no line: it is a draft or archived.');
        default:
          return assertNever(outcome);
      }
    },
  );
}
