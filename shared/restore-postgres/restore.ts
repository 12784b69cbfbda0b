import type { Redis } from 'ioredis';
import type { JournalEntry } from '../contracts/journal.js';
import { orderIdOf, type ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { settle } from '../ledger/compare.js';
import type { Database, Queryable } from '../postgres/pool.js';
import { eventsOf } from '../projection/events-of-entries.js';
import type { JournalCursor } from '../projection/journal-cursor.js';
import { insertEvents } from '../projection/new-events.js';
import { emptyProjection, type NewTicket, projectEntries, type TicketChange } from '../projection/projection.js';
import { writeProjection } from '../projection/write-projection.js';
import { readEpoch } from '../redis/epoch.js';
import type { EventStream, StreamEvent } from '../redis/event-stream.js';
import { decodeStoredRequest } from '../redis/idempotency-record.js';
import { compareJournalIds, decodeEntry, type Journal } from '../redis/journal.js';
import type { ReservationRecord } from '../sale/reservation-record.js';
import { type CampaignCopy, SaleCopy } from '../sale/sale-copy.js';
import { converge, Names, type Picture } from './converge.js';
import { paymentsInRedis, stackingInRedis } from './fill-from-redis.js';
import { applied, missingEntries, placeSteps, placesOf, recordOfRow, type Step, stepOf } from './plan.js';
import { type CampaignRow, type DuplicatePayment, RestoredRows } from './restored-rows.js';
import { scanCampaign } from './scan.js';

const BATCH = 1_000;
/** Redis is read between two statements of the transaction. */
const IDLE_IN_TRANSACTION_MS = 60_000;
const ACTOR = 'npm run reconcile';
const ACTION = 'reconcile after restore';

export type RestoreDeps = {
  redis: Redis;
  journal: Journal;
  stream: EventStream;
  database: Database;
  cursor: JournalCursor;
};

export type RestoreOptions = {
  dryRun: boolean;
  /** How long the journal may stand still before it is taken for stopped. */
  settleMs: number;
};

/** What Postgres lacked of one campaign, beside what the journal still has. */
export type CampaignFindings = {
  product: string;
  /** Postgres does not have the campaign at all. */
  unknown: boolean;
  archived: boolean;
  total: { redis: number | null; postgres: number | null } | null;
  status: { redis: string; postgres: string } | null;
  terms: { redis: number; postgres: number } | null;
  /** Redis has name, discount, audience and the like too. */
  hasDetails: boolean;
  codes: { redis: number; postgres: number } | null;
  /** Of an archived campaign, whose reservations Redis does not have: units by which the counters differ. */
  archivedUnits: number;
  missing: { reservations: number; units: number };
  /** `reserved → redeemed` → how many. */
  changed: Record<string, number>;
  places: { missing: number; ended: number };
  /** Rows that only Postgres has, or that it has in a later state. */
  leftAlone: number;
  /** Another campaign that has its number in Postgres; then nothing of it can be written. null = none */
  conflict: string | null;
};

export type Findings = {
  cursor: string;
  lastId: string;
  /** Entries that the journal still has after the cursor. */
  backlog: number;
  /** Entries between the cursor and the first one that the journal still has are gone. */
  gap: boolean;
  campaigns: CampaignFindings[];
  /** Events that were numbered again; null in a dry run. */
  renumberedEvents: number | null;
};

/** Redis has less than Postgres, so Postgres cannot be made whole from it. */
export class RedisBehind extends Error {
  override readonly name = 'RedisBehind';
}

/**
 * Makes Postgres whole from Redis after Postgres was set back, while the sale goes on. Everything is written in one
 * transaction, which holds the cursor of the journal: no worker persists meanwhile, and a repair that is interrupted has
 * changed nothing. Nothing is voided, and rows that Redis does not know are left alone.
 * @throws RedisBehind, EngineUnavailable
 */
export async function restorePostgres(deps: RestoreDeps, options: RestoreOptions): Promise<Findings> {
  const { redis, journal, database, cursor } = deps;
  if ((await readEpoch(redis)) === null) throw new EngineUnavailable('redis', 'it is empty or being filled');
  // A journal that moves is written by the workers; only what they cannot write is left to this.
  await settle({ journal, cursor }, options.settleMs);
  const copy = new SaleCopy(redis);
  const from = await journal.lastId();
  const directory = new Map(await copy.directory());
  const suspects = new Names();
  const rows = new RestoredRows(database);
  const known = new Map((await rows.campaigns()).map((row) => [row.no, row]));
  for (const [no, product] of directory) {
    const campaign = await copy.campaign(product);
    if (campaign && !campaign.archived) await scanCampaign(copy, rows, product, known.get(no) ?? null, suspects);
  }
  const unnamed: CampaignCopy[] = [];
  const named = new Set(directory.values());
  for (const product of await copy.products(BATCH)) {
    const campaign = named.has(product) ? null : await copy.campaign(product);
    if (campaign && directory.get(campaign.no) !== product) unnamed.push(campaign);
  }
  const findings = await database.transaction(async (client) => {
    await client.query("select set_config('idle_in_transaction_session_timeout', $1, true)", [
      String(IDLE_IN_TRANSACTION_MS),
    ]);
    const committed = await cursor.lock(client);
    const picture = await converge({ copy, journal }, directory, suspects, from);
    if (compareJournalIds(picture.lastId, committed) < 0) {
      throw new RedisBehind(`Redis has the journal up to ${picture.lastId}, Postgres up to ${committed}`);
    }
    return new Repair(deps, client, directory, picture, unnamed, committed).run(options.dryRun);
  });
  if (!options.dryRun) {
    // As a worker does after each batch: it notifies those who wait for the commit, and frees the journal.
    await journal.announcePersisted(findings.lastId);
    await journal.trim(findings.lastId);
  }
  return findings;
}

type Change = { id: string; record: ReservationRecord; row: ReservationRecord | null; step: Step };
/** What has to be written of the campaign itself. */
type Need = Pick<CampaignFindings, 'total' | 'status' | 'terms' | 'codes'>;
type CampaignPlan = {
  need: Need;
  copy: CampaignCopy;
  row: CampaignRow | null;
  changes: Change[];
  newTickets: NewTicket[];
  ticketChanges: TicketChange[];
  findings: CampaignFindings;
};

class Repair {
  readonly #rows: RestoredRows;
  /**
   * Names what the journal still has, which is not lost: `<reservation> <kind>`, `<number>/<line number>`, `<number> status`.
   * Its events and details are those of the entries.
   */
  readonly #journaled = new Set<string>();
  /** Campaign number → units that were added by entries that the journal still has. */
  readonly #restocked = new Map<number, number>();
  #backlog = 0;
  #gap = false;

  constructor(
    readonly deps: RestoreDeps,
    readonly client: Queryable,
    readonly directory: ReadonlyMap<number, ProductId>,
    readonly picture: Picture,
    /** Campaigns whose number the directory gives to another one. */
    readonly unnamed: readonly CampaignCopy[],
    readonly cursor: string,
  ) {
    this.#rows = new RestoredRows(client);
  }

  async run(dryRun: boolean): Promise<Findings> {
    await this.#readBacklog();
    const nowMs = await this.#nowMs();
    const rows = await this.#rows.campaigns();
    const plans: CampaignPlan[] = [];
    for (const copy of [...this.picture.campaigns.values(), ...this.unnamed]) {
      plans.push(await this.#plan(copy, rows.find(({ no }) => no === copy.no) ?? null, nowMs));
    }
    const writable = plans.filter(({ findings }) => !findings.conflict);
    const renumberedEvents = dryRun ? null : await this.#write(writable, nowMs);
    const campaigns = plans.map(({ findings }) => findings);
    const { lastId } = this.picture;
    return { cursor: this.cursor, lastId, backlog: this.#backlog, gap: this.#gap, campaigns, renumberedEvents };
  }

  async #plan(copy: CampaignCopy, row: CampaignRow | null, nowMs: number): Promise<CampaignPlan> {
    const { product } = copy;
    const need = needOf(copy, row);
    const plan: CampaignPlan = {
      need,
      copy,
      row,
      changes: [],
      newTickets: [],
      ticketChanges: [],
      findings: this.#compareTerms(need, copy, row),
    };
    if (copy.archived || plan.findings.conflict) return plan;
    const records = this.picture.records.get(product) ?? { reservations: new Map(), people: new Map() };
    const names = this.picture.names.of(product);
    const tail = this.picture.tail.filter(({ no }) => no === copy.no);
    await this.#planReservations(plan, [...names.reservations], records.reservations, tail, nowMs);
    await this.#planPlaces(plan, [...names.users], records.people, tail, nowMs);
    return plan;
  }

  async #planReservations(
    plan: CampaignPlan,
    ids: readonly string[],
    records: ReadonlyMap<string, ReservationRecord>,
    tail: readonly JournalEntry[],
    nowMs: number,
  ): Promise<void> {
    const later = new Map<string, JournalEntry[]>();
    for (const entry of tail) {
      if ('reservation' in entry && entry.kind !== 'queued') {
        later.set(entry.reservation, [...(later.get(entry.reservation) ?? []), entry]);
      }
    }
    for (const some of chunks(ids)) {
      const rows = await this.#rows.reservations(some);
      for (const id of some) {
        const stored = rows.get(id);
        const row = stored ? recordOfRow(stored) : null;
        const entries = later.get(id) ?? [];
        // One that did not differ before its last entries is as Postgres has it.
        const base = records.get(id) ?? (entries.length > 0 ? row : null);
        const record = entries.reduce(applied, base);
        const step = stepOf(record, row);
        if (step === 'left_alone') plan.findings.leftAlone += 1;
        else if (step !== 'nothing' && record) {
          plan.changes.push({ id, record, row, step });
          const gone = this.#gone(missingEntries(plan.copy, id, record, row, nowMs));
          if (gone.length > 0) count(plan.findings, record, row);
        }
      }
    }
  }

  async #planPlaces(
    plan: CampaignPlan,
    users: readonly string[],
    people: Parameters<typeof placesOf>[0],
    tail: readonly JournalEntry[],
    nowMs: number,
  ): Promise<void> {
    const promoted = new Map(plan.changes.map(({ id, record }) => [id, record]));
    const places = placesOf(people, promoted, tail);
    const tickets = new Map<number, Awaited<ReturnType<RestoredRows['waitingTickets']>>[number]>();
    if (plan.row) {
      for (const some of chunks([...places.keys()])) {
        for (const ticket of await this.#rows.ticketsByNumber(plan.row.id, some)) tickets.set(ticket.lineNo, ticket);
      }
      for (const some of chunks(users)) {
        for (const ticket of await this.#rows.waitingTickets(plan.row.id, some)) tickets.set(ticket.lineNo, ticket);
      }
    }
    const { inserts, ends } = placeSteps(plan.copy.no, places, [...tickets.values()], nowMs);
    plan.newTickets = inserts;
    plan.ticketChanges = ends;
    const gone = (steps: readonly { no: number; lineNo: number }[]) =>
      steps.filter(({ no, lineNo }) => !this.#journaled.has(`${no}/${lineNo}`)).length;
    plan.findings.places = { missing: gone(inserts), ended: gone(ends) };
  }

  /** Terms and stock first; then what ends; then what takes a unit or a place. @returns events that were numbered again */
  async #write(plans: readonly CampaignPlan[], nowMs: number): Promise<number> {
    const renumbered = await this.#continueEvents();
    for (const plan of plans) await this.#writeTerms(plan);
    for (const plan of plans) {
      await this.#writeChanges(plan, ({ step }) => step === 'end', nowMs);
      for (const some of chunks(plan.ticketChanges)) await this.#writeSome({ ticketChanges: some });
    }
    for (const plan of plans) {
      await this.#writeChanges(plan, ({ step }) => step !== 'end', nowMs);
      for (const some of chunks(plan.newTickets)) await this.#writeSome({ newTickets: some });
    }
    for (const plan of plans) await this.#writeStatus(plan, nowMs);
    for (const plan of plans) await this.#writeEvents(plan, nowMs);
    await this.#fillIn();
    await this.#fillAnswers(plans);
    for (const plan of plans) await this.#fillFromRecords(plan, nowMs);
    const epoch = await readEpoch(this.deps.redis);
    if (epoch) await this.#rows.keepHistory(epoch.generation, epoch.server, this.picture.lastId);
    await this.deps.cursor.move(this.client, this.picture.lastId);
    return renumbered;
  }

  async #writeSome(batch: Partial<ReturnType<typeof emptyProjection>>): Promise<void> {
    await writeProjection(this.client, { ...emptyProjection(), ...batch });
  }

  async #writeTerms({ copy, row, need }: CampaignPlan): Promise<void> {
    if (!row) await this.#rows.createCampaign(copy);
    else if (need.terms) await this.#rows.raiseTerms(row, copy);
    if (need.codes) await this.#rows.raiseCodes(copy.no, copy.codes);
    if (row && need.total && (copy.total === null || copy.total > Number(row.total))) {
      await this.#rows.setTotal(copy.no, copy.total);
    }
  }

  async #writeStatus({ copy, row, need }: CampaignPlan, nowMs: number): Promise<void> {
    // What was taken away is taken away last: until here more may have been taken.
    if (row && need.total && copy.total !== null && Number(row.total) > copy.total) {
      await this.#rows.setTotal(copy.no, copy.total + row.refused);
    }
    if (need.status) await this.#writeSome({ statuses: new Map([[copy.no, copy.status]]) });
    if (row && copy.status === 'open') await this.#rows.setBeginning(copy.no, copy.terms.startsAt.getTime());
    if (row && !need.total && !need.status && !need.terms) return;
    const before = row && { total_limit: row.total, status: row.status, version: row.version };
    const after = { total_limit: copy.total, status: copy.status, version: copy.version };
    const entry = { atMs: nowMs, actor: ACTOR, action: ACTION, no: copy.no, before: before ?? {}, after, request: '' };
    await this.#writeSome({ audit: [entry] });
  }

  async #writeChanges(plan: CampaignPlan, which: (change: Change) => boolean, nowMs: number): Promise<void> {
    for (const some of chunks(plan.changes.filter(which))) {
      const entries = some.flatMap(({ id, record, row }) => missingEntries(plan.copy, id, record, row, nowMs));
      await writeProjection(this.client, projectEntries(entries));
    }
  }

  /** Of entries that are gone; those that the journal still has follow with their own details. */
  async #writeEvents(plan: CampaignPlan, nowMs: number): Promise<void> {
    for (const some of chunks(plan.changes)) {
      const entries = some.flatMap(({ id, record, row }) => missingEntries(plan.copy, id, record, row, nowMs));
      await insertEvents(this.client, eventsOf(this.#gone(entries)));
    }
  }

  /** What only the entries have that the journal still holds: details, answers, audit and events. */
  async #fillIn(): Promise<void> {
    for await (const entries of this.#entries()) {
      await this.#rows.fillIn(entries);
      const { answers, audit, begun, closedLines, furtherPayments } = projectEntries(entries);
      await this.#writeSome({ answers, audit, begun, closedLines, furtherPayments });
      await insertEvents(this.client, eventsOf(entries));
    }
  }

  /** Idempotency keys whose entries are gone: Redis remembers them for a while. */
  async #fillAnswers(plans: readonly CampaignPlan[]): Promise<void> {
    const reservations = new Set(plans.flatMap(({ changes }) => changes.flatMap(({ id, row }) => (row ? [] : [id]))));
    const users = new Map<string, number>(
      plans.flatMap(({ newTickets }) =>
        newTickets.map(({ no, user, atMs }): [string, number] => [`${no}|${user}`, atMs]),
      ),
    );
    if (reservations.size + users.size === 0) return;
    for await (const answers of new SaleCopy(this.deps.redis).answers(BATCH)) {
      const completed = [];
      const queued = [];
      for (const { key, answer } of answers) {
        const stored = decodeStoredRequest(answer);
        if (!stored) continue;
        const { no, user, record } = stored;
        if (record.kind === 'completed') {
          const { reservationId, terms } = record;
          if (reservations.has(reservationId)) completed.push({ reservation: reservationId, key, answer, terms });
        } else {
          const atMs = users.get(`${no}|${user}`);
          if (atMs !== undefined) queued.push({ no, key, answer, atMs });
        }
      }
      await this.#rows.fillAnswers(completed);
      await this.#writeSome({ answers: queued });
    }
  }

  /** Payments and orders of what Postgres lacked: Redis keeps both beside its records. */
  async #fillFromRecords({ copy, changes, newTickets }: CampaignPlan, nowMs: number): Promise<void> {
    const { redis } = this.deps;
    for (const some of chunks(changes)) {
      const ids = some.map(({ id }) => id);
      await this.#writeSome({ furtherPayments: await paymentsInRedis(redis, copy.product, ids, nowMs) });
    }
    const named = [
      ...changes.map(({ id, record }) => ({ reservation: id, user: record.user, order: record.orderId })),
      ...newTickets.map(({ reservation, user, order }) => ({
        reservation,
        user,
        order: order || orderIdOf(reservation),
      })),
    ];
    for (const some of chunks(named)) await this.#rows.fillStacking(await stackingInRedis(redis, some));
  }

  async #continueEvents(): Promise<number> {
    const published = new Map<number, string>();
    for await (const events of this.deps.stream.entries(BATCH)) {
      for (const { seq, id } of events) published.set(seq, id);
      await this.#rows.fillPayments(paymentsIn(events));
      await this.#rows.fillDuplicatePayments(duplicatePaymentsIn(events));
    }
    return this.#rows.continueOutbox(await this.deps.stream.lastSeq(), published);
  }

  #compareTerms(need: Need, copy: CampaignCopy, row: CampaignRow | null): CampaignFindings {
    const { total, status } = need;
    const restocked = this.#restocked.get(copy.no) ?? 0;
    const isRestocked = total !== null && Number(total.redis) - restocked === total.postgres;
    const conflict = row && row.product !== copy.product ? row.product : null;
    const units = (one: { held: number; redeemed: number; burned: number }) => [one.held, one.redeemed, one.burned];
    const differing =
      row && !conflict && copy.archived ? units(copy).map((n, i) => Math.abs(n - (units(row)[i] ?? 0))) : [];
    return {
      ...need,
      product: copy.product,
      unknown: row === null,
      archived: copy.archived,
      hasDetails: copy.details !== null,
      total: isRestocked ? null : total,
      status: this.#journaled.has(`${copy.no} status`) ? null : status,
      archivedUnits: differing.reduce((sum, n) => sum + n, 0),
      missing: { reservations: 0, units: 0 },
      changed: {},
      places: { missing: 0, ended: 0 },
      leftAlone: 0,
      conflict,
    };
  }

  /** Entries that the journal does not have any more. */
  #gone(entries: readonly JournalEntry[]): JournalEntry[] {
    return entries.filter(
      (entry) => 'reservation' in entry && !this.#journaled.has(`${entry.reservation} ${entry.kind}`),
    );
  }

  async #readBacklog(): Promise<void> {
    for await (const entries of this.#entries()) {
      const [first] = entries;
      if (this.#backlog === 0 && first) this.#gap = !follows(this.cursor, first.journalId);
      this.#backlog += entries.length;
      for (const entry of entries) {
        for (const name of namesOf(entry)) this.#journaled.add(name);
        if (entry.kind === 'restocked') {
          this.#restocked.set(entry.no, (this.#restocked.get(entry.no) ?? 0) + entry.delta);
        }
      }
    }
    if (this.#backlog === 0) this.#gap = this.cursor !== this.picture.lastId;
  }

  /** Entries that Postgres lacks and the journal still has, of campaigns that Redis knows, up to the moment of the picture. */
  async *#entries(): AsyncGenerator<JournalEntry[]> {
    let after = this.cursor;
    for (;;) {
      const read = await this.deps.journal.read(after, BATCH);
      const last = read.at(-1);
      if (!last) return;
      after = last.journalId;
      yield read
        .filter(({ journalId }) => compareJournalIds(journalId, this.picture.lastId) <= 0)
        .map(decodeEntry)
        .filter(({ no }) => this.directory.has(no));
      if (read.length < BATCH || compareJournalIds(after, this.picture.lastId) >= 0) return;
    }
  }

  async #nowMs(): Promise<number> {
    const [seconds, micros] = await this.deps.redis.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }
}

