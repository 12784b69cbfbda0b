import type { Request } from 'express';
import { z } from 'zod';
import type { Log } from '../../shared/observability/log.js';
import { nextCursor } from '../../shared/postgres/campaign-list.js';
import type { CampaignsTable } from '../../shared/postgres/campaigns.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId, requestHeaders } from '../http/fields.js';
import { optionalIdempotencyKey } from '../http/idempotency-key.js';
import { readJson, requireNoFields } from '../http/json-body.js';
import { BODY_REFUSALS, type Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { amendBody, type CampaignData, campaignBody, campaignData, stockBody } from './campaign.contract.js';
import { type CampaignActions, OPERATOR_ACTIONS, type Operator, type OperatorAction } from './campaign-actions.js';
import { campaignView } from './campaign-form.js';
import { previewChange, previewNew } from './campaign-preview.js';
import { type Configured, campaignWarnings } from './campaign-warnings.js';
import type { Campaigns } from './campaigns.js';
import { filterOf, listCursor, listFields, nextPage } from './list.contract.js';
import { changeData } from './terms-history.js';

const id = z.object({ id: campaignId });
const listQuery = z.object({
  limit: z.coerce.number().int().min(1).max(500).default(100),
  cursor: listCursor.describe('from the `Link` of the previous page'),
  ...listFields,
});
const previewQuery = z.object({
  preview: z
    .enum(['true', 'false'])
    .default('false')
    .describe('true: nothing is stored, the response is what would be'),
});
const READ_ERRORS = ['unauthorized', 'forbidden', 'campaign_not_found', 'temporarily_unavailable'] as const;
const WRITE_ERRORS = [...READ_ERRORS, 'invalid_request', 'campaign_conflict'] as const;

const ACTIONS: Record<OperatorAction, string> = {
  open: 'Open a campaign now, before its `starts_at`',
  pause: 'Pause a campaign: it refuses new claims and keeps reservations and places',
  resume: 'Resume a campaign; returned units go to the line',
  close: 'Close a campaign for good: its line ends, and its reservations run until their deadline',
};

const admin = { tag: 'admin', caller: 'admin' } as const;

export type CampaignRouteDeps = {
  campaigns: Campaigns;
  actions: CampaignActions;
  table: CampaignsTable;
  apiKeys: ApiKeys;
  clock: RedisClock;
  log: Log;
  configured: Configured;
};

/** /admin/campaigns: create, list, read and change campaigns, their status and their stock. */
export function campaignRoutes(deps: CampaignRouteDeps): Route[] {
  const { campaigns, actions, apiKeys, log } = deps;
  const operatorOf = (req: Request): Operator => ({ name: apiKeys.require(req, 'admin'), requestId: req.requestId });
  const withWarnings = (data: CampaignData): CampaignData => {
    const warnings = campaignWarnings(data, deps.configured);
    return warnings.length > 0 ? { ...data, warnings } : data;
  };
  const idOf = (req: Request): string => validate(id, req.params).id;
  const record = (req: Request, operator: Operator, action: string) =>
    log.info({ request_id: req.requestId, operator: operator.name, campaign: req.params.id }, action);

  const action = (name: OperatorAction, summary: string): Route =>
    defineRoute(
      {
        ...admin,
        operationId: `${name}Campaign`,
        method: 'post',
        path: `/admin/campaigns/:id/${name}`,
        summary,
        description: 'Idempotent.',
        params: id,
        answers: { 200: { description: 'The campaign after the change.', data: campaignData } },
        errors: [...READ_ERRORS, ...BODY_REFUSALS, 'campaign_conflict'],
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        await requireNoFields(req);
        const campaign = await actions.setStatus(idOf(req), name, operator);
        record(req, operator, `campaign.${name}`);
        call.reply(200, campaignView(campaign));
      },
    );

  return [
    defineRoute(
      {
        ...admin,
        operationId: 'createCampaign',
        method: 'post',
        path: '/admin/campaigns',
        summary: 'Create a campaign',
        description: 'It opens at once if `starts_at` is not in the future and the campaign is not a draft.',
        query: previewQuery,
        body: campaignBody,
        bodyExample: {
          product_id: 'flash-indomie-2026',
          name: 'Indomie flash sale',
          total_limit: 100,
          starts_at: '2026-11-27T20:00:00Z',
          hold_seconds: 300,
          waiting_room: { enabled: true, max_size: 10_000 },
        },
        answers: {
          200: { description: 'The preview of a campaign, without a true id.', data: campaignData },
          201: {
            description: 'Created; `Location` is the URL of the campaign.',
            data: campaignData,
            headers: ['Location'],
          },
        },
        errors: [...WRITE_ERRORS, 'buckets_unavailable', 'campaign_exists', 'code_taken', 'region_unavailable'],
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        const { preview } = validate(previewQuery, req.query);
        const body = validate(campaignBody, await readJson(req));
        // A campaign without `starts_at` has started when a script compares this time with its own.
        const now = new Date(deps.clock.passedMs());
        if (preview === 'true') {
          await campaigns.requireCreatable(body);
          return call.reply(200, withWarnings(await previewNew(deps.table, body, now)));
        }
        const campaign = await campaigns.create(body, operator, now);
        log.info(
          { request_id: req.requestId, operator: operator.name, campaign: campaign.productId },
          'campaign.create',
        );
        call.reply(201, withWarnings(campaignView(campaign)), ['Location', `/admin/campaigns/${campaign.id}`]);
      },
    ),
    defineRoute(
      {
        ...admin,
        operationId: 'listCampaigns',
        method: 'get',
        path: '/admin/campaigns',
        summary: 'List campaigns',
        description: 'Newest first, without hidden ones, unless the query says otherwise.',
        query: listQuery,
        answers: {
          200: {
            description: 'A page; `Link` with rel="next" if there is another one.',
            data: z.array(campaignData),
            optionalHeaders: ['Link'],
          },
        },
        errors: ['unauthorized', 'forbidden', 'invalid_request', 'temporarily_unavailable'],
      },
      async (call) => {
        const { req } = call;
        apiKeys.require(req, 'admin');
        const wanted = validate(listQuery, req.query);
        const { limit, cursor = null } = wanted;
        const filter = filterOf(wanted);
        const page = await deps.table.list(filter, limit, cursor);
        const next = nextCursor(filter, page, limit, cursor);
        call.reply(
          200,
          page.map(campaignView),
          next === null ? [] : ['Link', `<${nextPage('/admin/campaigns', wanted, next)}>; rel="next"`],
        );
      },
    ),
    defineRoute(
      {
        ...admin,
        operationId: 'getCampaign',
        method: 'get',
        path: '/admin/campaigns/:id',
        summary: 'Read a campaign',
        params: id,
        answers: { 200: { description: 'The campaign.', data: campaignData } },
        errors: READ_ERRORS,
      },
      async (call) => {
        const { req } = call;
        apiKeys.require(req, 'admin');
        call.reply(200, withWarnings(campaignView(await campaigns.find(idOf(req)))));
      },
    ),
    defineRoute(
      {
        ...admin,
        operationId: 'updateCampaign',
        method: 'patch',
        path: '/admin/campaigns/:id',
        summary: 'Change the terms of a campaign',
        description: 'New terms apply to new reservations. `draft: false` publishes a draft.',
        params: id,
        query: previewQuery,
        body: amendBody,
        bodyExample: { ends_at: '2026-11-27T23:00:00Z', hold_seconds: 600 },
        answers: {
          200: {
            description: 'The campaign after the change, or as it would be, with `changes` beside `data`.',
            data: campaignData,
            members: z.object({ changes: z.array(changeData).optional().describe('of a preview') }),
          },
        },
        errors: WRITE_ERRORS,
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        const { preview } = validate(previewQuery, req.query);
        const body = validate(amendBody, await readJson(req));
        if (preview === 'true') {
          campaigns.requireSupported(body);
          const { after, changes } = previewChange(await campaigns.find(idOf(req)), body);
          return call.reply(200, withWarnings(after), [], { changes });
        }
        const campaign = await campaigns.amend(idOf(req), body, operator);
        record(req, operator, 'campaign.amend');
        call.reply(200, withWarnings(campaignView(campaign)));
      },
    ),
    ...OPERATOR_ACTIONS.map((name) => action(name, ACTIONS[name])),
    defineRoute(
      {
        ...admin,
        operationId: 'changeStock',
        method: 'post',
        path: '/admin/campaigns/:id/stock',
        summary: 'Add units, or remove free ones',
        description:
          'Added units go to the line first. With an `Idempotency-Key` header, a retry has no further effect.',
        params: id,
        headers: z.object(requestHeaders).pick({ 'idempotency-key': true }),
        body: stockBody,
        answers: { 200: { description: 'The campaign with its new total.', data: campaignData } },
        errors: [...WRITE_ERRORS, 'stock_insufficient', 'idempotency_key_reused'],
      },
      async (call) => {
        const { req } = call;
        const operator = operatorOf(req);
        const { delta } = validate(stockBody, await readJson(req));
        const key = optionalIdempotencyKey(req, undefined)?.key ?? null;
        const campaign = await actions.restock(idOf(req), delta, key, operator);
        record(req, operator, 'campaign.restock');
        call.reply(200, campaignView(campaign));
      },
    ),
  ];
}
