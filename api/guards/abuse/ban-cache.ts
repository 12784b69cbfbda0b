import { type Ban, type BanKind, isByRule } from '../../../shared/domain/ban.js';
import { isRange, NetworkRanges } from '../caller/networks.js';

type ByKind = Record<BanKind, Map<string, Ban>>;
const byKind = (): ByKind => ({ user: new Map(), device: new Map(), network: new Map() });

/**
 * Bans and allowances of one process, indexed by subject. A search costs one look-up, and for networks one more per
 * prefix length in use. When it is full, it evicts the oldest. Bans by operators and bans by rules have separate
 * capacities, because an attacker decides how many bans the rules make.
 */
export class BanCache {
  readonly #ofOperators = new Map<string, Ban>();
  readonly #ofRules = new Map<string, Ban>();
  readonly #banned = byKind();
  readonly #allowed = byKind();
  readonly #bannedRanges = new NetworkRanges<Ban>();
  readonly #allowedRanges = new NetworkRanges<Ban>();

  constructor(
    /** Maximum number of bans by operators, and also of bans by rules. */
    readonly capacity: number,
    readonly nowMs: () => number,
  ) {}

  /** Number of cached bans. */
  get size(): number {
    return this.#ofOperators.size + this.#ofRules.size;
  }

  has(id: string): boolean {
    return this.#ofOperators.has(id) || this.#ofRules.has(id);
  }

  put(ban: Ban): void {
    const room = isByRule(ban) ? this.#ofRules : this.#ofOperators;
    if (room.size >= this.capacity && !room.has(ban.id)) this.#drop(String(room.keys().next().value));
    room.set(ban.id, ban);
    this.#index(ban);
  }

  /** Removes a ban and re-indexes any other ban of the same subject. */
  remove(id: string): void {
    const ban = this.#drop(id);
    if (!ban) return;
    for (const other of this.#all()) {
      if (other.subject === ban.subject && other.kind === ban.kind) this.#index(other);
    }
  }

  /** Removes an expired ban. After a ban by a rule, no other ban can become effective, so nothing is re-indexed. */
  end(id: string): void {
    if (this.#ofRules.has(id)) this.#drop(id);
    else this.remove(id);
  }

  replace(bans: Iterable<Ban>): void {
    this.#ofOperators.clear();
    this.#ofRules.clear();
    for (const maps of [this.#banned, this.#allowed]) for (const map of Object.values(maps)) map.clear();
    this.#bannedRanges.clear();
    this.#allowedRanges.clear();
    for (const ban of bans) this.put(ban);
  }

  /** Ids of expired bans. */
  get expired(): string[] {
    return [...this.#all()].filter((ban) => !this.isInForce(ban)).map(({ id }) => id);
  }

  /** Returns the ban of a subject that is in force; null = none. */
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

  /** Indexes a ban. Of several for one subject, an operator's wins; among equals, the one that lasts longest. */
  #index(ban: Ban): void {
    const index = this.#indexOf(ban);
    const before = index.get(ban.subject);
    if (!before || isStronger(ban, before)) index.set(ban.subject, ban);
  }

  #drop(id: string): Ban | null {
    const ban = this.#ofOperators.get(id) ?? this.#ofRules.get(id);
    if (!ban) return null;
    this.#ofOperators.delete(id);
    this.#ofRules.delete(id);
    const index = this.#indexOf(ban);
    if (index.get(ban.subject)?.id === id) index.delete(ban.subject);
    return ban;
  }

  *#all(): Generator<Ban> {
    yield* this.#ofOperators.values();
    yield* this.#ofRules.values();
  }

  #indexOf({ effect, kind, subject }: Ban): Map<string, Ban> | NetworkRanges<Ban> {
    const isBan = effect === 'ban';
    if (kind === 'network' && isRange(subject)) return isBan ? this.#bannedRanges : this.#allowedRanges;
    return (isBan ? this.#banned : this.#allowed)[kind];
  }
}

const lasts = ({ untilMs }: Ban): number => untilMs ?? Number.POSITIVE_INFINITY;

function isStronger(ban: Ban, other: Ban): boolean {
  if (isByRule(ban) !== isByRule(other)) return isByRule(other);
  return lasts(ban) >= lasts(other);
}
