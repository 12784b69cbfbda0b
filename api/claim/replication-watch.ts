import type { Redis } from 'ioredis';
import { keys } from '../../shared/redis/keys.js';

export type ReplicationLimits = {
  /** A call that was not confirmed by then returns false; what it asked about stays valid. */
  waitMs: number;
  /** How long one round waits for the replicas, in Redis. */
  roundMs: number;
  /** More calls than this are not kept waiting; they return false at once. */
  maxWaiting: number;
};

/** Calls that began since the last round began, about the same server. */
type Batch = {
  server: string;
  until: number;
  calls: number;
  settle: (replicated: boolean) => void;
  done: Promise<boolean>;
};

const YES = Promise.resolve(true);
const NO = Promise.resolve(false);

/**
 * Finds out whether replicas have what Redis has replied to this process. While anybody waits, rounds follow each other on a
 * connection of their own, because WAIT blocks every command behind it: write a mark, wait until the replicas have it, ask
 * which server that was. Replication is in order, so replicas that have the mark have every write before it. A round
 * confirms the calls that were made before it began. Without calls there is no traffic.
 *
 * A round counts only for the server that it names itself. After a failover the connection for commands and this one may be
 * on different servers for a moment, and the mark of one says nothing about the writes of the other.
 */
export class ReplicationWatch {
  /** By server; the next round is for them. */
  readonly #waiting = new Map<string, Batch>();
  /** They took part in rounds that failed, oldest first; the next round is for them too. */
  #tried: Batch[] = [];
  #calls = 0;
  #mark = 0;
  #running = false;
  #timer: NodeJS.Timeout | null = null;

  constructor(
    readonly connection: Redis,
    readonly replicas: number,
    readonly limits: ReplicationLimits,
    /** `master_replid` of the server that commands go to at present; null = none. */
    readonly expectedServer: () => string | null,
  ) {
    if (replicas === 0) return;
    connection.on('ready', () => this.#start());
    connection.on('close', () => this.#settle(() => true, false));
  }

  /**
   * Returns whether enough replicas have everything that this process had received replies for when it called. False after
   * `waitMs`, when the connection is lost, and when the server is no longer the one in service.
   * @param server `master_replid` of the server that replied; the present one when not given
   */
  replicated(server: string | null = this.expectedServer()): Promise<boolean> {
    if (this.replicas === 0) return YES;
    if (server === null || this.#calls >= this.limits.maxWaiting) return NO;
    let batch = this.#waiting.get(server);
    if (!batch) {
      batch = this.#newBatch(server);
      this.#waiting.set(server, batch);
      this.#start();
    }
    batch.calls += 1;
    this.#calls += 1;
    return batch.done;
  }

  /** Calls that wait at present. */
  get waiting(): number {
    return this.#calls;
  }

  #newBatch(server: string): Batch {
    let settle: Batch['settle'] = () => {};
    const done = new Promise<boolean>((resolve) => {
      settle = resolve;
    });
    return { server, until: performance.now() + this.limits.waitMs, calls: 0, settle, done };
  }

  /** Begins at the end of this turn of the event loop, so that all replies that arrived in it share the round. */
  #start(): void {
    this.#watchTime();
    if (this.#running) return;
    this.#running = true;
    setImmediate(() => void this.#rounds());
  }

  async #rounds(): Promise<void> {
    while (this.connection.status === 'ready') {
      this.#tried.push(...this.#waiting.values());
      this.#waiting.clear();
      if (this.#tried.length === 0) break;
      const asked = new Set(this.#tried);
      const server = await this.#round();
      if (server !== null) this.#settle((batch) => asked.has(batch) && batch.server === server, true);
      // A server that is no longer in service will not confirm anything.
      const expected = this.expectedServer();
      this.#settle((batch) => batch.server !== expected, false);
      // This connection is on another server than the one for commands, so it looks for the primary again.
      if (server !== null && expected !== null && server !== expected) this.connection.disconnect(true);
      if (server === null || this.#tried.length > 0) {
        // A round that fails at once (READONLY, another server) is not repeated in a tight loop.
        if (this.connection.status === 'ready') await pause(RETRY_MS);
      } else {
        // Replies that arrived together with this one belong into the next round.
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    // Without an await since the condition was looked at, so that no call is overlooked.
    this.#running = false;
  }

  /** @returns the server whose replicas have the mark; null = not enough of them */
  async #round(): Promise<string | null> {
    this.#mark += 1;
    try {
      const replies = await this.connection
        .pipeline()
        .set(keys.mark, this.#mark)
        .wait(this.replicas, this.limits.roundMs)
        .info('replication')
        .exec();
      const [set, wait, info] = replies ?? [];
      if (!set || !wait || !info || set[0] || wait[0] || info[0] || Number(wait[1]) < this.replicas) return null;
      const text = String(info[1]);
      // Asked last: a server gets a new id when it is promoted, so the mark was written under this one.
      return /^role:master\r?$/m.test(text) ? (/^master_replid:(\w+)/m.exec(text)?.[1] ?? null) : null;
    } catch {
      return null;
    }
  }

  #settle(which: (batch: Batch) => boolean, replicated: boolean): void {
    const settled = [...this.#tried, ...this.#waiting.values()].filter(which);
    if (settled.length === 0) return;
    for (const batch of settled) {
      this.#calls -= batch.calls;
      batch.settle(replicated);
      if (this.#waiting.get(batch.server) === batch) this.#waiting.delete(batch.server);
    }
    this.#tried = this.#tried.filter((batch) => !settled.includes(batch));
  }

  #watchTime(): void {
    const deadline = this.#nextDeadline();
    if (this.#timer || deadline === Number.POSITIVE_INFINITY) return;
    const waitMs = Math.max(1, deadline - performance.now());
    this.#timer = setTimeout(() => {
      // A process that was busy reads first what has arrived meanwhile.
      setImmediate(() => {
        this.#timer = null;
        const now = performance.now();
        this.#settle((batch) => batch.until <= now, false);
        if (this.#calls > 0) this.#watchTime();
      });
    }, waitMs).unref();
  }

  #nextDeadline(): number {
    return Math.min(...[...this.#tried, ...this.#waiting.values()].map(({ until }) => until));
  }
}

const RETRY_MS = 10;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
