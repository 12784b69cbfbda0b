import type pg from 'pg';
import { EngineUnavailable } from '../errors/faults.js';
import type { Reads } from './circuit-breaker.js';
import type { Database, Prepared } from './pool.js';
import { ReadReplica, type ReplicaLimits } from './read-replica.js';

export type ReplicaReadsDeps = {
  replica: Database;
  primary: Database;
  /** Reads of the primary with their circuit breaker. */
  ofPrimary: Reads;
  /** `replicaLookMs`: how often it looks whether the replica follows the primary. */
  limits: ReplicaLimits & { replicaLookMs: number };
  /** Called when reads begin to go to the primary, with the reason, and with null when the replica serves again. */
  onChange: (trouble: string | null) => void;
};

/**
 * Reads of a replica while it follows the primary, else of the primary. What the replica returns is older than the
 * primary by `replicaLookMs` and `replicaWaitMs` at most. `latest` asks the primary, for what was committed just now.
 */
export class ReplicaReads implements Reads {
  /** null = the replica serves reads */
  #trouble: string | null = 'no look at it yet';
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();
  readonly #replica: ReadReplica;

  constructor(readonly deps: ReplicaReadsDeps) {
    const { primary, replica, limits } = deps;
    this.#replica = new ReadReplica(primary, replica, limits, (reason) => this.#found(reason));
  }

  get latest(): Reads {
    return this.deps.ofPrimary;
  }

  /** Why reads go to the primary; null = they go to the replica. */
  get trouble(): string | null {
    return this.#trouble;
  }

  start(): void {
    const again = () => {
      this.#looking = this.look().finally(() => {
        this.#timer = setTimeout(again, this.deps.limits.replicaLookMs);
        this.#timer.unref();
      });
    };
    again();
  }

  async stop(): Promise<void> {
    await this.#looking;
    clearTimeout(this.#timer);
  }

  async query<Row extends pg.QueryResultRow>(sql: string | Prepared, values?: unknown[]) {
    if (this.#trouble === null) {
      try {
        return await this.deps.replica.query<Row>(sql, values);
      } catch (error) {
        // A replica that refuses, for instance a password, is no better than one that does not answer.
        this.#found(error instanceof Error ? error.message : String(error));
      }
    }
    return this.deps.ofPrimary.query<Row>(sql, values);
  }

  /** Looks whether the replica has what the primary has now. While the primary is away, all stays as it is. */
  async look(): Promise<void> {
    try {
      const { source } = await this.#replica.current();
      if (source === 'replica') this.#found(null);
    } catch (error) {
      if (!(error instanceof EngineUnavailable)) this.#found(error instanceof Error ? error.message : String(error));
    }
  }

  #found(trouble: string | null): void {
    const isChange = (trouble === null) !== (this.#trouble === null);
    this.#trouble = trouble;
    if (isChange) this.deps.onChange(trouble);
  }
}
