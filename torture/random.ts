/** A seeded generator of pseudo-random numbers (sfc32). The same seed gives the same choices on every machine. */
export class Random {
  readonly seed: string;
  #a = 0;
  #b = 0;
  #c = 0;
  #counter = 1;

  constructor(seed: string) {
    this.seed = seed;
    const hash = hashOf(seed);
    this.#a = hash();
    this.#b = hash();
    this.#c = hash();
    for (let i = 0; i < 12; i += 1) this.next();
  }

  /** An independent generator: what one part of a run draws does not change what another part draws. */
  fork(name: string): Random {
    return new Random(`${this.seed}/${name}`);
  }

  /** From 0 up to, but not including, 1. */
  next(): number {
    const t = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + t;
    return (t >>> 0) / 4_294_967_296;
  }

  /** An integer from `min` to `max`, both included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<Item>(items: readonly Item[]): Item {
    const item = items[this.int(0, items.length - 1)];
    if (item === undefined) throw new Error('there is nothing to pick from');
    return item;
  }

  /** Picks an item with a probability in proportion to its weight. */
  weighted<Item>(items: readonly (readonly [Item, number])[]): Item {
    let left = this.next() * items.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [item, weight] of items) {
      left -= weight;
      if (left < 0) return item;
    }
    const last = items.at(-1);
    if (last === undefined) throw new Error('there is nothing to pick from');
    return last[0];
  }

  /** A text of `length` characters that are allowed in ids and idempotency keys. */
  text(length: number): string {
    const characters = 'abcdefghijkmnpqrstuvwxyz23456789';
    return Array.from({ length }, () => characters[this.int(0, characters.length - 1)]).join('');
  }
}

/** xmur3: 32-bit numbers from a text. */
function hashOf(text: string): () => number {
  let hash = 1_779_033_703 ^ text.length;
  for (let i = 0; i < text.length; i += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 3_432_918_353);
    hash = (hash << 13) | (hash >>> 19);
  }
  return () => {
    hash = Math.imul(hash ^ (hash >>> 16), 2_246_822_507);
    hash = Math.imul(hash ^ (hash >>> 13), 3_266_489_909);
    hash ^= hash >>> 16;
    return hash >>> 0;
  };
}
