import { z } from 'zod';
import type { ProductId } from '../../shared/domain/ids.js';
import type { RegionName } from '../../shared/domain/regions.js';
import type { RegionTransfers } from '../../shared/postgres/region-transfers.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import { campaignId } from '../http/fields.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { askUnits } from './balance.js';
import { transferData, unitsContract, unitsData } from './region.contract.js';
import type { RegionKeys } from './region-keys.js';
import type { RegionUnits } from './region-units.js';
import type { Regions } from './regions.js';
import type { Transfers } from './transfers.js';
import { transferView } from './transfers.route.js';

/** Transfers of one product that other regions are shown. */
const MAX_COMPARED = 1_000;
const MAX_SHOWN = 20;
const params = z.object({ id: campaignId });

export type UnitsRoutesDeps = {
  units: RegionUnits;
  table: RegionTransfers;
  transfers: Pick<Transfers, 'productOf'>;
  regions: Regions;
  apiKeys: ApiKeys;
  keys: RegionKeys;
};

/** POST /regions/units for other regions, and GET /admin/campaigns/:id/regions for operators. */
export function unitsRoutes({ units, table, transfers, regions, apiKeys, keys }: UnitsRoutesDeps): Route[] {
  /** Of this region, or of one that can be called; null = it has none, or is not known now. */
  const unitsIn = async (region: RegionName, product: ProductId) => {
    const found = region === regions.own ? units.of([product]) : askUnits(regions, region, [product]);
    return (await found.catch(() => []))[0] ?? null;
  };
  return [
    defineRoute(unitsContract, async (call) => {
      const { req } = call;
      keys.require(req);
      const { product_ids, transfers: isWanted } = validate(unitsContract.body, await readJson(req));
      const found = await units.of(product_ids);
      if (!isWanted) return call.reply(200, found);
      const transfersOf = ({ product_id }: { product_id: string }) =>
        table.ofProduct(product_id as ProductId, MAX_COMPARED);
      const rows = await Promise.all(found.map(transfersOf));
      call.reply(
        200,
        found.map((one, i) => ({ ...one, transfers: (rows[i] ?? []).map(transferView) })),
      );
    }),
    defineRoute(
      {
        method: 'get',
        path: '/admin/campaigns/:id/regions',
        operationId: 'readCampaignRegions',
        tag: 'admin',
        caller: 'admin',
        params,
        summary: 'Units of a product in each region that sells it',
        description: 'Without `regions` of the campaign, this region alone. It exists only with REGION.',
        answers: {
          200: {
            description: 'The regions, and units on the way from this one.',
            data: z.object({
              regions: z.array(
                z.object({
                  region: z.string(),
                  own: z.boolean(),
                  problem: z.string().nullable().describe('why it cannot be called; null = it can'),
                  reply_age_seconds: z.number().nullable().describe('since its last reply; null = there was none'),
                  units: unitsData.nullable().describe('null = it has no campaign in Redis, or is not known now'),
                }),
              ),
              in_transit: z.int().describe('units that have left this region and have not arrived'),
              transfers: z.array(transferData).describe('the latest of this region'),
            }),
          },
        },
        errors: ['invalid_request', 'unauthorized', 'forbidden', 'campaign_not_found', 'temporarily_unavailable'],
      },
      async (call) => {
        const { req } = call;
        apiKeys.require(req, 'admin');
        const product = await transfers.productOf(validate(params, req.params).id);
        const sellers = regions.directory.sellersOf(product) ?? [regions.own];
        const [latest, in_transit, counts] = await Promise.all([
          table.ofProduct(product, MAX_SHOWN),
          table.inTransit(product),
          Promise.all(sellers.map((region) => unitsIn(region, product))),
        ]);
        call.reply(200, {
          regions: sellers.map((region, i) => ({ ...stateOf(region, regions), units: counts[i] ?? null })),
          in_transit,
          transfers: latest.map(transferView),
        });
      },
    ),
  ];
}

function stateOf(region: RegionName, regions: Regions) {
  if (region === regions.own) return { region, own: true, problem: regions.refusal, reply_age_seconds: 0 };
  const peer = regions.others.find((one) => one.region === region);
  return {
    ...{ region, own: false, problem: peer ? peer.problem : 'it is not in REGIONS' },
    reply_age_seconds: peer?.replyAgeSeconds ?? null,
  };
}
