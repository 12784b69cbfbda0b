import type { ScriptRunner } from '../redis/script-runner.js';
import { Buckets } from './buckets.js';
import { Campaigns } from './campaigns.js';
import { Claims } from './claims.js';
import { OrderClaims } from './order-claims.js';
import type { Recall } from './recall.js';
import { Reservations } from './reservations.js';
import { SaleCalls, type SaleLimits } from './sale-calls.js';
import { SaleReader } from './sale-reader.js';
import type { UnpersistedPromises } from './unpersisted-promises.js';
import { WaitingLine } from './waiting-line.js';

/**
 * The sale in Redis, split by subject. Each method of a part is one script and one atomic decision; nothing reads
 * first and writes second. `reader` reads without scripts. Every method throws EngineUnavailable when Redis
 * cannot be used, and then the caller does not know whether it was done.
 */
export class SaleStore {
  readonly reader: SaleReader;
  readonly orders: OrderClaims;
  readonly claims: Claims;
  readonly reservations: Reservations;
  readonly line: WaitingLine;
  readonly campaigns: Campaigns;
  readonly buckets: Buckets;

  constructor(
    readonly scripts: ScriptRunner,
    readonly limits: SaleLimits,
    /** Keeps the journal entries that calls have appended until Postgres has them; null = none are kept. */
    promises: UnpersistedPromises | null = null,
    /** Null in processes that never need users of archived campaigns. */
    recall: Recall | null = null,
    /** Receives the number of claims that each call decides. */
    onClaims?: (size: number) => void,
  ) {
    const calls = new SaleCalls(scripts, limits, promises, recall);
    this.reader = new SaleReader(scripts);
    this.orders = new OrderClaims(calls, this.reader);
    this.claims = new Claims(calls, this.orders, onClaims);
    this.reservations = new Reservations(calls, this.orders);
    this.line = new WaitingLine(calls);
    this.campaigns = new Campaigns(calls);
    this.buckets = new Buckets(calls);
  }
}
