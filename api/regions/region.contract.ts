import { z } from 'zod';
import { LIMITS } from '../../shared/config/limits.js';
import { REGION_NAME } from '../../shared/config/regions.js';
import { CAMPAIGN_STATUSES } from '../../shared/domain/campaign.js';
import { ACKNOWLEDGED_STATES, REGION_OPERATIONS } from '../../shared/postgres/region-acknowledgements.js';
import { TRANSFER_STATUSES } from '../../shared/postgres/region-transfers.js';
import { externalId } from '../http/fields.js';
import type { RouteContract } from '../http/route.js';

/** Header names of calls between regions. */
export const REGION_HEADER = 'doorbuster-region';
export const KEY_HEADER = 'doorbuster-region-key';
/** In a call: the epoch that the caller knows for the region that it calls. In a response: the epoch of the region. */
export const EPOCH_HEADER = 'doorbuster-region-epoch';
/** The address of the client of a forwarded request. */
export const CLIENT_HEADER = 'doorbuster-client-address';

/** Forwarded requests have the path of their route after this. */
export const ARRIVAL_PATH = '/regions/forwarded';

const epochs = z.record(z.string(), z.int()).describe('the highest epoch of each region that the sender has learnt of');

const regionName = z.string().regex(REGION_NAME, 'must be a name of REGIONS');
/** Campaign numbers are integers of Postgres. */
const MAX_CAMPAIGN_NO = 2 ** 31 - 1;

export const beatBody = z.object({
  region: regionName,
  layout: z.string(),
  epochs,
  campaigns_after: z.int().min(0).max(MAX_CAMPAIGN_NO),
});

export const beatData = z.object({
  region: z.string(),
  layout: z.string().describe('the settings that all regions must share, as one text'),
  epoch: z.int().nullable().describe('the epoch of this installation; null = it has not joined its region'),
  serves: z.boolean().describe('whether this installation owns its region'),
  reached: z.array(z.string()).optional().describe('the other regions that can be called from this one'),
  epochs,
  campaigns: z
    .array(
      z.object({
        ...{ no: z.int(), product_id: z.string(), code: z.string().nullable() },
        regions: z.array(z.string()).nullable().default(null).describe('those that sell it together; null = one'),
      }),
    )
    .describe('campaigns with numbers above `campaigns_after`, by number'),
});
export type BeatData = z.infer<typeof beatData>;

/** What every call between regions shares. They need REGION_KEYS in `Doorbuster-Region-Key`. */
export const betweenRegions = { tag: 'operations', caller: 'anyone' } as const;

export const beatContract = {
  ...betweenRegions,
  method: 'post',
  operationId: 'beatRegion',
  path: '/regions/beat',
  summary: 'Exchange epochs and new campaigns between regions',
  description:
    'For the APIs of other regions, with a secret of REGION_KEYS in `Doorbuster-Region-Key`. It exists only with REGION.',
  body: beatBody,
  answers: { 200: { description: 'What this region knows.', data: beatData } },
  errors: ['invalid_request', 'unauthorized', 'rate_limited', 'temporarily_unavailable'],
} satisfies RouteContract;

const MAX_UNITS = 1_000_000_000;
export const units = z.int('must be a whole number').min(1, 'must be at least 1').max(MAX_UNITS);

export const takeBody = z.object({ transfer_id: z.uuid(), product_id: externalId, from: regionName, units });

/** @param most products in one question */
export const unitsBody = (most: number) =>
  z.object({
    product_ids: z.array(externalId).min(1).max(most),
    transfers: z.boolean().default(false).describe('whether the transfers of each product are wanted'),
  });

const counts = {
  total: z.int().nullable().describe('null = unlimited'),
  free: z.int().nullable().describe('null = unlimited'),
  held: z.int(),
  redeemed: z.int(),
  burned: z.int(),
  waiting: z.int(),
};
export const unitsData = z.object({
  product_id: z.string(),
  status: z.enum(CAMPAIGN_STATUSES),
  ...counts,
  head_qty: z
    .int()
    .nullable()
    .default(null)
    .describe('units that the first user in line wants, if fewer are free; null = no user waits for that'),
  nobody_there: z.boolean().default(false).describe('all users in line are away, so units stay free'),
  confirmed_per_second: z.number().describe('reservations made, over the last ten seconds'),
});
export type UnitsData = z.infer<typeof unitsData>;

