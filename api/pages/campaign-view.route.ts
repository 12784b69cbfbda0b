import { z } from 'zod';
import type { ProductId } from '../../shared/domain/ids.js';
import { phaseAt } from '../../shared/domain/phase.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { RedisClock } from '../../shared/redis/redis-clock.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import type { TermsCache } from '../claim/terms-cache.js';
import { defineRoute } from '../http/define-route.js';
import { externalId } from '../http/fields.js';
import type { Route, RouteContract } from '../http/route.js';
import { validate } from '../http/validate.js';

const query = z.object({ product_id: externalId });
const PHASES = ['scheduled', 'open', 'paused', 'ended'] as const;

const contract = {
  method: 'get',
  path: '/flash-sale/campaign',
  summary: 'The public data of a sale',
  description:
    'For pages: the name, the times and the server’s clock for a countdown. It contains neither stock nor line.',
  tag: 'flash sale',
  caller: 'anyone',
  query,
  answers: {
    200: {
      description: 'The state of the sale at `server_time`.',
      data: z.object({
        product_id: z.string(),
        name: z.string().describe('the product id if the name cannot be read'),
        status: z.enum(PHASES),
        starts_at: z.iso.datetime(),
        ends_at: z.iso.datetime().nullable().describe('null = open end'),
        server_time: z.iso.datetime(),
      }),
    },
  },
  errors: ['invalid_request', 'campaign_not_found', 'temporarily_unavailable'],
} satisfies RouteContract;

export type CampaignViewDeps = { sales: SalesOf; terms: TermsCache; clock: RedisClock };

/** GET /flash-sale/campaign. It costs one small read of Redis; this process caches the name. */
export function campaignViewRoute({ sales, terms, clock }: CampaignViewDeps): Route {
  return defineRoute(contract, async (call) => {
    const { req } = call;
    const product = validate(query, req.query).product_id as ProductId;
    const schedule = await sales.of(product).reader.schedule(product);
    const nowMs = clock.nowMs();
    const phase = schedule ? phaseAt(schedule, nowMs) : 'draft';
    if (!schedule || phase === 'draft') throw call.refusal('campaign_not_found', 'No campaign sells this product.');
    call.reply(200, {
      product_id: product,
      name: (await nameOf(terms, product)) ?? product,
      status: phase === 'not_started' ? 'scheduled' : phase,
      starts_at: new Date(schedule.startsAtMs).toISOString(),
      ends_at: schedule.endsAtMs > 0 ? new Date(schedule.endsAtMs).toISOString() : null,
      server_time: new Date(nowMs).toISOString(),
    });
  });
}

/** Returns the name of a campaign; null = unknown, or Postgres is unavailable, during which the page keeps working. */
async function nameOf(terms: TermsCache, product: ProductId): Promise<string | null> {
  try {
    return (await terms.current(product))?.name ?? null;
  } catch (error) {
    if (error instanceof EngineUnavailable) return null;
    throw error;
  }
}
