import { BloomFilter } from 'bloomfilter';

const MIN_CAPACITY = 65_536;
/** Spare capacity of the first segment: 5 %. 10 million codes then take 19.5 MB. */
const ROOM = 1.05;
const FIRST_ERROR = 0.000_8;
/** Error rate of further segments, which adds to that of the first. Each has a quarter of the current capacity. */
const NEXT_ERROR = 0.000_1;
const NEXT_SHARE = 0.25;
/** Error rate above which a filter should be rebuilt as one segment. */
const CROWDED_ERROR = 0.001;

type Segment = { bloom: BloomFilter; capacity: number; codes: number };

/** A Bloom filter that adds segments when it exceeds its capacity. It never gives a false negative. */
export class ScalableBloomFilter {
  readonly #segments: Segment[];

  constructor(expectedCodes: number) {
    this.#segments = [segment(Math.max(MIN_CAPACITY, Math.ceil(expectedCodes * ROOM)), FIRST_ERROR)];
  }

  /**
   * @param mayBeKnown false = the code counts without a check, which costs as much as the addition. A code that was
   *   announced and is read from Postgres later must count once, or the filter would seem full.
   */
  add(code: string, mayBeKnown = true): void {
    if (mayBeKnown && this.has(code)) return;
    let last = this.#segments.at(-1) as Segment;
    if (last.codes >= last.capacity) {
      last = segment(Math.max(MIN_CAPACITY, Math.ceil(this.codes * NEXT_SHARE)), NEXT_ERROR);
      this.#segments.push(last);
    }
    last.bloom.add(code);
    last.codes += 1;
  }

  /** Returns false if the code was never added. */
  has(code: string): boolean {
    for (const { bloom } of this.#segments) if (bloom.test(code)) return true;
    return false;
  }

  /** Number of added codes, without those that were mistaken for known ones: at most one in a thousand. */
  get codes(): number {
    return this.#segments.reduce((sum, { codes }) => sum + codes, 0);
  }

  get bytes(): number {
    return this.#segments.reduce((sum, { bloom }) => sum + bloom.buckets.byteLength, 0);
  }

  /** Probability that `has` returns true for a code that was never added. */
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
