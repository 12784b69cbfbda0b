import { BloomFilter } from 'bloomfilter';

const MIN_CAPACITY = 65_536;
/** What is known to come gets 5 % of room; 10 million codes then take 19.5 MB. */
const ROOM = 1.05;
const FIRST_ERROR = 0.000_8;
/** Further segments add up with the first; each is a quarter of what there is. */
const NEXT_ERROR = 0.000_1;
const NEXT_SHARE = 0.25;
/** Beyond it a filter should be made anew, in one piece. */
const CROWDED_ERROR = 0.001;

type Segment = { bloom: BloomFilter; capacity: number; codes: number };

/** A Bloom filter that grows by further segments when more codes come than it was made for. Never a false negative. */
export class ScalableBloomFilter {
  readonly #segments: Segment[];

  constructor(expectedCodes: number) {
    this.#segments = [segment(Math.max(MIN_CAPACITY, Math.ceil(expectedCodes * ROOM)), FIRST_ERROR)];
  }

  add(code: string): void {
    // A code that is heard and then read again must not count twice, or the filter would seem full.
    if (this.has(code)) return;
    let last = this.#segments.at(-1) as Segment;
    if (last.codes >= last.capacity) {
      last = segment(Math.max(MIN_CAPACITY, Math.ceil(this.codes * NEXT_SHARE)), NEXT_ERROR);
      this.#segments.push(last);
    }
    last.bloom.add(code);
    last.codes += 1;
  }

  /** false = was never added. */
  has(code: string): boolean {
    for (const { bloom } of this.#segments) if (bloom.test(code)) return true;
    return false;
  }

  /** Codes added, less those taken for known ones by mistake: at most one in a thousand. */
  get codes(): number {
    return this.#segments.reduce((sum, { codes }) => sum + codes, 0);
  }

  get bytes(): number {
    return this.#segments.reduce((sum, { bloom }) => sum + bloom.buckets.byteLength, 0);
  }

  /** Chance that a code that was never added is taken for a known one, by the number of codes in each segment. */
  get errorRate(): number {
    const pass = this.#segments.map(({ bloom, codes }) => (1 - Math.exp((-bloom.k * codes) / bloom.m)) ** bloom.k);
    return 1 - pass.reduce((refused, rate) => refused * (1 - rate), 1);
  }

  get isCrowded(): boolean {
    return this.errorRate > CROWDED_ERROR;
  }
}

function segment(capacity: number, error: number): Segment {
  return { bloom: BloomFilter.withTargetError(capacity, error), capacity, codes: 0 };
}
