import type { Code } from '../../shared/domain/codes.js';
import type { Log } from '../../shared/observability/log.js';
import { runEvery } from '../../shared/observability/shared-interval.js';
import type { CodesTable } from '../../shared/postgres/codes.js';

const REFRESH_MS = 5_000;

/**
 * Recognises invented codes that look like codes of a campaign with uniform refusals. They get the same response as its
 * real codes, so that a guesser does not learn which codes exist. The patterns are read in the background, so that an
 * invented code costs no call to Postgres.
 */
export class CodePatterns {
  #lengths: ReadonlySet<number> = new Set();
  #end = () => {};

  constructor(
    readonly codes: CodesTable,
    readonly log: Log,
  ) {}

  start(): void {
    const refresh = () =>
      this.refresh().catch((error: Error) =>
        this.log.debug({ reason: error.message }, 'code patterns could not be refreshed'),
      );
    void refresh();
    this.#end = runEvery(REFRESH_MS, () => void refresh());
  }

  stop(): void {
    this.#end();
  }

  async refresh(): Promise<void> {
    this.#lengths = new Set(await this.codes.uniformLengths());
  }

  isLike(code: Code): boolean {
    return this.#lengths.has(code.length);
  }
}
