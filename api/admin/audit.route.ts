import { z } from 'zod';
import { ROLES } from '../../shared/domain/role.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId, isoTime, note } from '../http/fields.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { type AuditRow, findAudit } from './audit-search.js';
import { findReservationHistory } from './reservation-history.js';

const query = z
  .object({
    actor: note.min(1, 'must not be empty').optional().describe('the name of an operator or a key'),
    action: z
      .string()
      .regex(/^[a-z_]+\.[a-z_.]*$/, 'must be an action such as `campaign.pause`, or a beginning such as `campaign.`')
      .optional(),
    product_id: campaignId.optional(),
    reservation_id: z
      .uuid()
      .optional()
      .describe('everything that was done to one reservation; no other filter is used'),
    from: isoTime.optional(),
    to: isoTime.optional().describe('exclusive'),
    limit: z.coerce.number().int().min(1).max(500).default(50),
    cursor: z
      .string()
      .regex(/^[1-9]\d{0,17}$/, 'must be a `next_cursor`')
      .optional(),
  })
  .describe('filters of the audit log');

const entryData = z
  .object({
    id: z.string().describe('numbers that grow; of a change of a reservation the id of its journal entry'),
    at: z.iso.datetime(),
    actor: z
      .string()
      .describe(
        'an operator or a key; `clock` = by the schedule, `velocity` = by the watch over attacks, `balance` = between regions. Of a change of a reservation also `shopper`, a payment provider, or empty = the service itself',
      ),
    role: z
      .enum(ROLES)
      .nullable()
      .describe(
        'of a created key or an operator, at that time; null = a key of the environment, or the service itself',
      ),
    subject: z.string().nullable().describe('of an operator who logged in with OpenID Connect: their `sub`'),
    action: z.string(),
    campaign: z.object({ id: z.uuid(), product_id: z.string() }).nullable().describe('null = concerns no campaign'),
    before: z.record(z.string(), z.unknown()).nullable(),
    after: z.record(z.string(), z.unknown()).nullable(),
    request_id: z.string().nullable().describe('`X-Request-Id` of the call; null = there was none'),
  })
  .meta({ id: 'AuditEntry' });

/** GET /admin/audit: who did what, and when. */
export function auditRoute({ database, apiKeys }: { database: Database; apiKeys: ApiKeys }): Route {
  return defineRoute(
    {
      operationId: 'listAuditEntries',
      method: 'get',
      path: '/admin/audit',
      summary: 'What operators and the service itself changed, latest first',
      description:
        'Entries are never changed, and removed only by AUDIT_KEEP_DAYS. `npm run audit` verifies that. Actions on a running sale appear when they are written, within about a second.',
      tag: 'admin',
      caller: 'admin',
      query,
      answers: {
        200: {
          description: 'A page of the audit log.',
          data: z.array(entryData),
          members: z.object({ next_cursor: z.string().nullable() }),
        },
      },
      errors: ['unauthorized', 'forbidden', 'invalid_request', 'temporarily_unavailable'],
    },
    async (call) => {
      const { req } = call;
      apiKeys.require(req, 'admin');
      const { actor, action, product_id, reservation_id, from, to, limit, cursor } = validate(query, req.query);
      const filter = {
        actor: actor ?? null,
        action: action ?? null,
        campaign: product_id ?? null,
        from: from === undefined ? null : new Date(from),
        to: to === undefined ? null : new Date(to),
      };
      if (reservation_id !== undefined) {
        const history = await findReservationHistory(database, reservation_id.toLowerCase());
        return call.reply(200, history.map(view), [], { next_cursor: null });
      }
      const rows = await findAudit(database, filter, limit, cursor ?? null);
      const next = rows.length === limit ? (rows.at(-1)?.audit_id ?? null) : null;
      call.reply(200, rows.map(view), [], { next_cursor: next });
    },
  );
}

function view(row: AuditRow): z.input<typeof entryData> {
  const { audit_id, at, actor, role, subject, action, campaign_id, product_id, before, after, request_id } = row;
  return {
    ...{ id: audit_id, at: at.toISOString(), actor, role, subject, action, before, after },
    campaign: campaign_id !== null && product_id !== null ? { id: campaign_id, product_id } : null,
    request_id: request_id || null,
  };
}
