import type { Database, Queryable } from './pool.js';
import type { RetryLimits } from './webhook-endpoints.js';

/** The first parked event of a subject. */
export type ParkedHead = { subject: string; seq: number };
export type ParkedFailure = { attempts: number; givenUp: boolean };

/**
 * Whether the run that writes still holds the endpoint. Waits for a change of the endpoint that has not been committed
 * yet, because the change takes the lease away and makes all parked events due.
 */
const HELD = (lease: string) =>
  `exists (select 1 from webhook_endpoints where endpoint_id = $1 and lease = ${lease} for share)`;

/**
 * Table `webhook_parked`. The first event of a subject is retried; the others wait for it. A run of deliveries writes
 * only while it holds the lease of the endpoint.
 */
export class WebhookParking {
  constructor(readonly database: Database) {}

  /** The subjects that have parked events, with the number of their events. */
  async subjects(endpointId: string): Promise<Map<string, number>> {
    const { rows } = await this.database.query<{ subject: string; events: number }>(
      'select subject, count(*)::int as events from webhook_parked where endpoint_id = $1 group by subject',
      [endpointId],
    );
    return new Map(rows.map(({ subject, events }) => [subject, events]));
  }

  /** How many subjects have failed for the first time since the endpoint accepted an event. */
  async failedInARow(endpointId: string): Promise<number> {
    const { rows } = await this.database.query<{ subjects: number }>(
      `select count(*)::int as subjects from webhook_parked p join webhook_endpoints e using (endpoint_id)
       where endpoint_id = $1 and p.failing_since > coalesce(e.last_delivered_at, '-infinity')`,
      [endpointId],
    );
    return rows[0]?.subjects ?? 0;
  }

  /** Parks an event that failed. @returns false when the run no longer holds the endpoint */
  async parkFailed(
    endpointId: string,
    lease: string,
    head: ParkedHead,
    error: string,
    { firstDelayMs }: RetryLimits,
  ): Promise<boolean> {
    const { rowCount } = await this.database.query(
      `insert into webhook_parked (endpoint_id, subject, seq, attempts, failing_since, next_attempt_at, last_error)
       select $1, $2, $3, 1, now(), now() + make_interval(secs => $5::float8 / 1000), $4 where ${HELD('$6')}
       on conflict (endpoint_id, subject, seq) do update set seq = excluded.seq`,
      [endpointId, head.subject, head.seq, error, firstDelayMs, lease],
    );
    return rowCount === 1;
  }

  /** Parks an event behind an earlier one of its subject. */
  async parkBehind(endpointId: string, lease: string, { subject, seq }: ParkedHead): Promise<void> {
    await this.database.query(
      `insert into webhook_parked (endpoint_id, subject, seq, next_attempt_at)
       select $1, $2, $3, 'infinity' where ${HELD('$4')}
       on conflict (endpoint_id, subject, seq) do nothing`,
      [endpointId, subject, seq, lease],
    );
  }

  /** The event whose retry has been due for longest; null = none is due. */
  async nextDue(endpointId: string): Promise<ParkedHead | null> {
    const { rows } = await this.database.query<{ subject: string; seq: string }>(
      `select subject, seq from webhook_parked where endpoint_id = $1 and next_attempt_at <= now()
       order by next_attempt_at limit 1`,
      [endpointId],
    );
    const [row] = rows;
    return row ? { subject: row.subject, seq: Number(row.seq) } : null;
  }

  /**
   * Removes an event that was delivered or no longer exists. The next one of its subject is due at once.
   * @returns false when the run no longer holds the endpoint
   */
  async remove(endpointId: string, lease: string, { subject, seq }: ParkedHead): Promise<boolean> {
    const { rowCount } = await this.database.query(
      `with removed as (
         delete from webhook_parked where endpoint_id = $1 and subject = $2 and seq = $3 and ${HELD('$4')} returning 1
       ), next as (
         update webhook_parked set next_attempt_at = now() where endpoint_id = $1 and subject = $2 and seq = (
           select min(seq) from webhook_parked where endpoint_id = $1 and subject = $2 and seq > $3)
           and exists (select 1 from removed)
       )
       select 1 from removed`,
      [endpointId, subject, seq, lease],
    );
    return rowCount === 1;
  }

  /**
   * Records another failure. The delay doubles. After `giveUpMs` the event is given up: it stays parked, and is retried
   * when an operator changes the endpoint.
   * @returns null when the run no longer holds the endpoint
   */
  async fail(
    endpointId: string,
    lease: string,
    head: ParkedHead,
    error: string,
    limits: RetryLimits,
  ): Promise<ParkedFailure | null> {
    const { rows } = await this.database.query<{ attempts: number; given_up: boolean }>(
      `update webhook_parked set attempts = attempts + 1, failing_since = coalesce(failing_since, now()), last_error = $4,
         next_attempt_at = case
           when coalesce(failing_since, now()) <= now() - make_interval(secs => $7::float8 / 1000) then 'infinity'
           else now() + make_interval(secs => least($6::float8, $5::float8 * power(2, least(attempts, 30))) / 1000) end
       where endpoint_id = $1 and subject = $2 and seq = $3 and ${HELD('$8')}
       returning attempts, next_attempt_at = 'infinity' as given_up`,
      [endpointId, head.subject, head.seq, error, limits.firstDelayMs, limits.maxDelayMs, limits.giveUpMs, lease],
    );
    const [row] = rows;
    return row ? { attempts: row.attempts, givenUp: row.given_up } : null;
  }

  /** Removes events that are no longer stored: those that were given up and are too old to be delivered. */
  async forgetPruned(): Promise<void> {
    await this.database.query(
      `delete from webhook_parked where next_attempt_at = 'infinity'
         and seq < (select coalesce(min(seq), 9223372036854775807) from outbox)`,
    );
  }

  /** Makes the first event of each subject due at once, those that were given up included. */
  async retryAll(endpointId: string, client: Queryable): Promise<void> {
    await client.query(
      `update webhook_parked p set next_attempt_at = now(), attempts = 0, failing_since = null
       where endpoint_id = $1 and seq = (
         select min(seq) from webhook_parked q where q.endpoint_id = p.endpoint_id and q.subject = p.subject)`,
      [endpointId],
    );
  }
}
