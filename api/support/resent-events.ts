import { eventsOf } from '../../shared/postgres/events-of-reservation.js';
import type { Queryable } from '../../shared/postgres/pool.js';

/**
 * Schedules the events of a reservation for every enabled webhook endpoint that received them, each as a replay.
 * @returns number of events, and of the endpoints that get at least one of them
 */
export async function resendEvents(
  client: Queryable,
  reservation: string,
): Promise<{ events: number; endpoints: number }> {
  const { rows } = await client.query<{ events: number; endpoints: number }>(
    `with wanted as (
       select o.seq, o.type, r.campaign_id from redemptions r
         cross join lateral (${eventsOf('r')}) own join outbox o on o.seq = own.seq
       where r.redemption_id = $1::text::uuid
         and r.campaign_id = (select campaign_id from campaigns where no = ('x' || right($1::text, 8))::bit(32)::bigint)
     ), scheduled as (
       insert into webhook_replays (endpoint_id, next_seq, to_seq)
       select e.endpoint_id, w.seq, w.seq from webhook_endpoints e join wanted w on w.seq <= e.last_seq
       where e.enabled and (e.types is null or w.type = any(e.types))
         and (e.campaign_ids is null or w.campaign_id = any(e.campaign_ids)) order by w.seq
       returning endpoint_id, next_seq
     )
     select count(distinct next_seq)::int as events, count(distinct endpoint_id)::int as endpoints from scheduled`,
    [reservation],
  );
  return rows[0] ?? { events: 0, endpoints: 0 };
}
