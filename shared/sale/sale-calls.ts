import type { ProductId } from '../domain/ids.js';
import { parseEntry } from '../redis/journal.js';
import type { WithoutEntries } from '../redis/script-contract.js';
import type { ScriptRunner } from '../redis/script-runner.js';
import { decided, type Missed, type Recall } from './recall.js';
import type { UnpersistedPromises } from './unpersisted-promises.js';

export type SaleLimits = {
  idempotencyTtlMs: number;
  journalLimitEntries: number;
  deviceQuota: number;
  deviceWindowMs: number;
  /** How long claims on an order are kept; afterwards Postgres alone decides what combines. */
  orderMemoryMs: number;
  /** Replicas that callers wait for before they answer; 0 = none. */
  waitReplicas: number;
};

/** What the parts of a SaleStore call scripts with. */
export class SaleCalls {
  constructor(
    readonly scripts: ScriptRunner,
    readonly limits: SaleLimits,
    readonly promises: UnpersistedPromises | null,
    readonly recall: Recall | null,
  ) {}

  /** Remembers each journal entry that a call has appended. @returns the outcome without them */
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

  /** Decides on a reservation; one that nobody knows in an archived campaign either is not there. */
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
