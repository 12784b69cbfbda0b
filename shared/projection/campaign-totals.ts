import type { JournalEntry } from '../contracts/journal.js';
import type { Queryable } from '../postgres/pool.js';

/**
 * Replaces the totals in the restocks of divided campaigns, which are those of a bucket, by those of the campaign.
 * Campaigns that are not divided keep theirs.
 * @param client the transaction that writes the entries, before it has changed a total
 */
export async function withCampaignTotals(
  client: Queryable,
  entries: readonly JournalEntry[],
): Promise<readonly JournalEntry[]> {
  if (!entries.some(({ kind }) => kind === 'restocked')) return entries;
  const numbers = entries.flatMap((entry) => (entry.kind === 'restocked' ? [entry.no] : []));
  const { rows } = await client.query<{ no: number; total: number }>(
    `select no, total_limit::float8 as total from campaigns
     where no = any($1::int[]) and buckets > 1 and total_limit is not null`,
    [numbers],
  );
  if (rows.length === 0) return entries;
  return restatedTotals(entries, new Map(rows.map(({ no, total }) => [no, total])));
}

/**
 * Does the same with known totals.
 * @param totals campaign number → units before the first entry; afterwards those after the last one
 */
export function restatedTotals(entries: readonly JournalEntry[], totals: Map<number, number>): readonly JournalEntry[] {
  return entries.map((entry) => {
    const before = entry.kind === 'restocked' ? totals.get(entry.no) : undefined;
    if (entry.kind !== 'restocked' || before === undefined) return entry;
    const total = before + entry.delta;
    totals.set(entry.no, total);
    return { ...entry, before, total };
  });
}
