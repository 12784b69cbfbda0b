import { EngineUnavailable } from '../errors/faults.js';
import type { HistoryWatch } from '../history/history-watch.js';
import type { Shards } from './shards.js';

/**
 * Postgres is not set back faster. Each question is a write, so that a flood of unknown codes must not ask more often.
 */
const MOMENT_MS = 100;

/** Tells a row that does not exist from one that Postgres has lost, because it was set back (decision 24). */
export class SetBackCheck {
  constructor(
    readonly shards: Shards<{ index: number; watch: Pick<HistoryWatch, 'isSetBack' | 'beatUnlessWithin'> }>,
  ) {}

  /**
   * Costs no round trip, and knows a set-back half a second later.
   * @throws EngineUnavailable if Postgres was set back, and until a shard was compared with it
   */
  assertWhole(): void {
    const { all, map } = this.shards;
    const known = all.map(({ watch }) => watch.isSetBack);
    if (map.isSetBack || known.includes(true) || !known.includes(false))
      throw new EngineUnavailable('postgres', 'it was set back and may lack this, or has not been compared yet');
  }

  /** Asks Postgres first, if it was not asked in this moment. @throws EngineUnavailable */
  async assertWholeNow(): Promise<void> {
    await Promise.all(this.shards.all.map(({ watch }) => watch.beatUnlessWithin(MOMENT_MS)));
    this.assertWhole();
  }
}
