import type { ProductId } from '../domain/ids.js';
import { parseEntry } from '../redis/journal-entries.js';
import type { WithoutEntries } from '../redis/script-contract.js';
import type { ScriptRunner } from '../redis/script-runner.js';
import { decided, type Missed, type Recall } from './recall.js';
import type { UnpersistedPromises } from './unpersisted-promises.js';

export type SaleLimits = {
  idempotencyTtlMs: number;
  journalLimitEntries: number;
  deviceQuota: number;
  deviceWindowMs: number;
  /** Time for which claims on an order are kept. Afterwards only Postgres checks what combines. */
  orderMemoryMs: number;
  /** Replicas that callers wait for before they respond; 0 = none. */
  waitReplicas: number;
};

/** Runs scripts for the parts of a SaleStore. */
export class SaleCalls {
  constructor(
    readonly scripts: ScriptRunner,
    readonly limits: SaleLimits,
    readonly promises: UnpersistedPromises | null,
    readonly recall: Recall | null,
  ) {}

  /** Keeps the journal entries that a call has appended. @returns the outcome without them */
  async keep<Outcome extends { kind: string; entries?: readonly string[] }>(
    call: Promise<Outcome>,
  ): Promise<WithoutEntries<Outcome>> {
    const { entries, ...outcome } = await call;
    for (const text of entries ?? []) {
      const journalId = text.slice(2, text.indexOf('"', 2));
      this.promises?.remember(journalId, () => parseEntry(text));
    }
    return outcome as WithoutEntries<Outcome>;
  }

  /**
   * Decides about a reservation. `not_found` when Redis and, for an archived campaign, Postgres have no such
   * reservation.
   */
  of<Reply extends { kind: string }>(
    product: ProductId,
    reservation: string,
    ask: () => Promise<Reply>,
  ): Promise<Exclude<Reply, Missed>> {
    return decided(
      ask,
      (recall, pass) => recall.reservation(product, reservation, pass),
      () => ({ kind: 'not_found' }) as never,
      this.recall,
    );
  }
}
