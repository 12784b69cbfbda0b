import { randomInt } from 'node:crypto';

/** Slots of the table, a power of two. They suffice for most devices with one user of a busy hour. */
const SLOTS = 1 << 17;

/**
 * Counts the distinct users of a place (a device, a network) in this process, up to a limit. Most places have one user.
 * Each of these takes two numbers in a table that the garbage collector does not scan; an `LRUCache` takes 40 MB for
 * three tables instead of 3, and 2 µs more per checkout. A place that loses its slot to another starts from zero, so
 * the count may be too low. Places with several users are kept in two generations, so that unused ones are dropped
 * after a while.
 */
export class DistinctAccounts {
  readonly #places = new Int32Array(SLOTS);
  readonly #users = new Int32Array(SLOTS);
  #recent = new Map<string, number[]>();
  #before = new Map<string, number[]>();
  #since: number;

  constructor(
    /** Maximum number of places with several users per generation. */
    readonly capacity: number,
    readonly memoryMs: number,
    readonly nowMs: () => number = () => performance.now(),
  ) {
    this.#since = nowMs();
  }

  /** Counts a user of a place. @returns number of users including this one, at most `limit` */
  see(place: string, user: string, limit: number): number {
    this.#forgetOld();
    const hashed = hash(user);
    const users = this.#known(place);
    if (users) {
      if (users.length < limit && !users.includes(hashed)) users.push(hashed);
      return Math.min(users.length, limit);
    }
    const placed = hash(place);
    const slot = slotOf(place);
    const first = this.#users[slot];
    if (this.#places[slot] === placed && first !== undefined && first !== hashed && limit > 1) {
      this.#remember(place, [first, hashed]);
      return 2;
    }
    this.#places[slot] = placed;
    this.#users[slot] = hashed;
    return Math.min(1, limit);
  }

  #known(place: string): number[] | undefined {
    const users = this.#recent.get(place);
    if (users || this.#before.size === 0) return users;
    const older = this.#before.get(place);
    if (older) this.#remember(place, older);
    return older;
  }

  #remember(place: string, users: number[]): void {
    if (this.#recent.size >= this.capacity) this.#beginGeneration();
    this.#recent.set(place, users);
  }

  #forgetOld(): void {
    const ageMs = this.nowMs() - this.#since;
    if (ageMs <= this.memoryMs) return;
    if (ageMs > 2 * this.memoryMs) this.#recent = new Map();
    this.#places.fill(0);
    this.#beginGeneration();
  }

  #beginGeneration(): void {
    this.#before = this.#recent;
    this.#recent = new Map();
    this.#since = this.nowMs();
  }
}

/** Random, so that an attacker cannot choose user ids that collide. */
const SEED = randomInt(0x1_0000_0000);
const SLOT_SEED = randomInt(0x1_0000_0000);

/** FNV-1a with 32 bits and a seed of this process; never 0, which marks an empty slot. */
function hash(text: string): number {
  let value = SEED;
  for (let i = 0; i < text.length; i += 1) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value === 0 ? 1 : value;
}

/**
 * The slot of a place, by another function than its hash (multiplier of MurmurHash2, and the upper bits): two places
 * are confused only if both agree, because with some seeds FNV-1a gives many names of a series the same hash.
 */
function slotOf(place: string): number {
  let value = SLOT_SEED;
  for (let i = 0; i < place.length; i += 1) value = Math.imul(value ^ place.charCodeAt(i), 0x5bd1e995);
  return (value ^ (value >>> 15)) & (SLOTS - 1);
}
