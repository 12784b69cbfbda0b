import type { CampaignRow, FinalState, RedemptionRow, TicketRow } from '../final-state.js';
import type { Call, CallKind, Event, Frame, Recorded } from '../history.js';
import { Losses } from './losses.js';

/** What the judge knows of a campaign that it cannot read from the history. */
export type CampaignFacts = { product: string; total: number | null; isCreated: boolean };

/** An acknowledged checkout or redemption: a unit or a place in line. */
export type Acknowledged = { call: Call; data: Record<string, unknown>; key: string; user: string; product: string };

/** The history and the final state, indexed for the rules. */
export class Facts {
  readonly calls: readonly Call[];
  readonly frames: readonly Frame[];
  readonly events: readonly Event[];
  readonly losses: Losses;
  readonly campaigns: Map<string, CampaignRow>;
  readonly redemptions: Map<string, RedemptionRow>;
  readonly ticketsOf: Map<string, TicketRow[]>;
  readonly acknowledged: Acknowledged[];
  readonly attemptsOfKey: Map<string, Call[]>;
  /** The first idempotency key of each user in each campaign. */
  readonly #firstKeys = new Map<string, string>();
  readonly #byReservation: Map<string, Call[]>;
  readonly #bodies = new Map<Call, Record<string, unknown>>();

  constructor(
    recorded: Recorded,
    readonly final: FinalState,
    readonly campaignFacts: readonly CampaignFacts[],
  ) {
    this.calls = [...recorded.calls].sort((a, b) => a.at - b.at);
    this.frames = recorded.frames;
    this.events = recorded.events;
    this.losses = new Losses(recorded.events);
    this.campaigns = new Map(final.campaigns.map((row) => [row.product_id, row]));
    this.redemptions = new Map(final.redemptions.map((row) => [row.redemption_id, row]));
    this.ticketsOf = grouped(final.tickets, (row) => `${row.product_id} ${row.user_id}`);
    const claims = this.calls.filter(({ kind }) => kind === 'checkout' || kind === 'redeem');
    this.attemptsOfKey = grouped(claims, ({ key, user, product }) => `${product} ${user} ${key}`);
    for (const { product, user, key } of claims) {
      const who = `${product} ${user}`;
      if (!this.#firstKeys.has(who)) this.#firstKeys.set(who, String(key));
    }
    this.acknowledged = claims.flatMap((call) => this.#acknowledgement(call));
    this.#byReservation = grouped(
      this.calls.filter(({ reservation }) => reservation !== undefined),
      ({ reservation }) => String(reservation),
    );
  }

  /** Whether the user had used another idempotency key in this campaign before, so that the place may be that key's. */
  hasEarlierKey({ product, user, key }: Call): boolean {
    return this.#firstKeys.get(`${product} ${user}`) !== key;
  }

  /** The parsed body of a response; empty when it is no JSON object. */
  bodyOf(call: Call): Record<string, unknown> {
    const known = this.#bodies.get(call);
    if (known) return known;
    const body = parse(call.text);
    this.#bodies.set(call, body);
    return body;
  }

  dataOf(call: Call): Record<string, unknown> {
    return (this.bodyOf(call).data ?? {}) as Record<string, unknown>;
  }

  /** Calls of a kind about a reservation, in order of their begin. */
  about(reservation: string, kind: CallKind): Call[] {
    return (this.#byReservation.get(reservation) ?? []).filter((call) => call.kind === kind);
  }

  /** Calls of this kind about the reservation of a call that began before it ended. */
  attemptsAbout(reservation: string, { kind, end }: Call): Call[] {
    return this.about(reservation, kind).filter(({ at }) => at <= end);
  }

  /** All attempts with the key of an acknowledgement that began before the acknowledgement ended. */
  attemptsFor({ product, user, key, call }: Acknowledged): Call[] {
    return (this.attemptsOfKey.get(`${product} ${user} ${key}`) ?? []).filter(({ at }) => at <= call.end);
  }

  /** The durability that a campaign gives to a response that names none. */
  durabilityOf(product: string, data: Record<string, unknown> = {}): string {
    if (typeof data.durability === 'string') return data.durability;
    return this.campaigns.get(product)?.confirmation === 'durable' ? 'committed' : 'journaled';
  }

  /** The longest time for which the program that runs the clients was not scheduled, between two times. */
  longestLag(from: number, to: number): number {
    const lags = this.events.flatMap((event) =>
      event.what === 'lag' && event.at >= from && event.at - event.ms <= to ? [event.ms] : [],
    );
    return Math.max(0, ...lags);
  }

  /** Whether a reject names the reservation, or the user of a place. */
  isRejected(reservation: string, user: string): boolean {
    return this.final.rejects.some(
      ({ fields }) =>
        fields.reservation === reservation ||
        (fields.user === user &&
          (fields.kind === 'queued' || (fields.kind === 'acknowledged' && fields.of === 'place'))),
    );
  }

  #acknowledgement(call: Call): Acknowledged[] {
    const { status, key = '', user = '', product } = call;
    const body = this.bodyOf(call);
    const isFirst = status === 200 || status === 201 || status === 202;
    if (!isFirst && body.code !== 'duplicate_request') return [];
    return [{ call, data: this.dataOf(call), key, user, product }];
  }
}

export function grouped<Item>(items: readonly Item[], nameOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const name = nameOf(item);
    const group = groups.get(name);
    if (group) group.push(item);
    else groups.set(name, [item]);
  }
  return groups;
}

function parse(text: string | undefined): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(text ?? '');
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
