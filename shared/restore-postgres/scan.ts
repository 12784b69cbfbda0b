import type { CampaignCopy, SaleCopy } from '../sale/sale-copy.js';
import type { Names } from './converge.js';
import { isErased, placesOf, recordOfRow, stepOf } from './plan.js';
import type { CampaignRow } from './restored-campaigns.js';
import type { RestoredRows } from './restored-rows.js';

const BATCH = 1_000;
const NOTHING = new Map<string, never>();

/**
 * Adds to `suspects` the reservations and users of a campaign, or of its bucket in this shard, whose rows differ from
 * Redis.
 * @param row the campaign in Postgres; null = Postgres lacks it, so everything differs
 */
export async function scanCampaign(
  copy: SaleCopy,
  rows: RestoredRows,
  { product, part }: CampaignCopy,
  row: CampaignRow | null,
  suspects: Names,
): Promise<void> {
  const { reservations, users } = suspects.of(product);
  const seen = new Set<string>();
  for await (const records of copy.reservations(product, BATCH)) {
    const stored = row ? await rows.reservations([...records.keys()]) : NOTHING;
    for (const [id, record] of records) {
      seen.add(id);
      const one = stored.get(id);
      const known = one ? recordOfRow(one) : null;
      if (stepOf(record, known) !== 'nothing' || isErased(record, known)) reservations.add(id);
    }
  }
  const waiting = new Set<number>();
  for await (const people of copy.people(product, BATCH)) {
    const places = placesOf(people, NOTHING, []);
    const tickets = row ? await rows.ticketsByNumber(row.id, [...places.keys()]) : [];
    const statuses = new Map(tickets.map(({ lineNo, status }) => [lineNo, status]));
    for (const { lineNo, status, details } of places.values()) {
      if (status === 'waiting') waiting.add(lineNo);
      if (details && statuses.get(lineNo) !== status) users.add(details.user);
    }
  }
  if (!row) return;
  for await (const ids of rows.reservationIds(row.id, part?.bucket ?? null, BATCH)) {
    for (const id of ids) if (!seen.has(id)) reservations.add(id);
  }
  for await (const tickets of rows.allWaiting(row.id, part?.bucket ?? null, BATCH)) {
    for (const { lineNo, user } of tickets) if (!waiting.has(lineNo)) users.add(user);
  }
}
