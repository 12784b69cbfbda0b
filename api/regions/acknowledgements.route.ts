import type { AcknowledgementCursor, RegionAcknowledgements } from '../../shared/postgres/region-acknowledgements.js';
import { defineRoute } from '../http/define-route.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { acknowledgementsContract } from './region.contract.js';
import type { RegionKeys } from './region-keys.js';
import type { Regions } from './regions.js';

const FIRST_ID = '00000000-0000-0000-0000-000000000000';

export type AcknowledgementsRouteDeps = {
  table: RegionAcknowledgements;
  regions: Pick<Regions, 'epoch'>;
  keys: RegionKeys;
  nowMs: () => number;
  limits: { acknowledgementsAtOnce: number; acknowledgementsKeepMs: number };
};

/** POST /regions/acknowledgements. It also replies when this installation does not own its region. */
export function acknowledgementsRoute({ table, regions, keys, nowMs, limits }: AcknowledgementsRouteDeps): Route {
  return defineRoute(acknowledgementsContract, async (call) => {
    const { req } = call;
    keys.require(req);
    const { region, epochs_below, after } = validate(acknowledgementsContract.body, await readJson(req));
    const from: AcknowledgementCursor = after
      ? { atMs: Date.parse(after.at), id: after.id }
      : { atMs: 0, id: FIRST_ID };
    const rows = await table.page(region, epochs_below, from, limits.acknowledgementsAtOnce);
    const last = rows.length < limits.acknowledgementsAtOnce ? undefined : rows.at(-1);
    // After a fail-over its owner epoch is the time of it. What it recorded since its backup is lost.
    const wholeSinceMs = Math.max(nowMs() - limits.acknowledgementsKeepMs, Math.min(regions.epoch ?? 0, nowMs()));
    call.reply(200, {
      since: new Date(wholeSinceMs).toISOString(),
      unrecorded: rows.reduce((sum, { unrecorded }) => sum + unrecorded, 0),
      acknowledgements: rows
        .filter((row) => row.region === region && row.epoch < epochs_below)
        .map(({ atMs, id, operation, reservation, product, status, qty, payment, requestId }) => ({
          ...{ at: new Date(atMs).toISOString(), id, operation, reservation_id: reservation, product_id: product },
          ...{ status, qty, payment_ref: payment, request_id: requestId },
        })),
      next: last ? { at: new Date(last.atMs).toISOString(), id: last.id } : null,
    });
  });
}
