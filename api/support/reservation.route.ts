import type { z } from 'zod';
import { parseReservationId } from '../../shared/domain/ids.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { SetBackCheck } from '../../shared/shards/set-back-check.js';
import type { ApiKeys } from '../guards/auth/api-keys.js';
import { defineRoute } from '../http/define-route.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import type { RedemptionFinder } from './redemption-finder.js';
import { type RedemptionData, reservationContract, reservationsContract } from './support.contract.js';

const LIMIT = 50;

export type ReservationRouteDeps = { finder: RedemptionFinder; setBack: SetBackCheck; apiKeys: ApiKeys };

/**
 * GET /flash-sale/reservations: reads of the backend of a shop. Without Redis they could be out of date, so they are
 * refused with 503. So is what only Postgres could tell while it is set back.
 */
export function reservationRoutes({ finder, setBack, apiKeys }: ReservationRouteDeps): Route[] {
  return [
    defineRoute(reservationContract, async (call) => {
      const { req } = call;
      apiKeys.require(req, 'service');
      const { id } = validate(reservationContract.params, req.params);
      const found = parseReservationId(id) && (await finder.find({ reservation_id: id, limit: 1 }));
      if (found && !found.isCurrent) throw new EngineUnavailable('redis', 'the state of a reservation cannot be read');
      const [row] = found?.rows ?? [];
      if (!row) {
        setBack.assertWhole();
        throw call.refusal('reservation_not_found', 'No reservation has this id.');
      }
      call.reply(200, view(row));
    }),
    defineRoute(reservationsContract, async (call) => {
      const { req } = call;
      apiKeys.require(req, 'service');
      const query = validate(reservationsContract.query, req.query);
      setBack.assertWhole();
      const { rows, isCurrent } = await finder.find({ ...query, limit: LIMIT });
      if (!isCurrent) throw new EngineUnavailable('redis', 'the state of an order cannot be read');
      call.reply(200, rows.map(view));
    }),
  ];
}

type ServiceReservation = z.input<(typeof reservationContract)['answers'][200]['data']>;

function view({ redemption_id, campaign_name: _, waited: __, code: ___, ...row }: RedemptionData): ServiceReservation {
  return { reservation_id: redemption_id, ...row };
}
