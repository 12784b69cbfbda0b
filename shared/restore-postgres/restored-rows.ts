import { uuidv7 } from 'uuidv7';
import type { JournalEntry } from '../contracts/journal.js';
import { NOBODY } from '../domain/audience.js';
import type { CampaignRules, CampaignStatus } from '../domain/campaign.js';
import { normaliseCode } from '../domain/codes.js';

import { type DetailTerms, type FieldTerms, termColumns } from '../domain/terms.js';
import type { Queryable } from '../postgres/pool.js';
import {
  RESERVATION_COLUMNS,
  type SnapshotReservation,
  type SnapshotTicket,
  TICKET_COLUMNS,
} from '../postgres/snapshot.js';

/** What Postgres has of a campaign, as far as Redis knows it too. */
export type CampaignRow = {
  id: string;
  no: number;
  product: string;
  status: CampaignStatus;
  /** null = unlimited */
  total: number | null;
  version: number;
  /** Codes issued. */
  codes: number;
  held: number;
  redeemed: number;
  burned: number;
  /** Units of reservations that were refused because they would have broken the cap: Redis does not count them. */
  refused: number;
};

/** Terms that Redis keeps too. */
export type KnownTerms = {
  no: number;
  product: string;
  type: string;
  status: CampaignStatus;
  version: number;
  terms: FieldTerms;
  requireToken: boolean;
  hasAudience: boolean;
  details: (DetailTerms & { id: string; code: string | null; rules: CampaignRules }) | null;
  codes: number;
  total: number | null;
};

/** A payment of a reservation that was paid already; `at` RFC 3339. */
export type DuplicatePayment = { reservation: string; payment: string; campaign: string; at: string };

/** Reads and writes what Postgres lacks and Redis has, in the transaction that repairs it (shared/restore-postgres). */
export class RestoredRows {
  constructor(readonly client: Queryable) {}

  async campaigns(): Promise<CampaignRow[]> {
    const { rows } = await this.client.query<CampaignRow>(
      `select campaign_id as id, no, product_id as product, status, total_limit::float8 as total, terms_version as version,
         coalesce((select last_no from code_series s where s.campaign_id = c.campaign_id), 0) as codes,
         held::float8 as held, redeemed::float8 as redeemed, burned::float8 as burned,
         coalesce((select sum(qty) from redemptions r where r.campaign_id = c.campaign_id and r.status = 'voided'
           and r.reason = 'campaigns_cap' and not r.burned), 0)::float8 as refused
       from campaigns c order by no`,
    );
    return rows;
  }

  async reservations(ids: readonly string[]): Promise<Map<string, SnapshotReservation>> {
    if (ids.length === 0) return new Map();
    const { rows } = await this.client.query<SnapshotReservation>(
      `select ${RESERVATION_COLUMNS} from redemptions where redemption_id = any($1::uuid[])`,
      [ids],
    );
    return new Map(rows.map((row) => [row.id, row]));
  }

  async ticketsByNumber(campaignId: string, lineNos: readonly number[]): Promise<SnapshotTicket[]> {
    if (lineNos.length === 0) return [];
    const { rows } = await this.client.query<SnapshotTicket>(
      `select ${TICKET_COLUMNS} from waiting_tickets where campaign_id = $1 and line_no = any($2::bigint[])`,
      [campaignId, lineNos],
    );
    return rows;
  }

  /** Places of these users that wait. */
  async waitingTickets(campaignId: string, users: readonly string[]): Promise<SnapshotTicket[]> {
    if (users.length === 0) return [];
    const { rows } = await this.client.query<SnapshotTicket>(
      `select ${TICKET_COLUMNS} from waiting_tickets where campaign_id = $1 and status = 'waiting' and user_id = any($2)`,
      [campaignId, users],
    );
    return rows;
  }

  /** Ids of all reservations of a campaign, a batch at a time. */
  async *reservationIds(campaignId: string, batch: number): AsyncGenerator<string[]> {
    let after: string | null = null;
    do {
      const { rows }: { rows: { id: string }[] } = await this.client.query(
        `select redemption_id as id from redemptions where campaign_id = $1 and ($3::uuid is null or redemption_id > $3)
         order by redemption_id limit $2`,
        [campaignId, batch, after],
      );
      yield rows.map(({ id }) => id);
      after = rows.length < batch ? null : (rows.at(-1)?.id ?? null);
    } while (after !== null);
  }

