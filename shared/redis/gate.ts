import type { Redis } from 'ioredis';
import { EngineUnavailable } from '../errors/faults.js';
import { Deadline, type Watched } from './deadline.js';
import { type Epoch, readEpoch } from './epoch.js';
import { compareJournalIds, type Journal } from './journal.js';

const LOOK_AGAIN_MS = 100;

/**
 * Lets calls through to Redis only while it is the Redis we know. After every new connection it may be another one: empty
 * (no epoch), or one that forgot what Postgres has already (its journal ends before what was committed). Then calls are
 * refused until a worker has filled it; answering from it would sell units twice and deny what was promised.
 */
export class RedisGate {
  #open = false;
  #closed = false;
  #toldShape = false;
  #epoch: Epoch | null = null;
  #checking: Promise<void> | null = null;
  readonly #deadline: Deadline;

  constructor(
    readonly redis: Redis,
    readonly journal: Journal,
    /** How far the journal was committed, as far as this process knows. */
    readonly committed: () => string,
    /** What is wrong with the shape of this Redis, if anything; asked after each new connection. */
    readonly shape: () => Promise<readonly string[]>,
    /** No call takes longer than this; one whose script Redis has forgotten is two calls. */
    readonly callLimitMs: number,
    readonly onChange: (open: boolean, reason: string) => void,
    /** Redis has lost what it knew: called again and again until it was filled. */
    readonly onForgot: () => Promise<void> = async () => {},
  ) {
    this.#deadline = new Deadline(callLimitMs, () => this.distrust('it does not answer in time'));
    redis.on('ready', () => this.#check());
    redis.on('close', () => this.#shut('the connection is gone'));
  }

  get isOpen(): boolean {
    return this.#open;
  }

  /** @throws EngineUnavailable while calls must not go through */
  assertOpen(): void {
    if (!this.#open) throw new EngineUnavailable('redis', 'it is away or being rebuilt');
  }

  /**
   * Makes a call if the gate is open, and gives up on it in time. The first that runs out of time shuts the gate, so that
   * those behind it are refused at once, until Redis has answered again.
   * @throws EngineUnavailable
   */
  guard<Value>(call: () => Promise<Value>): Promise<Value> {
    if (!this.#open) return Promise.reject(new EngineUnavailable('redis', 'it is away or being rebuilt'));
    return this.#deadline.limit(call());
  }

  /** Watches a call that is about to be made, for those who have no promise to spare: `giveUp` is called when it takes too long. */
  watch(giveUp: Watched['giveUp']): Watched {
    return this.#deadline.watch(giveUp);
  }

  /** Somebody found that Redis is not as it should be: look again before the next call. */
  distrust(reason: string): void {
    this.#shut(reason);
    this.#check();
  }

  stop(): void {
    this.#closed = true;
  }

  #shut(reason: string): void {
    if (this.#open) this.onChange(false, reason);
    this.#open = false;
  }

  #check(): void {
    this.#open = false;
    this.#checking ??= this.#untilKnown().finally(() => {
      this.#checking = null;
    });
  }

  async #untilKnown(): Promise<void> {
    while (!this.#closed && this.redis.status === 'ready') {
      try {
        if (await this.#isKnown()) {
          this.#open = true;
          this.onChange(true, `generation ${this.#epoch?.generation}`);
          return;
        }
      } catch {
        // Gone again; the next `ready` starts over, and until then looking again does no harm.
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS).unref());
    }
  }

  async #isKnown(): Promise<boolean> {
    const problems = await this.shape();
    if (problems.length > 0) {
      if (!this.#toldShape) this.onChange(false, problems.join(' '));
      this.#toldShape = true;
      return false;
    }
    this.#toldShape = false;
    const [epoch, lastId] = await Promise.all([readEpoch(this.redis), this.journal.lastId()]);
    if (epoch === null || compareJournalIds(lastId, this.committed()) < 0) {
      await this.onForgot();
      return false;
    }
    this.#epoch = epoch;
    return true;
  }
}
