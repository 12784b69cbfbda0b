import { z } from 'zod';
import type { Database } from '../../shared/postgres/pool.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId } from '../http/fields.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import type { Campaigns } from './campaigns.js';
import { termsChanges } from './terms-changes.js';

/** Members of a campaign that are no terms, or follow from other members. */
const NO_TERMS = new Set([
  'id',
  'product_id',
  'status',
  'total_limit',
  'version',
  'hidden',
  'created_at',
  'updated_at',
  'starts_at_local',
  'ends_at_local',
]);

export const changeData = z
  .object({
    field: z.string(),
    before: z.unknown().describe('null = it had no value'),
    after: z.unknown(),
  })
  .meta({ id: 'TermChange' });
export type TermChange = { field: string; before: unknown; after: unknown };

/** The terms that differ between two states of a campaign, in the form of the API. */
export function changesOf(before: Record<string, unknown>, after: Record<string, unknown>): TermChange[] {
  return Object.keys(after)
    .filter(
      (field) => !NO_TERMS.has(field) && JSON.stringify(sorted(before[field])) !== JSON.stringify(sorted(after[field])),
    )
    .map((field) => ({ field, before: before[field] ?? null, after: after[field] ?? null }));
}

/** The value with the members of its objects in one order, because Postgres changes the order of stored JSON. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value ?? null;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, part]) => [name, sorted(part)]));
}

const params = z.object({ id: campaignId });
const query = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z
    .string()
    .regex(/^\d{1,18}$/, 'must be the `next_cursor` of the previous page')
    .optional(),
});

/** GET /admin/campaigns/:id/versions: the versions of the terms, and what each changed. */
export function termsHistoryRoute({
  campaigns,
  database,
  apiKeys,
}: {
  campaigns: Campaigns;
  database: Database;
  apiKeys: ApiKeys;
}): Route {
  return defineRoute(
    {
      operationId: 'listTermChanges',
      method: 'get',
      path: '/admin/campaigns/:id/versions',
      summary: 'The versions of a campaign’s terms, latest first',
      description: 'Each with the operator and what they changed. The first version has no changes.',
      tag: 'admin',
      caller: 'admin',
      params,
      query,
      answers: {
        200: {
          description: 'A page of versions.',
          data: z.array(
            z
              .object({
                version: z.int(),
                at: z.iso.datetime(),
                by: z.string(),
                changes: z.array(changeData),
              })
              .meta({ id: 'TermsVersion' }),
          ),
          members: z.object({ next_cursor: z.string().nullable() }),
        },
      },
      errors: ['unauthorized', 'forbidden', 'invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
    },
    async (call) => {
      const { req } = call;
      apiKeys.require(req, 'admin');
      const { limit, cursor } = validate(query, req.query);
      const { id } = await campaigns.find(validate(params, req.params).id);
      const rows = await termsChanges(database, id, limit, cursor ?? null);
      const next = rows.length === limit ? (rows.at(-1)?.audit_id ?? null) : null;
      call.reply(
        200,
        rows.map(({ at, actor, before, after }) => ({
          version: Number(after?.version ?? 1),
          at: at.toISOString(),
          by: actor,
          changes: before === null || after === null ? [] : changesOf(before, after),
        })),
        [],
        { next_cursor: next },
      );
    },
  );
}
