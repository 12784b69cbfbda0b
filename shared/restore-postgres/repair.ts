import type { Redis } from 'ioredis';
import { campaignOfNumber } from '../domain/buckets.js';
import { orderIdOf } from '../domain/ids.js';
import type { Queryable } from '../postgres/pool.js';
import { recountMinutes } from '../postgres/sale-minutes.js';
import { restatedTotals } from '../projection/campaign-totals.js';
import { eventsOf } from '../projection/events-of-entries.js';
import type { JournalCursor } from '../projection/journal-cursor.js';
import { insertEvents } from '../projection/new-events.js';
import { emptyProjection, projectEntries } from '../projection/projection.js';
import { writeProjection } from '../projection/write-projection.js';
import { readEpoch } from '../redis/epoch.js';
import type { EventStream, StreamEvent } from '../redis/event-stream.js';
import { decodeStoredRequest } from '../redis/idempotency-record.js';
import type { Journal } from '../redis/journal.js';
import { type CampaignCopy, SaleCopy } from '../sale/sale-copy.js';
import { Backlog, type KnownCampaigns } from './backlog.js';
import { BATCH, chunks } from './chunks.js';
import type { Picture } from './converge.js';
import { paymentsInRedis, stackingInRedis } from './fill-from-redis.js';
import type { Findings } from './findings.js';
import { missingEntries } from './plan.js';
import { type CampaignPlan, type Change, Planner } from './plan-campaign.js';
import type { CampaignRows } from './restored-buckets.js';
import { RestoredCampaigns } from './restored-campaigns.js';
import { type DuplicatePayment, type Promotion, RestoredDetails } from './restored-details.js';
import { RestoredRows } from './restored-rows.js';

export const ACTOR = 'npm run reconcile';
export const ACTION = 'reconcile after restore';

type RepairDeps = { redis: Redis; journal: Journal; stream: EventStream; cursor: JournalCursor };

/**
 * Plans and writes the data that Postgres lacks of one shard, in the caller's transaction. The caller writes several
 * shards step by step, because units of a divided campaign move between them: each step is written for all shards
 * before the next one.
 */
export class Repair {
  readonly #campaigns: RestoredCampaigns;
  readonly #details: RestoredDetails;
  readonly #rows: RestoredRows;
  readonly backlog: Backlog;
  #plans: readonly CampaignPlan[] = [];
  #nowMs = 0;
  #renumberedEvents: number | null = null;
  #promotions: Promotion[] = [];

  constructor(
    readonly deps: RepairDeps,
    readonly client: Queryable,
    known: KnownCampaigns,
    readonly picture: Picture,
    /** Campaigns whose number belongs to another campaign in the directory. */
    readonly unnamed: readonly CampaignCopy[],
    cursor: string,
  ) {
    this.#campaigns = new RestoredCampaigns(client);
    this.#details = new RestoredDetails(client);
    this.#rows = new RestoredRows(client);
    this.backlog = new Backlog(deps.journal, cursor, picture.lastId, known);
  }