export const transferData = z.object({
  transfer_id: z.uuid(),
  product_id: z.string(),
  direction: z.enum(['out', 'in']),
  region: z.string().describe('the other region'),
  units: z.int(),
  status: z
    .enum(TRANSFER_STATUSES)
    .describe(
      '`leaving` → `in_transit` → `arrived`; `refused` = the giver had too few; `returning` → `returned` = the taker ' +
        'refused; `stuck` = an operator has to compare both regions. Of the taker: `arriving` → `arrived` or `refused`',
    ),
  detail: z.string().nullable().describe('why it waits or was refused'),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
});

export const unitsContract = {
  ...betweenRegions,
  method: 'post',
  path: '/regions/units',
  operationId: 'readRegionUnits',
  summary: 'Units and transfers of products that several regions sell',
  description:
    'For other regions, with a secret of REGION_KEYS in `Doorbuster-Region-Key`. Products without a campaign in Redis are ' +
    'left out. It exists only with REGION.',
  body: unitsBody(LIMITS.regions.productsAtOnce),
  answers: {
    200: {
      description: 'The units of this region.',
      data: z.array(unitsData.extend({ transfers: z.array(transferData).optional() })),
    },
  },
  errors: ['invalid_request', 'unauthorized', 'rate_limited', 'temporarily_unavailable'],
} satisfies RouteContract;

export const takeContract = {
  ...betweenRegions,
  method: 'post',
  path: '/regions/transfers',
  operationId: 'takeRegionUnits',
  summary: 'Take units that another region gives',
  description:
    'For the APIs of other regions, with a secret of REGION_KEYS in `Doorbuster-Region-Key`. Idempotent by `transfer_id`; ' +
    'a refusal is final. It exists only with REGION.',
  body: takeBody,
  answers: { 200: { description: 'The units are in the stock of this region.', data: transferData } },
  errors: ['invalid_request', 'unauthorized', 'rate_limited', 'campaign_conflict', 'temporarily_unavailable'],
} satisfies RouteContract;

const place = {
  at: z.iso.datetime().describe('when it was returned, by the clock of the region that returned it'),
  id: z.uuid(),
};

const acknowledgementsBody = z.object({
  region: regionName.describe('the region that decided'),
  epochs_below: z.int().min(1).describe('only decisions under earlier owner epochs than this'),
  after: z.object(place).nullable().describe('`next` of the page before; null = the first page'),
});

const acknowledgement = z.object({
  ...place,
  operation: z.enum(REGION_OPERATIONS),
  reservation_id: z.uuid().describe('of a place in line: the id that its reservation will have'),
  product_id: z.string().nullable().describe('null = the campaign was not known yet'),
  status: z.enum(ACKNOWLEDGED_STATES).describe('as the response named it'),
  qty: z.int().nullable().describe('units that the reservation has, if some were given back; null = not said'),
  payment_ref: z.string().nullable().describe('of a confirmed payment; null = the call named none'),
  request_id: z.string(),
});

const acknowledgementsData = z.object({
  since: z.iso.datetime().describe('what was returned before is not recorded any more, or never was'),
  unrecorded: z.int().describe('decisions in this page of time that could not be recorded, of any region'),
  acknowledgements: z.array(acknowledgement).describe('oldest first'),
  next: z.object(place).nullable().describe('null = this is the last page'),
});

export const acknowledgementsContract = {
  ...betweenRegions,
  method: 'post',
  path: '/regions/acknowledgements',
  operationId: 'readRegionAcknowledgements',
  summary: 'Decisions of a lost region that this one returned to its clients',
  description:
    'For `npm run regions`, with a secret of REGION_KEYS in `Doorbuster-Region-Key`. Without codes and users, with references of ' +
    'payments. It exists only with REGION.',
  body: acknowledgementsBody,
  answers: { 200: { description: 'A page of the decisions.', data: acknowledgementsData } },
  errors: ['invalid_request', 'unauthorized', 'rate_limited', 'temporarily_unavailable'],
} satisfies RouteContract;
