/** The package brings no types; @types/bloomfilter describes a version of ten years ago. */
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
