import type { ProductId } from '../domain/ids.js';
import { parseEntry } from '../redis/journal-entries.js';
import { saleKeys } from '../redis/keys.js';
import type { WithoutEntries } from '../redis/script-contract.js';
import type { ScriptRunner } from '../redis/script-runner.js';
import { acknowledgedEntry, factName, type KeyedResponse } from './acknowledged.js';
import { decided, type Missed, type Recall } from './recall.js';
import { readPromiseScript } from './scripts/promise.js';
import type { UnpersistedPromises } from './unpersisted-promises.js';

export type SaleLimits = {
  idempotencyTtlMs: number;
  journalLimitEntries: number;
  deviceQuota: number;
  deviceWindowMs: number;
  /** Time for which claims on an order are kept. Afterwards only Postgres checks what combines. */
  orderMemoryMs: number;
  /** How long a one-time token is valid. */
  oneTimeTokenMs: number;
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
    this.#remember(entries);
    return outcome as WithoutEntries<Outcome>;
  }

  /**
   * Does the same for a call whose response acknowledges a promise. A repetition appends nothing that contains the
   * promise, so it is read and kept. A durable response waits for the commit of the whole journal instead.
   * @throws EngineUnavailable if the promise cannot be read; then nothing may be acknowledged
   */
  async keepAcknowledged<Outcome extends { kind: string; entries?: readonly string[]; durable?: boolean }>(
    product: ProductId,
    promise: { reservation: string; user: string },
    call: Promise<Outcome>,
  ): Promise<WithoutEntries<Outcome>> {
    const { entries, ...outcome } = await call;
    this.#remember(entries);
    if (!outcome.durable && entries?.every(isFurtherPayment)) {
      await this.acknowledge(product, promise.reservation, { user: promise.user, key: '', answer: '' });
    }
    return outcome as WithoutEntries<Outcome>;
  }

  /**
   * Keeps a promise that a response acknowledges again.
   * @param reservation of the reservation or the place; "" = the last one of the user
   * @throws EngineUnavailable if it cannot be read; then nothing may be acknowledged
   */
  async acknowledge(product: ProductId, reservation: string, response: KeyedResponse): Promise<void> {
    if (!this.promises) return;
    const args = { reservation_id: reservation, user: response.user };
    const found = await this.scripts.run(readPromiseScript, { keys: saleKeys(product), args });
    if (found.kind !== 'reservation' && found.kind !== 'place') return;
    this.promises.acknowledge(factName(found, response), found.lastId, (id) => acknowledgedEntry(id, found, response));
  }

  #remember(entries: readonly string[] = []): void {
    for (const text of entries) {
      const journalId = text.slice(2, text.indexOf('"', 2));
      this.promises?.remember(journalId, () => parseEntry(text));
    }
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

/** Whether an entry is about a payment after the first one. It does not contain what was paid. */
function isFurtherPayment(entry: string): boolean {
  return entry.includes('"kind","paid_again"');
}
