import type { OutboxEvent } from '../contracts/events.js';
import type { PostResult } from '../contracts/post-result.js';
import type { Database, Queryable } from './pool.js';

export type WebhookAttempt = PostResult & {
  no: number;
  eventId: string;
  type: string;
  subject: string;
  attemptedAt: Date;
};

type Row = {
  attempt_id: string;
  event_id: string;
  type: string;
  subject: string;
  attempted_at: Date;
  delivered: boolean;
  status: number | null;
  error: string | null;
  duration_ms: number;
};

/** Table `webhook_attempts`. */
export class WebhookAttempts {
  constructor(readonly database: Database) {}

  async insert(
    endpointId: string,
    event: Pick<OutboxEvent, 'id' | 'subject'> & { type: string },
    result: PostResult,
    client: Queryable = this.database,
  ): Promise<void> {
    await client.query(
      `insert into webhook_attempts (endpoint_id, event_id, type, subject, delivered, status, error, duration_ms)
       select $1, $2, $3, $4, $5, $6, $7, $8 where exists (select 1 from webhook_endpoints where endpoint_id = $1)`,
      [endpointId, event.id, event.type, event.subject, ...valuesOf(result)],
    );
  }

  /**
   * Returns attempts of an endpoint, newest first.
   * @param delivered null = both
   * @param before the number of the last attempt of the page before; null = the first page
   */
  async list(
    endpointId: string,
    delivered: boolean | null,
    before: number | null,
    limit: number,
  ): Promise<WebhookAttempt[]> {
    const { rows } = await this.database.query<Row>(
      `select * from webhook_attempts where endpoint_id = $1 and delivered = any($2::boolean[])
         and ($3::bigint is null or attempt_id < $3) order by attempt_id desc limit $4`,
      [endpointId, delivered === null ? [true, false] : [delivered], before, limit],
    );
    return rows.map(fromRow);
  }

  /** How many subjects got no response, a redirect or one of `statuses` since the endpoint accepted an event. */
  async failedInARow(endpointId: string, statuses: readonly number[]): Promise<number> {
    const { rows } = await this.database.query<{ subjects: number }>(
      `select count(distinct a.subject)::int as subjects from webhook_attempts a join webhook_endpoints e using (endpoint_id)
       where endpoint_id = $1 and not a.delivered and a.attempted_at > coalesce(e.last_delivered_at, '-infinity')
         and (a.status is null or a.status < 400 or a.status = any($2::int[]))`,
      [endpointId, statuses],
    );
    return rows[0]?.subjects ?? 0;
  }

  /** Deletes all but the last `keep` delivered and the last `keep` failed attempts of each endpoint. */
  async prune(keep: number): Promise<void> {
    await this.database.query(
      `delete from webhook_attempts a using webhook_endpoints e, (values (true), (false)) as kinds (delivered)
       where a.endpoint_id = e.endpoint_id and a.delivered = kinds.delivered and a.attempt_id <= (
         select b.attempt_id from webhook_attempts b
         where b.endpoint_id = e.endpoint_id and b.delivered = kinds.delivered
         order by b.attempt_id desc offset $1 limit 1)`,
      [keep],
    );
  }
}

function valuesOf({ delivered, status, error, durationMs }: PostResult): unknown[] {
  return [delivered, status, error, Math.round(durationMs)];
}

function fromRow(row: Row): WebhookAttempt {
  return {
    no: Number(row.attempt_id),
    eventId: row.event_id,
    type: row.type,
    subject: row.subject,
    attemptedAt: row.attempted_at,
    delivered: row.delivered,
    status: row.status,
    error: row.error,
    durationMs: row.duration_ms,
  };
}
