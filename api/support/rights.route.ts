import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Request } from 'express';
import type { UserId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';
import { writeExport } from '../../shared/postgres/audit-log.js';
import type { Erasures } from '../../shared/postgres/erasures.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import type { Route } from '../http/route.js';
import { API_HEADERS } from '../http/security-headers.js';
import { validate } from '../http/validate.js';
import { type ExportUserDeps, exportUser } from './export-user.js';
import { eraseContract, erasureContract, exportContract } from './rights.contract.js';
import type { SupportOperator } from './support-actions.js';

/** An export reads all rows of a user. */
const AT_ONCE = 2;
const RETRY_AFTER_SECONDS = 1;

export type RightsRouteDeps = {
  erasures: Erasures;
  /** Lets a worker begin with the erasures now. */
  wake: () => void;
  exported: ExportUserDeps;
  database: Database;
  apiKeys: ApiKeys;
  log: Log;
};

/**
 * Calls for the rights of a user: export and erasure. The log gets no user id. A worker does the erasure, which clears
 * the audit log.
 */
export function rightsRoutes({ erasures, wake, exported, database, apiKeys, log }: RightsRouteDeps): Route[] {
  const operatorOf = (req: Request): SupportOperator => ({
    name: apiKeys.require(req, 'admin'),
    requestId: req.requestId,
    trace: req.trace,
  });
  let running = 0;
  return [
    defineRoute(exportContract, async (call) => {
      const { req, res } = call;
      const { name, requestId } = operatorOf(req);
      const { user_id } = validate(exportContract.params, req.params);
      if (running >= AT_ONCE)
        throw call.refusal('rate_limited', `At most ${AT_ONCE} exports run at once in each process.`, {
          retryAfterSeconds: RETRY_AFTER_SECONDS,
        });
      running += 1;
      try {
        const parts = exportUser(exported, user_id as UserId);
        // An outage before the first row still leads to 503.
        const first = await parts.next();
        if (req.method !== 'HEAD')
          await writeExport(database, 'user.export', { actor: name, requestId }, { user: user_id });
        log.info({ request_id: requestId, operator: name }, 'user.export');
        call.begin(200, [
          ...API_HEADERS,
          ...['Content-Type', 'application/json; charset=utf-8'],
          ...['Content-Disposition', 'attachment; filename="user.json"'],
          ...['Cache-Control', 'no-store', 'X-Request-Id', requestId],
        ]);
        await pipeline(Readable.from(joined(first.value ?? '', parts)), res);
      } finally {
        running -= 1;
      }
    }),
    defineRoute(eraseContract, async (call) => {
      const { req } = call;
      const { name, requestId } = operatorOf(req);
      const { user_id } = validate(eraseContract.params, req.params);
      const { in_open_campaigns } = validate(eraseContract.query, req.query);
      const inOpen = in_open_campaigns === 'true';
      const erasure_id = await erasures.ask(user_id as UserId, inOpen, { actor: name, requestId });
      wake();
      log.info({ request_id: requestId, operator: name, erasure: erasure_id }, 'user.erase');
      call.reply(202, { erasure_id }, ['Location', `/admin/erasures/${erasure_id}`]);
    }),
    defineRoute(erasureContract, async (call) => {
      apiKeys.require(call.req, 'admin');
      const { id } = validate(erasureContract.params, call.req.params);
      const found = await erasures.find(id);
      if (!found) throw call.refusal('erasure_not_found', 'No erasure has this id.');
      const waits_for = found.user === null ? [] : await erasures.active(found.user, found.inOpenCampaigns);
      const status = found.user === null ? 'done' : waits_for.length > 0 ? 'waiting' : 'running';
      call.reply(200, { erasure_id: id, status, waits_for, rows: found.rows });
    }),
  ];
}

async function* joined(first: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield first;
  yield* rest;
}
