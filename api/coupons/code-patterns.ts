import type { Code } from '../../shared/domain/codes.js';
import type { Log } from '../../shared/observability/log.js';
import type { CodesTable } from '../../shared/postgres/codes.js';

const REFRESH_MS = 5_000;

/**
 * Which made-up codes look like those of a campaign with uniform refusals. To them the answer is the same as to its real ones,
 * so that nobody learns which codes exist. Read in the background: a made-up code costs no question to an engine.
 */
export class CodePatterns {
  #lengths: ReadonlySet<number> = new Set();
  #timer: NodeJS.Timeout | null = null;

  constructor(
    readonly codes: CodesTable,
    readonly log: Log,
  ) {}

  start(): void {
    const refresh = () =>
      this.refresh().catch((error: Error) =>
        this.log.debug({ reason: error.message }, 'forms of codes are not known anew'),
      );
    void refresh();
    this.#timer = setInterval(refresh, REFRESH_MS).unref();
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
  }

  async refresh(): Promise<void> {
    this.#lengths = new Set(await this.codes.uniformLengths());
  }

  isLike(code: Code): boolean {
    return this.#lengths.has(code.length);
  }
}