  /** All places of a campaign that wait, a batch at a time. */
  async *allWaiting(campaignId: string, batch: number): AsyncGenerator<SnapshotTicket[]> {
    let after: string | null = '';
    do {
      const { rows }: { rows: SnapshotTicket[] } = await this.client.query(
        `select ${TICKET_COLUMNS} from waiting_tickets where campaign_id = $1 and status = 'waiting' and user_id > $3
         order by user_id limit $2`,
        [campaignId, batch, after],
      );
      yield rows;
      after = rows.length < batch ? null : (rows.at(-1)?.user ?? null);
    } while (after !== null);
  }

  /**
   * Creates a campaign again under its number. Its name, discount, code, time zone and rules are lost; one that had an
   * audience admits no user until an operator sets it again. The trigger on campaigns writes its terms.
   */
  /** Without details, no user belongs to the audience of a campaign that has one. */
  async createCampaign(terms: KnownTerms): Promise<void> {
    const { details } = terms;
    const rules = details?.rules ?? {
      ...(terms.requireToken ? { require_token: true } : {}),
      ...(terms.hasAudience ? { audience: NOBODY } : {}),
    };
    const id = details?.id ?? uuidv7();
    const columns = termColumns({ name: terms.product, timeZone: 'UTC', discount: null, ...details, ...terms.terms });
    await this.client.query(
      `insert into campaigns (campaign_id, no, product_id, type, total_limit, status, rules, code, terms_version,
         ${columns.map(({ column }) => column).join(', ')})
       overriding system value
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, ${columns.map((_, i) => `$${i + 10}`).join(', ')})`,
      [
        id,
        terms.no,
        terms.product,
        terms.type,
        terms.total,
        terms.status,
        JSON.stringify(rules),
        details?.code ?? null,
        terms.version,
        ...columns.map(({ value }) => value),
      ],
    );
    await this.#issueCode(id, details?.code ?? null);
    await this.#raiseSequence('campaigns', 'no', terms.no);
  }

