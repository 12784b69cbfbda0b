import type { Queryable } from '../postgres/pool.js';
import type { HistoryRow } from './projection.js';

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
       from unnest($1::int[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::jsonb[])
         with ordinality as n(no, reservation, journal, kind, at, actor, reason, detail, position)
       join campaigns c on c.no = n.no
     ), entry as materialized (
       select *, case when salt is not null then sha256(salt || convert_to(reason, 'UTF8')) end as digest from given
     ), batch as (
       select campaign_id, bucket, sha256(convert_to(string_agg(jsonb_build_array(
           reservation, journal, kind, at * 1000, actor, encode(digest, 'hex'), detail)::text, E'\n' order by position), 'UTF8')) as digest
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
     select e.campaign_id, e.bucket, l.batch, e.position, e.reservation, e.journal, e.kind, ms(e.at), e.actor,
       nullif(e.reason, ''), e.salt, e.digest, e.detail
     from entry e join link l using (campaign_id, bucket)`,
    [
      rows.map(({ no }) => no),
      rows.map(({ reservation }) => reservation),
      rows.map(({ journalId }) => journalId),
      rows.map(({ kind }) => kind),
      rows.map(({ atMs }) => atMs),
      rows.map(({ by }) => by),
      rows.map(({ reason }) => reason),
      rows.map(({ detail }) => (detail === null ? null : JSON.stringify(detail))),
    ],
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
