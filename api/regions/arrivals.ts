import type { Request } from 'express';
import { Problem } from '../../shared/errors/catalogue.js';
import type { RegionCampaign } from '../../shared/postgres/region-state.js';
import type { Tickets } from '../guards/auth/ticket.js';
import { setAddress } from '../guards/caller/address.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { requireOwn } from './forward.js';
import type { Owners } from './owners.js';
import { ARRIVAL_PATH, beatBody, beatContract, CLIENT_HEADER, EPOCH_HEADER } from './region.contract.js';
import type { RegionKeys } from './region-keys.js';
import type { Regions } from './regions.js';
import { SUBJECTS } from './subjects.js';

export type ArrivalDeps = { regions: Regions; owners: Owners; keys: RegionKeys; tickets: Tickets };

/**
 * Returns the route for requests that other regions forward, or null if the route is never forwarded. Its guards and
 * its handler are those of the route, with the address of the client instead of that of the other region. It never
 * forwards: if the regions disagree about the owner, the request gets 503.
 */
export function arrival(route: Route, { regions, owners, keys, tickets }: ArrivalDeps): Route | null {
  const { contract } = route;
  const subjectOf = SUBJECTS[`${contract.method} ${contract.path}`];
  if (!subjectOf) return null;
  return {
    contract: {
      ...contract,
      path: `${ARRIVAL_PATH}${contract.path}`,
      guards: [],
      errors: [...contract.errors, 'unauthorized', 'rate_limited', 'blocked', 'region_unavailable'],
    },
    async handle(req, res) {
      keys.require(req);
      await learnFromCaller(req, regions);
      // Every response of the request ends with these fields. The caller discards the response of an old owner.
      req.cors = [...req.cors, EPOCH_HEADER, String(regions.epoch ?? 0)];
      setAddress(req, String(req.headers[CLIENT_HEADER] ?? ''));
      if (route.guard?.(req, res)) return;
      if (contract.body) req.bodyRead = { value: await readJson(req) };
      const subject = subjectOf(req, req.bodyRead?.value, tickets);
      const owner = subject && owners.of(subject);
      if (owner && (owner.kind === 'unknown' || owner.region !== regions.own)) throw disagreed();
      requireOwn(regions);
      await route.handle(req, res);
    },
  };
}

/** The caller names the epoch that it knows: an old owner learns of the new one from the first call. */
async function learnFromCaller(req: Request, regions: Regions): Promise<void> {
  const text = String(req.headers[EPOCH_HEADER] ?? '0');
  const epoch = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(epoch)) await regions.learn({ [regions.own]: epoch });
}

const disagreed = () =>
  new Problem('temporarily_unavailable', 'The regions do not agree on the owner yet.', { retryAfterSeconds: 1 });

/** POST /regions/beat. It also replies when this installation does not own its region, so that others learn of it. */
export function beatRoute(
  regions: Regions,
  keys: RegionKeys,
  campaigns: (after: number) => Promise<RegionCampaign[]>,
): Route {
  return defineRoute(beatContract, async (call) => {
    const { req } = call;
    keys.require(req);
    const body = validate(beatBody, await readJson(req));
    await regions.learn(body.epochs);
    const found = await campaigns(body.campaigns_after);
    call.reply(200, {
      region: regions.own,
      layout: regions.layout,
      epoch: regions.epoch,
      serves: regions.refusal === null,
      reached: regions.others.filter(({ problem }) => problem === null).map(({ region }) => region),
      epochs: regions.epochs(),
      campaigns: found.map(({ no, productId, code, regions: sellers }) => ({
        ...{ no, product_id: productId, code },
        regions: sellers && [...sellers],
      })),
    });
  });
}