  /** The code of a shared campaign. */
  async #issueCode(campaignId: string, typed: string | null): Promise<void> {
    const code = normaliseCode(typed ?? '');
    if (code.kind !== 'code') return;
    await this.client.query(
      'insert into codes (code, campaign_id, code_no) values ($1, $2, 0) on conflict (code) do nothing',
      [code.code, campaignId],
    );
  }

  /**
   * Makes each version that is missing, with the terms that Redis has now: what came in between is lost.
   * @returns false when the row has another version by now, and is left alone
   */
  async raiseTerms(row: Pick<CampaignRow, 'no' | 'version'>, terms: KnownTerms): Promise<boolean> {
    const { details } = terms;
    const columns = termColumns({ ...details, ...terms.terms });
    for (let version = row.version + 1; version <= terms.version; version += 1) {
      const { rowCount } = await this.client.query(
        `update campaigns set terms_version = $2, updated_at = now(),
           rules = coalesce($4::jsonb, rules || jsonb_build_object('require_token', $3::boolean)),
           ${columns.map(({ column }, i) => `${column} = $${i + 5}`).join(', ')}
         where no = $1 and terms_version = $2 - 1`,
        [
          row.no,
          version,
          terms.requireToken,
          details && JSON.stringify(details.rules),
          ...columns.map(({ value }) => value),
        ],
      );
      if (rowCount === 0) return false;
    }
    return true;
  }

  async setTotal(no: number, total: number | null): Promise<void> {
    await this.client.query('update campaigns set total_limit = $2, updated_at = now() where no = $1', [no, total]);
  }

  /** A sale that was opened before its time began then. */
  async setBeginning(no: number, startsAtMs: number): Promise<void> {
    await this.client.query('update campaigns set starts_at = least(starts_at, ms($2)) where no = $1', [
      no,
      startsAtMs,
    ]);
  }

  /** Gives no number of a code a second time. */
  async raiseCodes(no: number, codes: number): Promise<void> {
    await this.client.query(
      `insert into code_series (campaign_id, last_no) select campaign_id, $2 from campaigns where no = $1
       on conflict (campaign_id) do update set last_no = greatest(code_series.last_no, excluded.last_no)`,
      [no, codes],
    );
  }

  /**
   * Continues the numbers of events after those that the stream has. Events that got a number of the stream a second
   * time never reached it, so they get a new one.
   * @param published number → event id, of the stream
   * @returns how many were numbered again
   */
  async continueOutbox(lastSeq: number, published: ReadonlyMap<number, string>): Promise<number> {
    await this.#raiseSequence('outbox', 'seq', lastSeq);
    const { rows } = await this.client.query<{ seq: string; event_id: string }>(
      'select seq, event_id from outbox_events where seq <= $1 and seq >= $2 order by seq',
      [lastSeq, published.keys().next().value ?? lastSeq],
    );
    const again = rows.filter(({ seq, event_id }) => (published.get(Number(seq)) ?? event_id) !== event_id);
    for (const { seq } of again) await this.client.query('update outbox set seq = default where seq = $1', [seq]);
    return again.length;
  }

  async #raiseSequence(table: string, column: string, to: number): Promise<void> {
    await this.client.query(
      `select setval(name, $3) from (select pg_get_serial_sequence($1, $2)::regclass as name) s
       where coalesce(pg_sequence_last_value(name), 0) < $3::bigint`,
      [table, column, to],
    );
  }

  /** Records the history that Redis is in, if Postgres does not have it. */
  async keepHistory(generation: number, server: string, afterId: string): Promise<void> {
    await this.client.query(
      `insert into journal_histories (generation, server, after_id, reason, opened_at)
       values ($1, $2, $3, 'postgres restored', now()) on conflict (generation) do nothing`,
      [generation, server, afterId],
    );
  }

  /** Fills in what only the original entries have: times, devices, payments, idempotency keys and their answers. */
  async fillIn(entries: readonly JournalEntry[]): Promise<void> {
    const reserved = entries.filter((entry) => entry.kind === 'reserved');
    const queued = entries.filter((entry) => entry.kind === 'queued');
    await this.#fillReserved(reserved);
    await this.#fillQueued(queued);
    const changes = entries.flatMap((entry) => {
      switch (entry.kind) {
        case 'redeemed':
          return [{ id: entry.reservation, column: 'redeemed', at: entry.atMs, text: entry.payment }];
        case 'released':
        case 'expired':
        case 'voided':
          return [{ id: entry.reservation, column: 'released', at: entry.atMs, text: entry.reason }];
        case 'refunded':
          return [{ id: entry.reservation, column: 'refunded', at: entry.atMs, text: '' }];
        default:
          return [];
      }
    });
    for (const column of ['redeemed', 'released', 'refunded'] as const) {
      const some = changes.filter((change) => change.column === column);
      if (some.length === 0) continue;
      const text = { redeemed: 'payment_ref', released: 'reason', refunded: 'reason' }[column];
      await this.client.query(
        `update redemptions r set ${column}_at = ms(n.at), ${text} = coalesce(nullif(n.text, ''), r.${text})
         from unnest($1::uuid[], $2::bigint[], $3::text[]) as n(id, at, text) where r.redemption_id = n.id`,
        [some.map(({ id }) => id), some.map(({ at }) => at), some.map(({ text }) => text)],
      );
    }
  }

  async #fillReserved(entries: readonly Extract<JournalEntry, { kind: 'reserved' }>[]): Promise<void> {
    if (entries.length === 0) return;
    await this.client.query(
      `update redemptions r set reserved_at = ms(n.at), device_fp = nullif(n.device, ''), idempotency_key = nullif(n.key, ''),
         idempotency_answer = nullif(n.answer, ''), trace = nullif(n.trace, ''), terms_version = n.terms
       from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[])
         as n(id, at, device, key, answer, trace, terms) where r.redemption_id = n.id`,
      [
        entries.map(({ reservation }) => reservation),
        entries.map(({ atMs }) => atMs),
        entries.map(({ device }) => device),
        entries.map(({ key }) => key),
        entries.map(({ answer }) => answer),
        entries.map(({ trace }) => trace),
        entries.map(({ terms }) => terms),
      ],
    );
  }

  async #fillQueued(entries: readonly Extract<JournalEntry, { kind: 'queued' }>[]): Promise<void> {
    if (entries.length === 0) return;
    await this.client.query(
      `update waiting_tickets t set joined_at = ms(n.at), device_fp = nullif(n.device, ''), idempotency_key = nullif(n.key, ''),
         idempotency_answer = nullif(n.answer, ''), trace = nullif(n.trace, ''), order_id = nullif(n.order_id, '')
       from unnest($1::int[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
         as n(no, line_no, at, device, key, answer, trace, order_id) join campaigns c on c.no = n.no
       where t.campaign_id = c.campaign_id and t.line_no = n.line_no`,
      [
        entries.map(({ no }) => no),
        entries.map(({ lineNo }) => lineNo),
        entries.map(({ atMs }) => atMs),
        entries.map(({ device }) => device),
        entries.map(({ key }) => key),
        entries.map(({ answer }) => answer),
        entries.map(({ trace }) => trace),
        entries.map(({ order }) => order),
      ],
    );
  }

  /** Keeps the idempotency keys that Redis remembers of reservations whose entries are gone. */
  async fillAnswers(
    answers: readonly { reservation: string; key: string; answer: string; terms: number }[],
  ): Promise<void> {
    if (answers.length === 0) return;
    await this.client.query(
      `update redemptions r set idempotency_key = n.key, idempotency_answer = n.answer, terms_version = n.terms
       from unnest($1::uuid[], $2::text[], $3::text[], $4::int[]) as n(id, key, answer, terms)
       where r.redemption_id = n.id and r.idempotency_key is null`,
      [
        answers.map(({ reservation }) => reservation),
        answers.map(({ key }) => key),
        answers.map(({ answer }) => answer),
        answers.map(({ terms }) => terms),
      ],
    );
  }

  /** Keeps the references of payments whose entries are gone. */
  async fillPayments(payments: readonly { reservation: string; payment: string }[]): Promise<void> {
    if (payments.length === 0) return;
    await this.client.query(
      `update redemptions r set payment_ref = n.payment from unnest($1::uuid[], $2::text[]) as n(id, payment)
       where r.redemption_id = n.id and r.payment_ref is null and r.status in ('redeemed', 'refunded')`,
      [payments.map(({ reservation }) => reservation), payments.map(({ payment }) => payment)],
    );
  }

  /** How reservations and places take part in their orders, of those of which it is not known. */
  async fillStacking(claims: readonly { reservation: string; stacking: string }[]): Promise<void> {
    if (claims.length === 0) return;
    const values = [claims.map(({ reservation }) => reservation), claims.map(({ stacking }) => stacking)];
    await this.client.query(
      `update redemptions r set stacking = n.stacking from unnest($1::uuid[], $2::text[]) as n(id, stacking)
       where r.redemption_id = n.id and r.stacking is null`,
      values,
    );
    await this.client.query(
      `update waiting_tickets t set stacking = n.stacking from unnest($1::uuid[], $2::text[]) as n(id, stacking)
       where t.reservation_id = n.id and t.status = 'waiting' and t.stacking is null`,
      values,
    );
  }

  /** Keeps payments beside the first one whose entries are gone. */
  async fillDuplicatePayments(payments: readonly DuplicatePayment[]): Promise<void> {
    if (payments.length === 0) return;
    await this.client.query(
      `insert into duplicate_payments (reservation_id, payment_ref, campaign_id, paid_at)
       select n.id, n.payment, n.campaign, n.at
       from unnest($1::uuid[], $2::text[], $3::uuid[], $4::timestamptz[]) as n(id, payment, campaign, at)
       join campaigns c on c.campaign_id = n.campaign
       on conflict (reservation_id, payment_ref) do nothing`,
      [
        payments.map(({ reservation }) => reservation),
        payments.map(({ payment }) => payment),
        payments.map(({ campaign }) => campaign),
        payments.map(({ at }) => at),
      ],
    );
  }
}
