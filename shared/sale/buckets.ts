import type { ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { CallBatcher } from '../redis/call-batcher.js';
import { saleKeys } from '../redis/keys.js';
import type { SaleCalls } from './sale-calls.js';
import {
  type BucketHeadsOutcome,
  bucketHeadsScript,
  bucketPlacesScript,
  drawNumbersScript,
  type MoveInOutcome,
  type MoveOutOutcome,
  moveInScript,
  moveOutScript,
  type SealOutcome,
  sealScript,
} from './scripts/buckets.js';

/** Users who get a number from one call. */
const MAX_DRAWN = 1_000;

/**
 * The bucket of divided campaigns that a shard has (docs/buckets.md). Every method throws EngineUnavailable when Redis
 * cannot be used.
 */
export class Buckets {
  readonly #draws = new CallBatcher<null, number>({
    maxBatch: MAX_DRAWN,
    send: (product, requests) => this.#draw(product as ProductId, requests.length),
  });

  constructor(readonly calls: SaleCalls) {}

  /**
   * From now on the units of the bucket go to the line only. @param stage whether a unit of the campaign can be
   * obtained
   */
  seal(product: ProductId, stage: 'sealed' | 'spent' | 'obtainable' = 'sealed'): Promise<SealOutcome> {
    return this.calls.keep(this.calls.scripts.run(sealScript, { keys: saleKeys(product), args: { stage } }));
  }

  /** Draws a line number. Only bucket 0 draws, for users of all buckets. */
  draw(product: ProductId): Promise<number> {
    return this.#draws.run(product, null);
  }

  /**
   * @param codes how many unused codes leave with the units; 0 unless the campaign is a pool
   * @param arrived number of a transfer of this bucket: it and all before it have arrived; 0 = unknown
   */
  moveOut(product: ProductId, to: number, units: number, codes = 0, arrived = 0): Promise<MoveOutOutcome> {
    const args = { to: String(to), units, codes, arrived };
    return this.calls.keep(this.calls.scripts.run(moveOutScript, { keys: saleKeys(product), args }));
  }

  /** @param outNo number of the transfer in bucket `from`, which Postgres has. @param codes their numbers */
  moveIn(
    product: ProductId,
    from: number,
    outNo: number,
    units: number,
    codes: readonly number[] = [],
  ): Promise<MoveInOutcome> {
    const args = { from: String(from), out_no: outNo, units, codes: codes.join(',') };
    return this.calls.keep(this.calls.scripts.run(moveInScript, { keys: saleKeys(product), args }));
  }

  /** @param limit users, at most MAX_HEADS */
  heads(product: ProductId, limit: number): Promise<BucketHeadsOutcome> {
    return this.calls.scripts.run(bucketHeadsScript, { keys: saleKeys(product), args: { limit } });
  }

  places(product: ProductId, exact: number, every: number) {
    return this.calls.scripts.run(bucketPlacesScript, { keys: saleKeys(product), args: { exact, every } });
  }

  async #draw(product: ProductId, count: number): Promise<number[]> {
    const outcome = await this.calls.scripts.run(drawNumbersScript, { keys: saleKeys(product), args: { count } });
    if (outcome.kind === 'not_found') throw new EngineUnavailable('redis', `it lacks bucket 0 of ${product}`);
    return Array.from({ length: count }, (_, i) => outcome.last - count + 1 + i);
  }
}
