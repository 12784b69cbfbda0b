import type { ClickHouseClient } from '@clickhouse/client';
import type { Event } from '../read-events.js';
import { readSql } from '../read-sql.js';

const TABLE = 'doorbuster_events';
const read = (name: string): string => readSql(import.meta.url, name);

/** The queries of dashboard.sql by their names. */
export function dashboardQueries(): Map<string, string> {
  const parts = read('dashboard.sql')
    .split(/^-- name: /m)
    .slice(1);
  return new Map(
    parts.map((part) => {
      const [name = '', ...lines] = part.split('\n');
      return [name.trim(), lines.join('\n').trim().replace(/;$/, '')];
    }),
  );
}

/** Writes events to ClickHouse and asks it for what a dashboard shows. */
export class Warehouse {
  constructor(readonly client: ClickHouseClient) {}

  async createTable(): Promise<void> {
    await this.client.command({ query: read('schema.sql') });
  }

  /**
   * Inserts a batch. An event that was inserted before replaces itself, so a batch may come again whole or in part.
   * @throws when ClickHouse did not take the batch
   */
  async write(events: readonly Event[]): Promise<void> {
    if (events.length === 0) return;
    await this.client.insert({
      table: TABLE,
      values: events.map(rowOf),
      format: 'JSONEachRow',
      // ISO 8601 with a zone. An event of a later version may have fields that the table lacks; `data` has them.
      clickhouse_settings: { date_time_input_format: 'best_effort' },
    });
  }

  /** @param name of a query in dashboard.sql */
  async ask(name: string, campaign: string): Promise<Record<string, unknown>[]> {
    const query = dashboardQueries().get(name);
    if (query === undefined) throw new Error(`dashboard.sql has no query ${name}`);
    const result = await this.client.query({ query, query_params: { campaign }, format: 'JSONEachRow' });
    return result.json();
  }
}

/** The row of an event. What an event does not have is empty. */
export function rowOf({ id, type, subject, time, data }: Event) {
  const text = (name: string) => String(data[name] ?? '');
  return {
    id,
    type,
    subject,
    time,
    campaign_id: text('campaign_id'),
    product_id: text('product_id'),
    reservation_id: data.reservation_id ?? null,
    user_id: text('user_id'),
    order_id: text('order_id'),
    qty: Number(data.qty ?? 0),
    device_fp: text('device_fp'),
    payment_ref: text('payment_ref'),
    reason: text('reason'),
    data: JSON.stringify(data),
  };
}
