import { createHash } from 'node:crypto';
import type { Database, Queryable } from '../../shared/postgres/pool.js';

/** The histories of the reservations of one campaign in one bucket, as they were verified. */
export type HistoryReport = {
  bucket: number;
  /** Rows that were read. */
  entries: number;
  /** Rows whose reason was erased with its user. */
  erased: number;
  /** Link of the last batch, hexadecimal; "" = there is none. */
  head: string;
  /** Those of the kept heads that the chain has. */
  kept: string[];
  /** The first batch that is not what was written; `reservation`: of the row that differs, null = not known which. */
  broken: { batch: number; reservation: string | null; why: string } | null;
};

type Row = {
  batch: string;
  reservation_id: string;
  text: string;
  salt: Buffer | null;
  digest: Buffer | null;
  reason: string | null;
};

/** Batches at once. */
const PAGE = 500;

const sha256 = (...parts: readonly (Buffer | string)[]): Buffer => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** Verifies the chains of `redemption_history`. Every method throws EngineUnavailable. */
export class RedemptionChains {
  constructor(readonly database: Database) {}

  /** The buckets of a campaign that have a chain. */
  async buckets(campaign: string): Promise<number[]> {
    const { rows } = await this.database.query<{ bucket: number }>(
      `select distinct bucket from (
         select bucket from redemption_links where campaign_id = $1 union select bucket from redemption_history where campaign_id = $1) b
       order by bucket`,
      [campaign],
    );
    return rows.map(({ bucket }) => bucket);
  }

  /**
   * Reads a chain from its first batch and stops at the first that is broken.
   * @param kept heads that were printed before and kept elsewhere, hexadecimal
   */
  async verify(campaign: string, bucket: number, kept: readonly string[] = []): Promise<HistoryReport> {
    return this.database.transaction(async (client) => {
      // The rows as of one moment.
      await client.query('set transaction isolation level repeatable read, read only');
      // A reader of what is printed may take its time.
      await client.query('set local idle_in_transaction_session_timeout = 0');
      let previous: Buffer = Buffer.alloc(0);
      let batch = 0;
      const report = { bucket, entries: 0, erased: 0, kept: [] as string[] };
      const end = (broken: HistoryReport['broken']) => ({ ...report, broken, head: previous.toString('hex') });
      for (;;) {
        const links = await linksAfter(client, campaign, bucket, batch);
        const rows = await rowsOf(
          client,
          campaign,
          bucket,
          batch,
          links.length < PAGE ? null : (links.at(-1)?.no ?? null),
        );
        for (const { no, link } of links) {
          batch += 1;
          if (no !== batch) return end({ batch, reservation: null, why: 'its link is missing' });
          const own = rows.get(no) ?? [];
          rows.delete(no);
          const wrong = own.find((row) => !isReason(row));
          if (wrong) return end({ batch, reservation: wrong.reservation_id, why: 'its reason was changed' });
          if (own.length === 0 || !sha256(previous, sha256(own.map(({ text }) => text).join('\n'))).equals(link))
            return end({ batch, reservation: null, why: 'a change in it was changed, added or removed' });
          previous = link;
          report.entries += own.length;
          report.erased += own.filter(({ digest, salt }) => digest !== null && salt === null).length;
          if (kept.includes(link.toString('hex'))) report.kept.push(link.toString('hex'));
        }
        const [extra] = rows.values();
        if (extra)
          return end({ batch: batch + 1, reservation: extra[0]?.reservation_id ?? null, why: 'its link is missing' });
        if (links.length < PAGE) return end(null);
      }
    });
  }
}

async function linksAfter(client: Queryable, campaign: string, bucket: number, batch: number) {
  const { rows } = await client.query<{ batch: string; link: Buffer }>(
    `select batch, link from redemption_links where campaign_id = $1 and bucket = $2 and batch > $3
     order by batch limit ${PAGE}`,
    [campaign, bucket, batch],
  );
  return rows.map(({ batch: no, link }) => ({ no: Number(no), link }));
}

/** Rows by batch. @param last the last batch; null = all that follow */
async function rowsOf(client: Queryable, campaign: string, bucket: number, after: number, last: number | null) {
  const { rows } = await client.query<Row>(
    `select batch, reservation_id, reason, reason_salt as salt, reason_digest as digest,
       jsonb_build_array(reservation_id, journal_id, kind, (extract(epoch from at) * 1000000)::bigint, actor,
         encode(reason_digest, 'hex'), detail)::text as text
     from redemption_history where campaign_id = $1 and bucket = $2 and batch > $3 and ($4::bigint is null or batch <= $4)
     order by batch, position`,
    [campaign, bucket, after, last],
  );
  const byBatch = new Map<number, Row[]>();
  for (const row of rows) {
    const own = byBatch.get(Number(row.batch));
    if (own) own.push(row);
    else byBatch.set(Number(row.batch), [row]);
  }
  return byBatch;
}

/** Whether the reason of a row is what was written, or was erased. */
function isReason({ reason, salt, digest }: Row): boolean {
  if (digest === null) return reason === null && salt === null;
  if (salt === null) return reason === null;
  return reason !== null && sha256(salt, reason).equals(digest);
}
