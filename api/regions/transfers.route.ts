import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { RegionTransfer, RegionTransfers } from '../../shared/postgres/region-transfers.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId } from '../http/fields.js';
import { readJson } from '../http/json-body.js';
import { unavailable } from '../http/problem.js';
import type { Route } from '../http/route.js';
import { invalidFields, validate } from '../http/validate.js';
import { EPOCH_HEADER, takeBody, takeContract, transferData, units } from './region.contract.js';
import type { RegionKeys } from './region-keys.js';
import type { Regions } from './regions.js';
import type { Transfers } from './transfers.js';

const MAX_SHOWN = 100;
const params = z.object({ id: campaignId });
const giveBody = z.strictObject({
  to: z.string().describe('the region that gets the units'),
  units,
  transfer_id: z.uuid().optional().describe('send the same one with a repetition; without it each call is a transfer'),
});
const common = {
  path: '/admin/campaigns/:id/transfers',
  tag: 'admin',
  caller: 'admin',
  params,
} as const;
const ERRORS = [
  'invalid_request',
  'unauthorized',
  'forbidden',
  'campaign_not_found',
  'temporarily_unavailable',
] as const;

export type TransferRoutesDeps = {
  transfers: Transfers;
  table: RegionTransfers;
  regions: Regions;
  apiKeys: ApiKeys;
  keys: RegionKeys;
};

/** POST and GET /admin/campaigns/:id/transfers, and POST /regions/transfers, by which another region gives units. */
export function transferRoutes({ transfers, table, regions, apiKeys, keys }: TransferRoutesDeps): Route[] {
  return [
    defineRoute(
      {
        ...common,
        method: 'post',
        operationId: 'giveRegionUnits',
        summary: 'Give free units to another region',
        description:
          'For a product that both regions sell. The units leave this region first. While they are `in_transit`, no region ' +
          'sells them, and this region tries to hand them over until it succeeds. It exists only with REGION.',
        body: giveBody,
        answers: { 202: { description: 'The transfer. It is done when it has `arrived`.', data: transferData } },
        errors: [...ERRORS, 'campaign_conflict'],
      },
      async (call) => {
        const { req } = call;
        const actor = apiKeys.require(req, 'admin');
        const { transfer_id, to, units: count } = validate(giveBody, await readJson(req));
        if (!regions.others.some(({ region }) => region === to))
          throw invalidFields({ pointer: '#/to', detail: 'must be another region of REGIONS' });
        const product = await transfers.productOf(validate(params, req.params).id);
        const transfer = await transfers.give(product, { id: transfer_id ?? randomUUID(), to, units: count }, actor);
        if (transfer.status === 'refused') throw call.refusal('campaign_conflict', String(transfer.detail));
        call.reply(202, transferView(transfer));
      },
    ),
    defineRoute(
      {
        ...common,
        method: 'get',
        operationId: 'listRegionTransfers',
        summary: 'Units given to and taken from other regions',
        description: 'The latest first. It exists only with REGION.',
        answers: { 200: { description: 'The latest transfers.', data: z.array(transferData) } },
        errors: ERRORS,
      },
      async (call) => {
        const { req } = call;
        apiKeys.require(req, 'admin');
        const product = await transfers.productOf(validate(params, req.params).id);
        call.reply(200, (await table.ofProduct(product, MAX_SHOWN)).map(transferView));
      },
    ),
    defineRoute(takeContract, async (call) => {
      const { req } = call;
      keys.require(req);
      req.cors = [...req.cors, EPOCH_HEADER, String(regions.epoch ?? 0)];
      const { transfer_id, product_id, from, units: count } = validate(takeBody, await readJson(req));
      const transfer = await transfers.take(product_id as RegionTransfer['product'], {
        ...{ id: transfer_id, from, units: count },
      });
      if (transfer.status === 'refused') throw call.refusal('campaign_conflict', String(transfer.detail));
      // The giver may take the units back after a refusal only, never when it is not known whether they have arrived.
      if (transfer.status !== 'arrived') throw call.refusal(unavailable());
      call.reply(200, transferView(transfer));
    }),
  ];
}

/** A transfer as operators and other regions see it. */
export function transferView({
  id,
  product,
  direction,
  region,
  units: count,
  status,
  detail,
  createdAt,
  updatedAt,
}: RegionTransfer) {
  return {
    ...{ transfer_id: id, product_id: product, direction, region, units: count, status, detail },
    ...{ created_at: createdAt.toISOString(), updated_at: updatedAt.toISOString() },
  };
}
