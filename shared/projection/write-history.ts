import { Batch } from '../postgres/batch.js';
import type { Queryable } from '../postgres/pool.js';
import type { HistoryRow } from './projection.js';

const HISTORY = new Batch({
  ...{ no: 'int', reservation: 'uuid', journalId: 'text', kind: 'text', atMs: 'bigint', by: 'text', reason: 'text' },
  ...{ detail: 'jsonb' },
});

/**
 * Adds changes of reservations to their history, and one link to the chain of each campaign and bucket (decision 76).
 * One batch of a shard is written at a time, so a chain has one writer.
 */
export async function insertHistory(client: Queryable, rows: readonly HistoryRow[]): Promise<void> {
  if (rows.length === 0) return;
  await client.query(
    `with given as materialized (
       select n.*, c.campaign_id, redemption_bucket(n.reservation) as bucket,
         case when n.reason <> '' then uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) end as salt
       from ${HISTORY.numbered} join campaigns c on c.no = n.no
     ), entry as materialized (
       select *, case when salt is not null then sha256(salt || convert_to(reason, 'UTF8')) end as digest from given
     ), batch as (
       select campaign_id, bucket, sha256(convert_to(string_agg(jsonb_build_array(
           reservation, journalId, kind, atMs * 1000, "by", encode(digest, 'hex'), detail)::text, E'\n' order by position), 'UTF8')) as digest
       from entry group by campaign_id, bucket
     ), link as (
       insert into redemption_links (campaign_id, bucket, batch, link)
       select b.campaign_id, b.bucket, greatest(l.batch, (select max(batch) from redemption_history h
         where h.campaign_id = b.campaign_id and h.bucket = b.bucket), 0) + 1, sha256(coalesce(l.link, '') || b.digest)
       from batch b left join lateral (
         select batch, link from redemption_links where campaign_id = b.campaign_id and bucket = b.bucket
         order by batch desc limit 1) l on true
       returning campaign_id, bucket, batch
     )
     insert into redemption_history (campaign_id, bucket, batch, position, reservation_id, journal_id, kind, at, actor,
       reason, reason_salt, reason_digest, detail)
     select e.campaign_id, e.bucket, l.batch, e.position, e.reservation, e.journalId, e.kind, ms(e.atMs), e."by",
       nullif(e.reason, ''), e.salt, e.digest, e.detail
     from entry e join link l using (campaign_id, bucket)`,
    HISTORY.of(rows.map((row) => ({ ...row, detail: row.detail && JSON.stringify(row.detail) }))),
  );
}

/** The row of a reservation that is voided in Postgres, because of the entry that Postgres has refused. */
export function voidedRow(
  { journalId, no, reservation, atMs }: Pick<HistoryRow, 'journalId' | 'no' | 'reservation' | 'atMs'>,
  by: string,
  reason: string,
): HistoryRow {
  return { journalId, no, reservation, kind: 'voided', atMs, by, reason, detail: null };
}
