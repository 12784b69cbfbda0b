import type { JournalEntry } from '../contracts/journal.js';
import type { NewTicket, TicketChange } from '../projection/projection.js';
import type { ReservationRecord } from '../sale/reservation-record.js';
import type { CampaignCopy } from '../sale/sale-copy.js';
import type { Backlog } from './backlog.js';
import { chunks } from './chunks.js';
import type { Picture } from './converge.js';
import type { CampaignFindings } from './findings.js';
import { applied, isErased, missingEntries, placeSteps, placesOf, recordOfRow, type Step, stepOf } from './plan.js';
import type { BucketRow } from './restored-buckets.js';
import type { CampaignRow } from './restored-campaigns.js';
import type { RestoredRows } from './restored-rows.js';

export type Change = { id: string; record: ReservationRecord; row: ReservationRecord | null; step: Step };
/** The changes that the campaign's own row needs. */
export type Need = Pick<CampaignFindings, 'total' | 'status' | 'terms' | 'codes'>;
export type CampaignPlan = {
  need: Need;
  copy: CampaignCopy;
  row: CampaignRow | null;
  changes: Change[];
  /** Reservations of users who were erased since, with the pseudonym. */
  erased: { id: string; pseudonym: string }[];
  newTickets: NewTicket[];
  ticketChanges: TicketChange[];
  findings: CampaignFindings;
};

/** Compares campaigns in Redis with their rows, and plans the necessary changes. */
export class Planner {
  constructor(
    readonly rows: RestoredRows,
    readonly picture: Picture,
    readonly backlog: Backlog,
    readonly nowMs: number,
  ) {}

  /**
   * @param copy a campaign, or its bucket in this shard; what the divided campaign itself needs is planned for all of
   *   its buckets together (planDivision)
   */
  async plan(copy: CampaignCopy, row: CampaignRow | null, bucket: BucketRow | null): Promise<CampaignPlan> {
    const { product } = copy;
    const need = copy.part ? NO_NEED : needOf(copy, row);
    const plan: CampaignPlan = {
      need,
      copy,
      row,
      changes: [],
      erased: [],
      newTickets: [],
      ticketChanges: [],
      findings: copy.part ? this.#compareBucket(copy, row, bucket) : this.#compareTerms(need, copy, row),
    };
    if (copy.archived || plan.findings.conflict) return plan;
    const records = this.picture.records.get(product) ?? { reservations: new Map(), people: new Map() };
    const names = this.picture.names.of(product);
    const tail = this.picture.tail.filter(({ no }) => no === copy.no);
    await this.#planReservations(plan, [...names.reservations], records.reservations, tail);
    await this.#planPlaces(plan, [...names.users], records.people, tail);
    return plan;
  }