  /** Reads the journal, and the moment of the repair. Must be called first. */
  async read(): Promise<void> {
    await this.backlog.read();
    this.#nowMs = await this.#now();
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  async plan({ campaigns, buckets }: CampaignRows): Promise<void> {
    const planner = new Planner(this.#rows, this.picture, this.backlog, this.#nowMs);
    const plans: CampaignPlan[] = [];
    for (const copy of [...this.picture.campaigns.values(), ...this.unnamed]) {
      const row = campaigns.find(({ no }) => no === copy.no) ?? null;
      const bucket = buckets.find((one) => one.no === copy.no && one.bucket === copy.part?.bucket) ?? null;
      plans.push(await planner.plan(copy, row, bucket));
    }
    this.#plans = plans;
  }

  findings(): Findings {
    return {
      cursor: this.backlog.cursor,
      lastId: this.picture.lastId,
      backlog: this.backlog.size,
      gap: this.backlog.hasGap,
      campaigns: this.#plans.map(({ findings }) => findings),
      renumberedEvents: this.#renumberedEvents,
    };
  }

  get #writable(): CampaignPlan[] {
    return this.#plans.filter(({ findings }) => !findings.conflict);
  }

  /**
   * Continues the numbers of events, and writes terms and stock. Users who were erased since get their pseudonyms
   * first, because they may have come back under the erased id and taken units again.
   */
  async begin(): Promise<void> {
    for (const { erased } of this.#writable) for (const some of chunks(erased)) await this.#rows.eraseUsers(some);
    const { renumbered, promotions } = await this.#continueEvents(promotedAgain(this.#writable));
    this.#renumberedEvents = renumbered;
    this.#promotions = promotions;
    for (const plan of this.#writable) if (!plan.copy.part) await this.#writeTerms(plan);
  }

  /** Writes reservations and places that end, which makes room for those that begin. */
  async writeEnds(): Promise<void> {
    for (const plan of this.#writable) {
      await this.#writeChanges(plan, ({ step }) => step === 'end');
      for (const some of chunks(plan.ticketChanges)) await this.#writeSome({ ticketChanges: some });
    }
  }

  /** Writes reservations and places that begin. */
  async writeBeginnings(): Promise<void> {
    for (const plan of this.#writable) {
      await this.#writeChanges(plan, ({ step }) => step !== 'end');
      for (const some of chunks(plan.newTickets)) await this.#writeSome({ newTickets: some });
    }
  }

  async writeStatuses(): Promise<void> {
    for (const plan of this.#writable) if (!plan.copy.part) await this.#writeStatus(plan, this.#nowMs);
  }

  /**
   * Writes events and details, and moves the cursor.
   * @param totals campaign number → units of a divided campaign before the restocks that the journal still has
   */
  async finish(totals: Map<number, number>): Promise<void> {
    for (const plan of this.#writable) await this.#writeEvents(plan);
    for (const some of chunks(this.#promotions)) await this.#details.fillPromotions(some);
    await this.#fillIn(totals);
    await this.#fillAnswers(this.#writable);
    for (const plan of this.#writable) await this.#fillFromRecords(plan, this.#nowMs);
    // Reservations were written before their places, and times of both have changed since.
    const changed = this.#writable.filter((plan) => plan.changes.length + plan.newTickets.length > 0);
    await recountMinutes(this.client, [...new Set(changed.map(({ copy }) => copy.no))]);
    const epoch = await readEpoch(this.deps.redis);
    if (epoch) await this.#rows.keepHistory(epoch, this.picture.lastId, this.deps.cursor.shard);
    await this.deps.cursor.move(this.client, this.picture.lastId);
  }

  async #writeSome(batch: Partial<ReturnType<typeof emptyProjection>>): Promise<void> {
    await writeProjection(this.client, { ...emptyProjection(), ...batch });
  }

  async #writeTerms({ copy, row, need }: CampaignPlan): Promise<void> {
    const { cursor } = this.deps;
    if (!row) await this.#campaigns.create(copy, cursor.hasOthers ? cursor.shard : null);
    else if (need.terms) await this.#campaigns.raiseTerms(row, copy);
    if (need.codes) await this.#campaigns.raiseCodes(copy.no, copy.codes);
    if (row && need.total && (copy.total === null || copy.total > Number(row.total))) {
      await this.#campaigns.setTotal(copy.no, copy.total);
    }
  }

  async #writeStatus({ copy, row, need }: CampaignPlan, nowMs: number): Promise<void> {
    // A lower total is written last, because more units may have been in use before.
    if (row && need.total && copy.total !== null && Number(row.total) > copy.total) {
      await this.#campaigns.setTotal(copy.no, copy.total + row.refused);
    }
    if (need.status) await this.#writeSome({ statuses: new Map([[copy.no, copy.status]]) });
    if (row && copy.status === 'open') await this.#campaigns.setBeginning(copy.no, copy.terms.startsAt.getTime());
    if (row && !need.total && !need.status && !need.terms) return;
    const before = row && { total_limit: row.total, status: row.status, version: row.version };
    const after = { total_limit: copy.total, status: copy.status, version: copy.version };
    const entry = { atMs: nowMs, actor: ACTOR, action: ACTION, no: copy.no, before: before ?? {}, after, request: '' };
    await this.#writeSome({ audit: [entry] });
  }

  async #writeChanges(plan: CampaignPlan, which: (change: Change) => boolean): Promise<void> {
    for (const some of chunks(plan.changes.filter(which))) {
      const entries = some.flatMap(({ id, record, row }) => missingEntries(plan.copy, id, record, row, this.#nowMs));
      // `#fillIn` writes the history of what the journal still has.
      const { history } = projectEntries(this.backlog.without(entries));
      await writeProjection(this.client, { ...projectEntries(entries), history });
    }
  }

  /**
   * Writes the events of entries that the journal no longer has. `#fillIn` writes those of the other entries, with
   * their details.
   */
  async #writeEvents(plan: CampaignPlan): Promise<void> {
    for (const some of chunks(plan.changes)) {
      const entries = some.flatMap(({ id, record, row }) => missingEntries(plan.copy, id, record, row, this.#nowMs));
      await insertEvents(this.client, eventsOf(this.backlog.without(entries)));
    }
  }

  /** Writes the data that only the entries in the journal have: details, idempotency records, audit log and events. */
  async #fillIn(totals: Map<number, number>): Promise<void> {
    for await (const read of this.backlog.entries()) {
      const entries = restatedTotals(read, totals);
      await this.#details.fillIn(entries);
      const { answers, audit, begun, closedLines, furtherPayments, history } = projectEntries(entries);
      await this.#writeSome({ answers, audit, begun, closedLines, furtherPayments, history });
      await insertEvents(this.client, eventsOf(entries));
    }
  }

  /** Writes idempotency records whose entries are lost. Redis still has them for a while. */
  async #fillAnswers(plans: readonly CampaignPlan[]): Promise<void> {
    const reservations = new Set(plans.flatMap(({ changes }) => changes.flatMap(({ id, row }) => (row ? [] : [id]))));
    const users = new Map<string, number>(
      plans.flatMap(({ newTickets }) =>
        newTickets.map(({ no, user, atMs }): [string, number] => [`${no}|${user}`, atMs]),
      ),
    );
    if (reservations.size + users.size === 0) return;
    const lacking = plans.filter(({ changes, newTickets }) => changes.length + newTickets.length > 0);
    const campaigns = lacking.map(({ copy }) => copy.no);
    for await (const answers of new SaleCopy(this.deps.redis).answers(campaigns)) {
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
          const atMs = users.get(`${campaignOfNumber(no)}|${user}`);
          if (atMs !== undefined) queued.push({ no: campaignOfNumber(no), key, answer, atMs });
        }
      }
      await this.#details.fillAnswers(completed);
      await this.#writeSome({ answers: queued });
    }
  }

  /** Writes the payments and orders of restored reservations. Redis stores both separately from the records. */
  async #fillFromRecords({ copy, changes, newTickets }: CampaignPlan, nowMs: number): Promise<void> {
    const { redis } = this.deps;
    for (const some of chunks(changes)) {
      const ids = some.map(({ id }) => id);
      await this.#writeSome({ furtherPayments: await paymentsInRedis(redis, copy, ids, nowMs) });
    }
    const named = [
      ...changes.map(({ id, record }) => ({ reservation: id, user: record.user, order: record.orderId })),
      ...newTickets.map(({ reservation, user, order }) => ({
        reservation,
        user,
        order: order || orderIdOf(reservation),
      })),
    ];
    for (const some of chunks(named)) await this.#details.fillStacking(await stackingInRedis(redis, some));
  }

  /** @param promoted reservations whose promotions are looked up in the events */
  async #continueEvents(promoted: ReadonlySet<string>): Promise<{ renumbered: number; promotions: Promotion[] }> {
    const published = new Map<number, string>();
    const promotions: Promotion[] = [];
    for await (const events of this.deps.stream.entries(BATCH)) {
      for (const { seq, id } of events) published.set(seq, id);
      await this.#details.fillPayments(paymentsIn(events));
      await this.#details.fillDuplicatePayments(duplicatePaymentsIn(events));
      promotions.push(...promotionsIn(events.filter(({ subject }) => promoted.has(subject))));
    }
    const renumbered = await this.#rows.continueOutbox(await this.deps.stream.lastSeq(), published);
    return { renumbered, promotions };
  }

  async #now(): Promise<number> {
    const [seconds, micros] = await this.deps.redis.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }
}

