import type { Queryable } from '../../shared/postgres/pool.js';
import type { WebhookEndpoint } from '../../shared/postgres/webhook-endpoints.js';

/** Ids that one statement computes. It takes some tenths of a second. */
const COMPUTED_IDS = 50_000;

/** Table `webhook_replays`: ranges of events that operators want delivered again. */
export class WebhookReplays {
  /**
   * Requests a replay of one event or of a range of events. Events that have not been delivered yet are left out,
   * because they will be delivered anyway.
   * @returns how many events will be delivered again
   */
  async request(
    endpoint: WebhookEndpoint,
    wanted: { eventId: string } | { from: Date; to: Date },
    client: Queryable,
  ): Promise<number> {
    const one = 'eventId' in wanted;
    const values = one ? [await this.#seqOf(wanted.eventId, endpoint.lastSeq, client)] : [wanted.from, wanted.to];
    const { rows } = await client.query<{ events: number }>(
      `with wanted as (
         select seq from outbox where seq <= $2 and ($3::text[] is null or type = any($3))
           and ($4::uuid[] is null or campaign_id = any($4))
           and ${one ? 'seq = $5' : 'occurred_at >= $5 and occurred_at < $6'}
       ), asked as (
         insert into webhook_replays (endpoint_id, next_seq, to_seq)
         select $1, min(seq), max(seq) from wanted having count(*) > 0
       )
       select count(*)::int as events from wanted`,
      [endpoint.id, endpoint.lastSeq, endpoint.types, endpoint.campaignIds, ...values],
    );
    return rows[0]?.events ?? 0;
  }

  /**
   * Finds an event by its id. The initial event of a reservation has no id in its row, so the ids of such rows are
   * computed, newest first, a bounded number in each statement. This takes some seconds for a million events.
   */
  async #seqOf(eventId: string, upTo: number, client: Queryable): Promise<string | null> {
    const { rows: kept } = await client.query<{ seq: string }>('select seq from outbox where event_id = $1', [eventId]);
    if (kept[0]) return kept[0].seq;
    const { rows: ends } = await client.query<{ seq: string | null }>('select min(seq) as seq from outbox');
    const first = Number(ends[0]?.seq ?? Number.POSITIVE_INFINITY);
    for (let last = upTo; last >= first; last -= COMPUTED_IDS) {
      const { rows } = await client.query<{ seq: string }>(
        `select seq from outbox where seq > $2 and seq <= $3 and event_id is null
           and event_id_of(reservation_id::text, type) = $1`,
        [eventId, last - COMPUTED_IDS, last],
      );
      if (rows[0]) return rows[0].seq;
    }
    return null;
  }
}
