/** The package has no types, and @types/bloomfilter describes a version that is ten years old. */
declare module 'bloomfilter' {
  export class BloomFilter {
    static withTargetError(capacity: number, error: number): BloomFilter;
    readonly m: number;
    readonly k: number;
    readonly buckets: Uint32Array;
    add(value: string): void;
    test(value: string): boolean;
  }
}
