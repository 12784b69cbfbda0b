import { z } from 'zod';
import { QUEUE_NAMES } from '../../shared/contracts/jobs.js';
import type { Log } from '../../shared/observability/log.js';
import { writeAudit } from '../../shared/postgres/audit-log.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { JobQueues } from '../../shared/queues/queues.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { requireNoFields } from '../http/json-body.js';
import { BODY_REFUSALS, type Route } from '../http/route.js';
import { validate } from '../http/validate.js';

const params = z.object({ queue: z.enum(QUEUE_NAMES as [string, ...string[]]) });

export type QueueRouteDeps = {
  queues: Pick<JobQueues, 'retryNow'>;
  database: Database;
  apiKeys: ApiKeys;
  log: Log;
};

/** POST /admin/jobs/:queue/retry: the only thing that an operator can do to a queue. */
export function queueRoute({ queues, database, apiKeys, log }: QueueRouteDeps): Route {
  return defineRoute(
    {
      operationId: 'retryQueue',
      method: 'post',
      path: '/admin/jobs/:queue/retry',
      summary: 'Retry the delayed jobs of a queue now',
      description:
        'Failed jobs are retried by themselves within seconds. Repeating this call does no harm. Queues cannot be paused or emptied.',
      tag: 'admin',
      caller: 'admin',
      params,
      answers: { 200: { description: 'The jobs run now.', data: z.object({ queue: z.string(), jobs: z.int() }) } },
      errors: [...BODY_REFUSALS, 'unauthorized', 'forbidden', 'invalid_request', 'temporarily_unavailable'],
    },
    async (call) => {
      const { req } = call;
      const operator = apiKeys.require(req, 'admin');
      await requireNoFields(req);
      const { queue } = validate(params, req.params) as { queue: (typeof QUEUE_NAMES)[number] };
      const jobs = await queues.retryNow(queue);
      const after = { queue, jobs };
      const entry = { actor: operator, action: 'queue.retry', campaignId: null, before: null, after };
      await writeAudit(database, { ...entry, requestId: req.requestId });
      log.info({ request_id: req.requestId, operator, ...after }, 'queue.retry');
      call.reply(200, after);
    },
  );
}