/** Payment references in the events of payments, for rows that Postgres has. */
function paymentsIn(events: readonly StreamEvent[]): { reservation: string; payment: string }[] {
  return events.flatMap(({ type, subject, json }) => {
    if (type !== 'dev.doorbuster.redemption.redeemed.v1') return [];
    const { data } = JSON.parse(json) as { data?: { payment_ref?: string | null } };
    return data?.payment_ref ? [{ reservation: subject, payment: data.payment_ref }] : [];
  });
}

/** Finds duplicate payments in the events, in the same way. */
function duplicatePaymentsIn(events: readonly StreamEvent[]): DuplicatePayment[] {
  return events.flatMap(({ type, subject, json }) => {
    if (type !== 'dev.doorbuster.payment.duplicated.v1') return [];
    const { time, data } = JSON.parse(json) as { time: string; data: { payment_ref: string; campaign_id: string } };
    return [{ reservation: subject, payment: data.payment_ref, campaign: data.campaign_id, at: time }];
  });
}

/** Reservations of promoted users that Postgres lacks. */
function promotedAgain(plans: readonly CampaignPlan[]): ReadonlySet<string> {
  const changes = plans.flatMap((plan) => plan.changes);
  return new Set(changes.flatMap(({ id, record, row }) => (row === null && record.lineNo > 0 ? [id] : [])));
}

function promotionsIn(events: readonly StreamEvent[]): Promotion[] {
  return events.flatMap(({ type, subject, json }) => {
    if (type !== 'dev.doorbuster.waiting.promoted.v1') return [];
    const { time } = JSON.parse(json) as { time: string };
    return [{ reservation: subject, at: time }];
  });
}
