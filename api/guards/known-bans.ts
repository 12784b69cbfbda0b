import type { Ban, BanKind } from '../../shared/domain/ban.js';
import { isRange, NetworkRanges } from './networks.js';

type ByKind = Record<BanKind, Map<string, Ban>>;
const byKind = (): ByKind => ({ user: new Map(), device: new Map(), network: new Map() });

/**
 * Bans and allowances of one process, found by whom they are about: a look-up for a subject, one more for each length that a
 * range has. Bounded: when it is full, the oldest goes.
 */
export class KnownBans {
  readonly #byId = new Map<string, Ban>();
  readonly #banned = byKind();
  readonly #allowed = byKind();
  readonly #bannedRanges = new NetworkRanges<Ban>();
  readonly #allowedRanges = new NetworkRanges<Ban>();

  constructor(
    readonly capacity: number,
    readonly nowMs: () => number,
  ) {}

  /** How many it holds. */
  get size(): number {
    return this.#byId.size;
  }

  has(id: string): boolean {
    return this.#byId.has(id);
  }

  put(ban: Ban): void {
    if (this.#byId.size >= this.capacity && !this.#byId.has(ban.id)) this.drop(String(this.#byId.keys().next().value));
    this.#byId.set(ban.id, ban);
    this.#index(ban);
  }

  /** Whatever else is said of its subject is in force again. */
  remove(id: string): void {
    const ban = this.drop(id);
    if (!ban) return;
    for (const other of this.#byId.values()) {
      if (other.subject === ban.subject && other.kind === ban.kind) this.#index(other);
    }
  }

  /** As `remove`, where nothing else can come into force by it. */
  drop(id: string): Ban | null {
    const ban = this.#byId.get(id);
    if (!ban) return null;
    this.#byId.delete(id);
    const index = this.#indexOf(ban);
    if (index.get(ban.subject)?.id === id) index.delete(ban.subject);
    return ban;
  }

  replace(bans: Iterable<Ban>): void {
    this.#byId.clear();
    for (const maps of [this.#banned, this.#allowed]) for (const map of Object.values(maps)) map.clear();
    this.#bannedRanges.clear();
    this.#allowedRanges.clear();
    for (const ban of bans) {
      this.#byId.set(ban.id, ban);
      this.#index(ban);
    }
  }

  /** Ids of those that have ended. */
  get over(): string[] {
    return [...this.#byId.values()].filter((ban) => !this.isInForce(ban)).map(({ id }) => id);
  }

  /** What keeps this one out; null = nothing does. */
  banOf(kind: BanKind, subject: string): Ban | null {
    return this.#inForce(this.#banned, this.#bannedRanges, kind, subject);
  }

  allowanceOf(kind: BanKind, subject: string): Ban | null {
    return this.#inForce(this.#allowed, this.#allowedRanges, kind, subject);
  }

  isInForce(ban: Ban | undefined): ban is Ban {
    return ban !== undefined && (ban.untilMs === null || ban.untilMs > this.nowMs());
  }

  #inForce(maps: ByKind, ranges: NetworkRanges<Ban>, kind: BanKind, subject: string): Ban | null {
    const own = maps[kind].get(subject);
    if (this.isInForce(own)) return own;
    if (kind === 'network') for (const ban of ranges.around(subject)) if (this.isInForce(ban)) return ban;
    return null;
  }

  /** Of several about one subject, the one that lasts longest counts. */
  #index(ban: Ban): void {
    const index = this.#indexOf(ban);
    const before = index.get(ban.subject);
    if (!before || lasts(ban) >= lasts(before)) index.set(ban.subject, ban);
  }

  #indexOf({ effect, kind, subject }: Ban): Map<string, Ban> | NetworkRanges<Ban> {
    const isBan = effect === 'ban';
    if (kind === 'network' && isRange(subject)) return isBan ? this.#bannedRanges : this.#allowedRanges;
    return (isBan ? this.#banned : this.#allowed)[kind];
  }
}

const lasts = ({ untilMs }: Ban): number => untilMs ?? Number.POSITIVE_INFINITY;