function needOf(copy: CampaignCopy, row: CampaignRow | null): Need {
  const codes = copy.codes > (row?.codes ?? 0) ? { redis: copy.codes, postgres: row?.codes ?? 0 } : null;
  const need: Need = { total: null, status: null, terms: null, codes };
  if (!row || row.product !== copy.product) return need;
  // Units that Postgres refused left the total of Redis and stayed in that of Postgres.
  const fewer = Number(row.total) - Number(copy.total);
  if (row.total !== copy.total && (fewer < 0 || fewer > row.refused)) {
    need.total = { redis: copy.total, postgres: row.total };
  }
  if (row.status !== copy.status) need.status = { redis: copy.status, postgres: row.status };
  if (copy.version > row.version) need.terms = { redis: copy.version, postgres: row.version };
  return need;
}

function count(findings: CampaignFindings, record: ReservationRecord, row: ReservationRecord | null): void {
  if (!row) {
    findings.missing.reservations += 1;
    findings.missing.units += record.qty;
    return;
  }
  const what = `${row.state} → ${record.state}`;
  findings.changed[what] = (findings.changed[what] ?? 0) + 1;
}

function namesOf(entry: JournalEntry): string[] {
  switch (entry.kind) {
    case 'reserved':
      return [`${entry.reservation} ${entry.kind}`, `${entry.no}/${entry.lineNo}`];
    case 'queued':
    case 'left':
      return [`${entry.no}/${entry.lineNo}`];
    case 'status':
      return [`${entry.no} status`];
    default:
      return 'reservation' in entry ? [`${entry.reservation} ${entry.kind}`] : [];
  }
}