  async #planReservations(
    plan: CampaignPlan,
    ids: readonly string[],
    records: ReadonlyMap<string, ReservationRecord>,
    tail: readonly JournalEntry[],
  ): Promise<void> {
    const later = new Map<string, JournalEntry[]>();
    for (const entry of tail) {
      if ('reservation' in entry && entry.kind !== 'queued') {
        later.set(entry.reservation, [...(later.get(entry.reservation) ?? []), entry]);
      }
    }
    for (const some of chunks(ids)) {
      const rows = await this.rows.reservations(some);
      for (const id of some) {
        const stored = rows.get(id);
        const row = stored ? recordOfRow(stored) : null;
        const entries = later.get(id) ?? [];
        // A reservation whose record was not read did not differ, so the row in Postgres is its state before the tail.
        const base = records.get(id) ?? (entries.length > 0 ? row : null);
        const record = entries.reduce(applied, base);
        const step = stepOf(record, row);
        if (record && isErased(record, row)) {
          plan.erased.push({ id, pseudonym: record.user });
          plan.findings.erased += 1;
        }
        if (step === 'left_alone') plan.findings.leftAlone += 1;
        else if (step !== 'nothing' && record) {
          plan.changes.push({ id, record, row, step });
          const gone = this.backlog.without(missingEntries(plan.copy, id, record, row, this.nowMs));
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
  ): Promise<void> {
    const promoted = new Map(plan.changes.map(({ id, record }) => [id, record]));
    const places = placesOf(people, promoted, tail);
    const tickets = new Map<number, Awaited<ReturnType<RestoredRows['waitingTickets']>>[number]>();
    if (plan.row) {
      for (const some of chunks([...places.keys()])) {
        for (const ticket of await this.rows.ticketsByNumber(plan.row.id, some)) tickets.set(ticket.lineNo, ticket);
      }
      for (const some of chunks(users)) {
        for (const ticket of await this.rows.waitingTickets(plan.row.id, some)) tickets.set(ticket.lineNo, ticket);
      }
    }
    const { inserts, ends } = placeSteps(plan.copy.no, places, [...tickets.values()], this.nowMs);
    plan.newTickets = inserts;
    plan.ticketChanges = ends;
    const gone = (steps: readonly { no: number; lineNo: number }[]) =>
      steps.filter(({ no, lineNo }) => !this.backlog.hasPlace(no, lineNo)).length;
    plan.findings.places = { missing: gone(inserts), ended: gone(ends) };
  }

  #compareTerms(need: Need, copy: CampaignCopy, row: CampaignRow | null): CampaignFindings {
    const { total, status } = need;
    const restocked = this.backlog.unitsAdded(copy.no);
    const isRestocked = total !== null && Number(total.redis) - restocked === total.postgres;
    const found = findingsOf(copy, row, need);
    return {
      ...found,
      total: isRestocked ? null : total,
      status: this.backlog.hasStatus(copy.no) ? null : status,
      archivedUnits: row && !found.conflict ? archivedUnits(copy, row) : 0,
    };
  }

  #compareBucket(copy: CampaignCopy, row: CampaignRow | null, bucket: BucketRow | null): CampaignFindings {
    const found = findingsOf(copy, row, NO_NEED);
    const changed = this.backlog.unitsAdded(copy.no) + this.backlog.unitsMoved(copy.no);
    const isExplained = copy.total === null || copy.total - changed === bucket?.total;
    const hasTotal = bucket !== null && !found.conflict && differ(copy.total, bucket) && !isExplained;
    return {
      ...found,
      bucket: copy.part?.bucket ?? 0,
      unknown: false,
      total: hasTotal ? { redis: copy.total, postgres: bucket.total } : null,
      archivedUnits: bucket && !found.conflict ? archivedUnits(copy, bucket) : 0,
    };
  }
}

const NO_NEED: Need = { total: null, status: null, terms: null, codes: null };

/** The findings about a campaign whose reservations and places have not been compared. */
export function findingsOf(copy: CampaignCopy, row: CampaignRow | null, need: Need): CampaignFindings {
  return {
    ...need,
    product: copy.product,
    unknown: row === null,
    archived: copy.archived,
    hasDetails: copy.details !== null,
    archivedUnits: 0,
    missing: { reservations: 0, units: 0 },
    changed: {},
    places: { missing: 0, ended: 0 },
    leftAlone: 0,
    erased: 0,
    conflict: row && row.product !== copy.product ? row.product : null,
  };
}

type Counters = { held: number; redeemed: number; burned: number };

function archivedUnits(copy: CampaignCopy, row: Counters): number {
  if (!copy.archived) return 0;
  const units = ({ held, redeemed, burned }: Counters) => [held, redeemed, burned];
  return units(copy).reduce((sum, n, i) => sum + Math.abs(n - (units(row)[i] ?? 0)), 0);
}

/**
 * Whether Postgres must get another total. Units that it rejected were removed from the total of Redis, but not from
 * its own.
 */
export function differ(total: number | null, row: { total: number | null; refused: number }): boolean {
  const fewer = Number(row.total) - Number(total);
  return row.total !== total && (fewer < 0 || fewer > row.refused);
}

export function needOf(copy: CampaignCopy, row: CampaignRow | null): Need {
  const codes = copy.codes > (row?.codes ?? 0) ? { redis: copy.codes, postgres: row?.codes ?? 0 } : null;
  const need: Need = { total: null, status: null, terms: null, codes };
  if (!row || row.product !== copy.product) return need;
  if (differ(copy.total, row)) need.total = { redis: copy.total, postgres: row.total };
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
  const same = record.qty < row.qty ? 'fewer units' : 'later deadline';
  const what = row.state === record.state ? `${row.state}, ${same}` : `${row.state} → ${record.state}`;
  findings.changed[what] = (findings.changed[what] ?? 0) + 1;
}
