import type { Difference } from '../contracts/verdict.js';
import type { StoredCampaign } from '../postgres/campaigns.js';
import { WaitingTickets } from '../postgres/waiting-tickets.js';
import { LineReader, type Place } from '../sale/line-reader.js';
import type { LedgerDeps } from './compare.js';

const WHY = {
  missing: 'a user waits in Redis without a place in Postgres',
  unknown: 'a place in Postgres that is not in Redis',
  other: 'Redis and Postgres have different places',
} as const;
const REASONS: ReadonlySet<string> = new Set(Object.values(WHY));

/** Whether a difference is about a place in line. */
export function isPlace({ why }: Difference): boolean {
  return REASONS.has(why);
}

/** Whether Redis has a place that Postgres lacks. */
export function isMissingPlace({ why }: Difference): boolean {
  return why === WHY.missing;
}

/** Compares the line of a campaign in Redis with its waiting tickets in Postgres. */
export class LineComparison {
  readonly #line: Pick<LineReader, 'places' | 'placesOf'>;
  readonly #tickets: WaitingTickets;

  constructor(
    deps: LedgerDeps,
    readonly campaign: StoredCampaign,
    readonly batch: number,
  ) {
    this.#line = 'line' in deps.sale ? deps.sale.line : new LineReader(deps.sale.scripts);
    this.#tickets = new WaitingTickets(deps.redemptions.database);
  }

  /** Users whose places differ at this moment, including those whose journal entries are not persisted yet. */
  async suspects(): Promise<Set<string>> {
    const suspects = new Set<string>();
    const { productId, id } = this.campaign;
    for await (const places of this.#line.places(productId, this.batch)) {
      const tickets = await this.#tickets.waitingOf(id, [...places.keys()]);
      for (const [user, place] of places) if (differ(place, tickets.get(user))) suspects.add(user);
    }
    for await (const tickets of this.#tickets.waiting(id, this.batch)) {
      const places = await this.#line.placesOf(productId, [...tickets.keys()]);
      for (const [user, ticket] of tickets) if (differ(places.get(user), ticket)) suspects.add(user);
    }
    return suspects;
  }

  /** Compares the places of these users again. @returns the differences that remain */
  async confirm(suspects: ReadonlySet<string>): Promise<ReadonlyMap<string, Difference>> {
    const found = new Map<string, Difference>();
    const users = [...suspects];
    for (let start = 0; start < users.length; start += this.batch) {
      const some = users.slice(start, start + this.batch);
      const [places, tickets] = await Promise.all([
        this.#line.placesOf(this.campaign.productId, some),
        this.#tickets.waitingOf(this.campaign.id, some),
      ]);
      for (const user of some) {
        const [place, ticket] = [places.get(user), tickets.get(user)];
        if (differ(place, ticket)) found.set(user, differenceOf(place, ticket));
      }
    }
    return found;
  }
}

function differ(place: Place | undefined, ticket: Place | undefined): boolean {
  return place?.lineNo !== ticket?.lineNo || place?.reservation !== ticket?.reservation;
}

function differenceOf(place: Place | undefined, ticket: Place | undefined): Difference {
  const side = place && !ticket ? 'redis' : 'postgres';
  const why = place ? (ticket ? WHY.other : WHY.missing) : WHY.unknown;
  const reservation = place?.reservation ?? ticket?.reservation ?? null;
  return { reservation, side, why, redis: textOf(place), postgres: textOf(ticket) };
}

function textOf(place: Place | undefined): string | null {
  return place ? `waiting, line number ${place.lineNo}` : null;
}