/** Whether an entry is the very next one: entries of a history are counted from 0 without a gap. */
function follows(cursor: string, journalId: string): boolean {
  const [committed = '', n] = cursor.split('-');
  const [generation = ''] = journalId.split('-');
  return journalId === `${committed}-${Number(n) + 1}` || (generation !== committed && journalId === `${generation}-0`);
}

function chunks<Item>(items: readonly Item[]): Item[][] {
  const result: Item[][] = [];
  for (let start = 0; start < items.length; start += BATCH) result.push(items.slice(start, start + BATCH));
  return result;
}

/** Payment references of rows that Postgres has: the events of the payments still have them. */
function paymentsIn(events: readonly StreamEvent[]): { reservation: string; payment: string }[] {
  return events.flatMap(({ type, subject, json }) => {
    if (type !== 'dev.doorbuster.redemption.redeemed.v1') return [];
    const { data } = JSON.parse(json) as { data?: { payment_ref?: string | null } };
    return data?.payment_ref ? [{ reservation: subject, payment: data.payment_ref }] : [];
  });
}

/** Payments beside the first one, in the same way. */
function duplicatePaymentsIn(events: readonly StreamEvent[]): DuplicatePayment[] {
  return events.flatMap(({ type, subject, json }) => {
    if (type !== 'dev.doorbuster.payment.duplicated.v1') return [];
    const { time, data } = JSON.parse(json) as { time: string; data: { payment_ref: string; campaign_id: string } };
    return [{ reservation: subject, payment: data.payment_ref, campaign: data.campaign_id, at: time }];
  });
}
