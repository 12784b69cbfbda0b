import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Request } from 'express';
import type { UserId } from '../../shared/domain/ids.js';
import type { Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import { writeExport } from '../../shared/postgres/audit-log.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import { retryAfter } from '../http/respond.js';
import type { Route } from '../http/route.js';
import { API_HEADERS } from '../http/security-headers.js';
import { invalidFields, validate } from '../http/validate.js';
import type { EraseUser } from './erase-user.js';
import { type ExportUserDeps, exportUser } from './export-user.js';
import { eraseContract, exportContract } from './rights.contract.js';
import type { SupportOperator } from './support-actions.js';

/** An erasure reads the event stream, and an export all rows of a user. */
const AT_ONCE = 2;
const RETRY_AFTER_SECONDS = 1;

export type RightsRouteDeps = {
  erasure: EraseUser;
  exported: ExportUserDeps;
  database: Database;
  apiKeys: ApiKeys;
  log: Log;
};

/** Calls for the rights of a user: export and erasure. The log gets no user id, and an erasure clears the audit log. */
export function rightsRoutes({ erasure, exported, database, apiKeys, log }: RightsRouteDeps): Route[] {
  const operatorOf = (req: Request): SupportOperator => ({
    name: apiKeys.require(req, 'admin'),
    requestId: req.requestId,
    trace: req.trace,
  });
  let running = 0;
  /** @param refusal made when too many run already */
  const limited = async (refusal: () => Problem, work: () => Promise<void>): Promise<void> => {
    if (running >= AT_ONCE) throw refusal();
    running += 1;
    try {
      await work();
    } finally {
      running -= 1;
    }
  };
  const busy = [
    'rate_limited',
    `At most ${AT_ONCE} exports and erasures run at once in each process.`,
    { retryAfterSeconds: RETRY_AFTER_SECONDS },
  ] as const;

  return [
    defineRoute(exportContract, async (call) => {
      const { req, res } = call;
      const { name, requestId } = operatorOf(req);
      const { user_id } = validate(exportContract.params, req.params);
      await limited(
        () => call.refusal(...busy),
        async () => {
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
        },
      );
    }),
    defineRoute(eraseContract, async (call) => {
      const { req } = call;
      const operator = operatorOf(req);
      const { user_id } = validate(eraseContract.params, req.params);
      const body = validate(eraseContract.body, await readJson(req));
      if (body.user_id !== user_id)
        throw invalidFields({ pointer: '#/user_id', detail: 'must be the user id in the path' });
      await limited(
        () => call.refusal(...busy),
        async () => {
          const { id, done, rows } = await erasure.erase(user_id as UserId, operator);
          log.info({ request_id: req.requestId, operator: operator.name, erasure: id, done }, 'user.erase');
          if (done) call.reply(200, { erasure_id: id, status: 'done', rows });
          else
            call.reply(202, { erasure_id: id, status: 'running', rows }, [
              'Retry-After',
              retryAfter(RETRY_AFTER_SECONDS),
            ]);
        },
      );
    }),
  ];
}

async function* joined(first: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield first;
  yield* rest;
}
