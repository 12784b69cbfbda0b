import type { EventType } from '../contracts/events.js';
import type { Database, Queryable } from './pool.js';

export type WebhookEndpoint = {
  id: string;
  url: string;
  /** All secrets sign. There is more than one while a secret is being rotated. */
  secrets: string[];
  /** null = all types */
  types: EventType[] | null;
  /** null = all campaigns */
  campaignIds: string[] | null;
  enabled: boolean;
  disabledReason: string | null;
  createdAt: Date;
  lastSeq: number;
  lastDeliveredAt: Date | null;
  attempts: number;
  failingSince: Date | null;
  nextAttemptAt: Date | null;
  lastError: string | null;
};

/**
 * A range of events to deliver: new events (`replay` null), or events that an operator wants delivered again. `after`
 * is excluded, `upTo` is included.
 */
export type Stretch = { replay: string | null; after: number; upTo: number };
export type Backlog = {
  events: number;
  parked: number;
  /** Why the first parked event failed; null = none is parked. */
  parkedError: string | null;
  replays: number;
};
export type RetryLimits = { firstDelayMs: number; maxDelayMs: number; giveUpMs: number };
export type Failure = { enabled: boolean; attempts: number; disabledReason: string | null };
export type EndpointChange = Partial<Pick<WebhookEndpoint, 'url' | 'secrets' | 'types' | 'campaignIds' | 'enabled'>>;

type Row = {
  endpoint_id: string;
  url: string;
  secrets: string[];
  types: EventType[] | null;
  campaign_ids: string[] | null;
  enabled: boolean;
  disabled_reason: string | null;
  created_at: Date;
  last_seq: string;
  last_delivered_at: Date | null;
  attempts: number;
  failing_since: Date | null;
  next_attempt_at: Date | null;
  last_error: string | null;
};

const LATER = (parameter: string) => `now() + make_interval(secs => ${parameter}::float8 / 1000)`;

/** Table `webhook_endpoints`. */
export class WebhookEndpoints {
  constructor(readonly database: Database) {}

  /** Inserts an endpoint. It receives the events that happen from now on. */
  async insert(
    endpoint: Pick<WebhookEndpoint, 'id' | 'url' | 'secrets' | 'types'> & Partial<Pick<WebhookEndpoint, 'campaignIds'>>,
    client: Queryable = this.database,
  ): Promise<WebhookEndpoint> {
    const { rows } = await client.query<Row>(
      `insert into webhook_endpoints (endpoint_id, url, secrets, types, campaign_ids, last_seq)
       values ($1, $2, $3, $4, $5, (select coalesce(max(seq), 0) from outbox)) returning *`,
      [endpoint.id, endpoint.url, endpoint.secrets, endpoint.types, endpoint.campaignIds ?? null],
    );
    return only(rows.map(fromRow));
  }

  async list(): Promise<WebhookEndpoint[]> {
    const { rows } = await this.database.query<Row>('select * from webhook_endpoints order by created_at, endpoint_id');
    return rows.map(fromRow);
  }

