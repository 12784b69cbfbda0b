import type { Ban } from '../../../shared/domain/ban.js';

export type RuleBanWriterDeps = {
  table: { insertOfRules(bans: readonly Ban[]): Promise<void> };
  /** @param why waiting = the buffer of bans that wait for Postgres is full */
  onDropped: (why: 'waiting') => void;
  onTrouble: (error: unknown) => void;
  limits: { ruleBansWaiting: number; ruleBansBatch: number };
};

/**
 * Writes bans by rules to Postgres in the background, in batches and one batch at a time. They get no audit entry,
 * because an attacker decides how many there are; the row names the rule and the reason.
 */
export class RuleBanWriter {
  readonly #waiting = new Map<string, Ban>();
  #writing: Promise<void> | null = null;

  constructor(readonly deps: RuleBanWriterDeps) {}

  /** Number of bans that wait for Postgres. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Buffers a ban; `flush` writes it. */
  add(ban: Ban): void {
    const { limits, onDropped } = this.deps;
    if (this.#waiting.size < limits.ruleBansWaiting) this.#waiting.set(ban.id, ban);
    else onDropped('waiting');
  }

  /** Writes the buffered bans. Never rejects: bans that could not be written stay in the buffer for the next call. */
  flush(): Promise<void> {
    this.#writing ??= this.#write()
      .catch((error: unknown) => this.deps.onTrouble(error))
      .finally(() => {
        this.#writing = null;
      });
    return this.#writing;
  }

  async #write(): Promise<void> {
    const { table, limits } = this.deps;
    while (this.#waiting.size > 0) {
      const batch = [...this.#waiting.values()].slice(0, limits.ruleBansBatch);
      await table.insertOfRules(batch);
      for (const { id } of batch) this.#waiting.delete(id);
    }
  }
}
