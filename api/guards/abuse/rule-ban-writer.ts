import type { Ban } from '../../../shared/domain/ban.js';

export type RuleBanWriterDeps = {
  table: { insertOfRules(bans: readonly Ban[]): Promise<void> };
  /** @param why waiting: more wait for Postgres than there is room for */
  onDropped: (why: 'waiting') => void;
  onTrouble: (error: unknown) => void;
  limits: { ruleBansWaiting: number; ruleBansBatch: number };
};

/**
 * Writes bans of rules to Postgres behind the responses: one writer at a time, one statement for many. They have no audit entry, since a
 * stranger decides how many there are; the row says which rule made it and why.
 */
export class RuleBanWriter {
  readonly #waiting = new Map<string, Ban>();
  #writing: Promise<void> | null = null;

  constructor(readonly deps: RuleBanWriterDeps) {}

  /** How many wait for Postgres. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Takes a ban; `flush` writes it. */
  add(ban: Ban): void {
    const { limits, onDropped } = this.deps;
    if (this.#waiting.size < limits.ruleBansWaiting) this.#waiting.set(ban.id, ban);
    else onDropped('waiting');
  }

  /** Writes what waits. Never throws: what could not be written waits for the next time. */
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