  async find(id: string, client: Queryable = this.database): Promise<WebhookEndpoint | null> {
    const { rows } = await client.query<Row>('select * from webhook_endpoints where endpoint_id = $1', [id]);
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /**
   * Changes an endpoint. Its next delivery is then tried at once. A run of deliveries that holds the endpoint loses its
   * lease, so it records nothing more: its result is that of the old URL.
   */
  async change(id: string, change: EndpointChange, client: Queryable): Promise<WebhookEndpoint | null> {
    const { rows } = await client.query<Row>(
      `update webhook_endpoints set url = coalesce($2, url), secrets = coalesce($3, secrets),
         types = case when $5 then $4 else types end,
         campaign_ids = case when $8 then $7 else campaign_ids end, enabled = coalesce($6, enabled),
         disabled_reason = case when coalesce($6, enabled) then null else coalesce(disabled_reason, 'by an operator') end,
         attempts = 0, failing_since = null, next_attempt_at = null, lease = null, leased_until = null
       where endpoint_id = $1 returning *`,
      [
        id,
        change.url ?? null,
        change.secrets ?? null,
        change.types ?? null,
        change.types !== undefined,
        change.enabled ?? null,
        change.campaignIds ?? null,
        change.campaignIds !== undefined,
      ],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  async remove(id: string, client: Queryable): Promise<boolean> {
    const { rowCount } = await client.query('delete from webhook_endpoints where endpoint_id = $1', [id]);
    return rowCount === 1;
  }

  /** How many events have not been delivered, how many of them are parked, and how many replays are waiting. */
  async backlog(endpoint: WebhookEndpoint): Promise<Backlog> {
    const { rows } = await this.database.query<Backlog>(
      `with parked as (select count(*)::int as events from webhook_parked where endpoint_id = $1)
       select (select count(*)::int from outbox where seq > $2 and ($3::text[] is null or type = any($3))
           and ($4::uuid[] is null or campaign_id = any($4))) + (select events from parked) as events,
         (select events from parked) as parked,
         (select last_error from webhook_parked where endpoint_id = $1 and attempts > 0 order by seq limit 1) as "parkedError",
         (select count(*)::int from webhook_replays where endpoint_id = $1) as replays`,
      [endpoint.id, endpoint.lastSeq, endpoint.types, endpoint.campaignIds],
    );
    return rows[0] ?? { events: 0, parked: 0, parkedError: null, replays: 0 };
  }

  /** Endpoints that have something to receive now and no run of deliveries. */
  async due(lastSeq: number): Promise<string[]> {
    const { rows } = await this.database.query<{ endpoint_id: string }>(
      `select endpoint_id from webhook_endpoints e
       where enabled and coalesce(next_attempt_at, now()) <= now() and coalesce(leased_until, now()) <= now()
         and (last_seq < $1 or exists (select 1 from webhook_replays r where r.endpoint_id = e.endpoint_id)
           or exists (select 1 from webhook_parked p where p.endpoint_id = e.endpoint_id and p.next_attempt_at <= now()))`,
      [lastSeq],
    );
    return rows.map(({ endpoint_id }) => endpoint_id);
  }

  /**
   * Leases an endpoint to one run of deliveries, so that its events keep their order.
   * @returns null when the endpoint is not due, or another run holds it
   */
  async lease(id: string, lease: string, leaseMs: number): Promise<WebhookEndpoint | null> {
    const { rows } = await this.database.query<Row>(
      `update webhook_endpoints set lease = $2, leased_until = ${LATER('$3')}
       where endpoint_id = $1 and enabled and coalesce(next_attempt_at, now()) <= now()
         and coalesce(leased_until, now()) <= now() returning *`,
      [id, lease, leaseMs],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  async release(id: string, lease: string): Promise<void> {
    await this.database.query(
      'update webhook_endpoints set lease = null, leased_until = null where endpoint_id = $1 and lease = $2',
      [id, lease],
    );
  }

  /** The next events to deliver: the oldest replay, else new events; null = nothing. */
  async nextStretch(endpoint: WebhookEndpoint, lastSeq: number): Promise<Stretch | null> {
    const { rows } = await this.database.query<{ replay_id: string; next_seq: string; to_seq: string }>(
      'select replay_id, next_seq, to_seq from webhook_replays where endpoint_id = $1 order by replay_id limit 1',
      [endpoint.id],
    );
    const [replay] = rows;
    if (replay) return { replay: replay.replay_id, after: Number(replay.next_seq) - 1, upTo: Number(replay.to_seq) };
    return endpoint.lastSeq < lastSeq ? { replay: null, after: endpoint.lastSeq, upTo: lastSeq } : null;
  }

  /**
   * Records that the endpoint has received the events of the stretch up to `seq`.
   * @param delivered false = the last events were skipped, because the endpoint does not want their types
   * @returns the endpoint after the change; null when another run holds it, or it is disabled or deleted
   */
  async advance(
    id: string,
    lease: string,
    leaseMs: number,
    stretch: Stretch,
    seq: number,
    delivered: boolean,
  ): Promise<WebhookEndpoint | null> {
    const { rows } = await this.database.query<Row>(
      `with mine as (
         update webhook_endpoints set leased_until = ${LATER('$3')},
           last_seq = case when $4::bigint is null then greatest(last_seq, $5) else last_seq end,
           last_delivered_at = case when $6 then now() else last_delivered_at end,
           attempts = case when $6 then 0 else attempts end,
           failing_since = case when $6 then null else failing_since end,
           last_error = case when $6 then null else last_error end
         where endpoint_id = $1 and lease = $2 returning *
       ), repeated as (
         update webhook_replays set next_seq = $5 + 1 where replay_id = $4 and to_seq > $5 and exists (select 1 from mine)
       ), done as (
         delete from webhook_replays where replay_id = $4 and to_seq <= $5 and exists (select 1 from mine)
       )
       select * from mine where enabled`,
      [id, lease, leaseMs, stretch.replay, seq, delivered],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /** Extends the lease. @returns null when another run holds the endpoint, or it is disabled or deleted */
  async extend(id: string, lease: string, leaseMs: number): Promise<WebhookEndpoint | null> {
    const { rows } = await this.database.query<Row>(
      `update webhook_endpoints set leased_until = ${LATER('$3')} where endpoint_id = $1 and lease = $2 and enabled
       returning *`,
      [id, lease, leaseMs],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /** Records that the endpoint has received an event out of its order. @returns as `extend` */
  async delivered(id: string, lease: string, leaseMs: number): Promise<WebhookEndpoint | null> {
    const { rows } = await this.database.query<Row>(
      `update webhook_endpoints set leased_until = ${LATER('$3')}, last_delivered_at = now(), attempts = 0,
         failing_since = null, last_error = null
       where endpoint_id = $1 and lease = $2 and enabled returning *`,
      [id, lease, leaseMs],
    );
    return rows[0] ? fromRow(rows[0]) : null;
  }

  /**
   * Records a failed delivery. The delay before the next attempt doubles. After `giveUpMs` of failures, the endpoint is
   * disabled.
   * @returns null when another run holds the endpoint, or it was changed or deleted; nothing is recorded then
   */
  async fail(id: string, lease: string, error: string, limits: RetryLimits): Promise<Failure | null> {
    const { rows } = await this.database.query<{ enabled: boolean; attempts: number; disabled_reason: string | null }>(
      `update webhook_endpoints set attempts = attempts + 1, failing_since = coalesce(failing_since, now()), last_error = $3,
         next_attempt_at = ${LATER('least($5::float8, $4::float8 * power(2, least(attempts, 30)))')},
         enabled = enabled and not ${GIVEN_UP}, disabled_reason = case when ${GIVEN_UP} then 'failing too long: ' || $3
           else disabled_reason end, lease = null, leased_until = null
       where endpoint_id = $1 and lease = $2 returning enabled, attempts, disabled_reason`,
      [id, lease, error, limits.firstDelayMs, limits.maxDelayMs, limits.giveUpMs],
    );
    const [row] = rows;
    return row ? { enabled: row.enabled, attempts: row.attempts, disabledReason: row.disabled_reason } : null;
  }

  /** Disables an endpoint that asked for no further deliveries. @returns false when another run holds it, as `fail` */
  async disable(id: string, lease: string, reason: string): Promise<boolean> {
    const { rowCount } = await this.database.query(
      `update webhook_endpoints set enabled = false, disabled_reason = $3, last_error = $3, lease = null, leased_until = null
       where endpoint_id = $1 and lease = $2`,
      [id, lease, reason],
    );
    return rowCount === 1;
  }

  /** Disables an endpoint that has accepted no event for `silentMs`. */
  async disableSilent(id: string, lease: string, reason: string, silentMs: number): Promise<void> {
    await this.database.query(
      `update webhook_endpoints set enabled = false, disabled_reason = $3, last_error = $3, lease = null, leased_until = null
       where endpoint_id = $1 and lease = $2
         and coalesce(last_delivered_at, created_at) <= now() - make_interval(secs => $4::float8 / 1000)`,
      [id, lease, reason, silentMs],
    );
  }
}

const GIVEN_UP = `(coalesce(failing_since, now()) <= now() - make_interval(secs => $6::float8 / 1000))`;

function only<Value>([value]: Value[]): Value {
  if (value === undefined) throw new Error('the statement returned no row');
  return value;
}

function fromRow(row: Row): WebhookEndpoint {
  return {
    id: row.endpoint_id,
    url: row.url,
    secrets: row.secrets,
    types: row.types,
    campaignIds: row.campaign_ids,
    enabled: row.enabled,
    disabledReason: row.disabled_reason,
    createdAt: row.created_at,
    lastSeq: Number(row.last_seq),
    lastDeliveredAt: row.last_delivered_at,
    attempts: row.attempts,
    failingSince: row.failing_since,
    nextAttemptAt: row.next_attempt_at,
    lastError: row.last_error,
  };
}
