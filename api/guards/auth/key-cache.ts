import type { Role } from '../../../shared/domain/role.js';
import type { Log } from '../../../shared/observability/log.js';
import { runEvery } from '../../../shared/observability/shared-interval.js';
import type { ApiKeysTable } from '../../../shared/postgres/api-keys.js';

/** A key of the table `api_keys`. `role`: null = a key of a service. `expiresAtMs`: infinite = it does not expire. */
export type CachedKey = { id: string; name: string; role: Role | null; digest: Buffer; expiresAtMs: number };

export type KeyCacheDeps = {
  table: Pick<ApiKeysTable, 'inForce' | 'markUsed'>;
  nowMs: () => number;
  log: Log;
  limits: { apiKeysEveryMs: number; apiKeysKeptMs: number; apiKeyUseEveryMs: number };
};

/**
 * The keys of the table `api_keys` in the memory of one process, so that a request needs no statement. The table is
 * read every `apiKeysEveryMs`, so a new or revoked key takes effect everywhere within about that time. Its size is
 * bounded where keys are created. While Postgres is away, the keys of the last read stay in force for `apiKeysKeptMs`,
 * so that a process that never reaches it again does not accept a revoked key for ever.
 */
export class KeyCache {
  #byDigest: ReadonlyMap<string, CachedKey> | null = null;
  #byId: ReadonlyMap<string, CachedKey> = new Map();
  #end = () => {};
  #isRefreshing = false;
  /** When the keys in memory were read (monotonic, ms). */
  #readAt = Number.NEGATIVE_INFINITY;
  #reads = 0;
  #applied = 0;
  /** When the use of a key was last written, milliseconds, and the keys whose use has to be written. */
  readonly #writtenMs = new Map<string, number>();
  readonly #used = new Set<string>();

  constructor(readonly deps: KeyCacheDeps) {}

  start(): void {
    this.#tick();
    this.#end = runEvery(this.deps.limits.apiKeysEveryMs, () => void this.#tick());
  }

  stop(): void {
    this.#end();
  }

  /** Whether the table has been read lately enough. */
  get isLoaded(): boolean {
    return performance.now() - this.#readAt <= this.deps.limits.apiKeysKeptMs;
  }

  /**
   * Returns the key of a secret; null = none is in force. A map is not searched in constant time, but reveals at most
   * something about the SHA-256 of a random secret, from which no other text with this digest can be derived.
   */
  find(digest: Buffer): CachedKey | null {
    return this.#inForce(this.#byDigest?.get(digest.toString('base64')));
  }

  /** Returns the key with an id; null = none is in force. */
  byId(id: string): CachedKey | null {
    return this.#inForce(this.#byId.get(id));
  }

  /** Notes that a key was used. It is written to the table later, at most once in `apiKeyUseEveryMs`. */
  used({ id }: CachedKey): void {
    const writtenMs = this.#writtenMs.get(id);
    if (writtenMs === undefined || this.deps.nowMs() - writtenMs >= this.deps.limits.apiKeyUseEveryMs)
      this.#used.add(id);
  }

  /** Reads the table. A read that began earlier never replaces the result of a later one. */
  async refresh(): Promise<void> {
    this.#reads += 1;
    const turn = this.#reads;
    const askedAt = performance.now();
    const keys = (await this.deps.table.inForce()).map(({ id, name, role, digest, expiresAt }): CachedKey => {
      return { id, name, role, digest, expiresAtMs: expiresAt?.getTime() ?? Number.POSITIVE_INFINITY };
    });
    if (turn < this.#applied) return;
    this.#applied = turn;
    this.#readAt = askedAt;
    this.#byDigest = new Map(keys.map((key) => [key.digest.toString('base64'), key]));
    this.#byId = new Map(keys.map((key) => [key.id, key]));
    for (const id of this.#writtenMs.keys()) if (!this.#byId.has(id)) this.#writtenMs.delete(id);
  }

  #inForce(key: CachedKey | undefined): CachedKey | null {
    return key !== undefined && this.isLoaded && key.expiresAtMs > this.deps.nowMs() ? key : null;
  }

  async #tick(): Promise<void> {
    if (this.#isRefreshing) return;
    this.#isRefreshing = true;
    try {
      await this.refresh();
      await this.#writeUse();
    } catch (error) {
      this.deps.log.debug({ reason: String(error) }, 'API keys could not be read, the cached ones stay in force');
    } finally {
      this.#isRefreshing = false;
    }
  }

  async #writeUse(): Promise<void> {
    if (this.#used.size === 0) return;
    const ids = [...this.#used];
    await this.deps.table.markUsed(ids);
    for (const id of ids) {
      this.#used.delete(id);
      this.#writtenMs.set(id, this.deps.nowMs());
    }
  }
}
