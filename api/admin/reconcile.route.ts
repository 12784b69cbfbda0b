import { z } from 'zod';
import type { Reconciliation } from '../../shared/contracts/reconciliation.js';
import { DIFFERENCE_SIDES } from '../../shared/contracts/verdict.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { JobQueues } from '../../shared/queues/queues.js';
import type { JobResults } from '../../shared/redis/job-results.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId } from '../http/fields.js';
import { requireNoFields } from '../http/json-body.js';
import { BODY_REFUSALS, type Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import type { Campaigns } from './campaigns.js';

const params = z.object({ id: campaignId });

const difference = z.object({
  reservation: z.string().nullable(),
  side: z.enum(DIFFERENCE_SIDES),
  why: z.string(),
  redis: z.string().nullable(),
  postgres: z.string().nullable(),
});
const verdict = z.object({
  product_id: z.string(),
  confirmed: z.int(),
  persisted: z.int(),
  voided: z.int(),
  in_flight: z.int(),
  lost: z.int(),
  duplicated: z.int(),
  over_cap: z.int(),
  drift: z.int(),
  differences: z.array(difference),
});

export type ReconcileDeps = {
  campaigns: Campaigns;
  database: Database;
  queues: JobQueues;
  answers: JobResults;
  apiKeys: ApiKeys;
  limits: { reconcileAnswerMs: number };
};

/** POST /admin/campaigns/:id/reconcile: a worker compares unit by unit, repairs and reports the differences. */
export function reconcileRoute({ campaigns, database, queues, answers, apiKeys, limits }: ReconcileDeps): Route {
  return defineRoute(
    {
      operationId: 'reconcileCampaign',
      method: 'post',
      path: '/admin/campaigns/:id/reconcile',
      summary: 'Compare Redis with Postgres and repair',
      description:
        'Explains each difference and makes repairs that are provably safe. Promises that never reached Postgres are written ' +
        'to it. If Redis lacks data, it is filled from Postgres; requests get 503 meanwhile.',
      tag: 'admin',
      caller: 'admin',
      params,
      answers: {
        200: {
          description: 'The differences after the repair, and those before it.',
          data: verdict.extend({
            before: verdict,
            repaired: z.object({ written: z.int(), refilled: z.boolean() }),
          }),
        },
        202: {
          description: 'The comparison is still running; the log will contain the result.',
          data: z.object({ status: z.literal('running') }),
        },
      },
      errors: [...BODY_REFUSALS, 'unauthorized', 'forbidden', 'campaign_not_found', 'temporarily_unavailable'],
    },
    async (call) => {
      const { req } = call;
      const operator = apiKeys.require(req, 'admin');
      await requireNoFields(req);
      const campaign = await campaigns.find(validate(params, req.params).id);
      // A request during a comparison of the campaign gets the result of that comparison.
      const job = await queues.add('reconcile', { productId: campaign.productId });
      if (job === null) throw call.refusal('temporarily_unavailable', 'Too many comparisons wait. Try again later.');
      const result = (await answers.wait(job, limits.reconcileAnswerMs)) as Reconciliation | null;
      await writeAudit(database, {
        actor: operator,
        action: 'campaign.reconcile',
        campaignId: campaign.id,
        before: result ? { drift: result.before.drift, lost: result.before.lost } : null,
        after: result ? { drift: result.drift, lost: result.lost, ...result.repaired } : null,
        requestId: req.requestId,
      });
      if (result) call.reply(200, result);
      else call.reply(202, { status: 'running' });
    },
  );
}
