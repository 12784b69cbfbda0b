import { earliest, generationOf } from '../../shared/redis/journal-ids.js';
import type { Look } from './diagnosis.js';
import type { RecoveryDeps } from './recovery-deps.js';

/** How long to wait for processes that were alive before; for those that are alive meanwhile; and while they save. */
const COLLECT_MS = 1_000;
const COLLECT_ALIVE_MS = 5_000;
const COLLECT_SAVING_MS = 30_000;
const LOOK_FOR_REPORTS_MS = 20;
const READ_ENTRIES = 1_000;

type Deps = Pick<RecoveryDeps, 'processId' | 'histories' | 'recovered' | 'journal' | 'watch' | 'log'>;

/**
 * Collects acknowledged entries that Postgres lacks: from the processes that acknowledged them, and from the journal of
 * a superseded server.
 */
export class UnsavedEntries {
  #collectedFrom = '';

  constructor(readonly deps: Deps) {}

  /**
   * Waits, within a limit, until each live process has saved those of its promises that the new history lacks. After
   * the first second it waits only for processes that have reported since: a slow one may have the promises of users
   * who came first, and one that has died has none.
   */
  async untilReported(generation: number): Promise<void> {
    const { histories, processId, watch } = this.deps;
    while (watch.savedGeneration < generation) await watch.beat();
    const began = performance.now();
    for (;;) {
      const waitedMs = performance.now() - began;
      const aliveMs = waitedMs < COLLECT_MS ? watch.aliveMs : Math.min(watch.aliveMs, waitedMs);
      const { processes, unsaved } = await histories.awaited(generation, processId, aliveMs);
      if (processes === 0 || waitedMs > (unsaved > 0 ? COLLECT_SAVING_MS : COLLECT_ALIVE_MS)) return;
      await new Promise((resolve) => setTimeout(resolve, LOOK_FOR_REPORTS_MS));
    }
  }

  /**
   * Saves entries that only the journal of this server has. They were acknowledged after a later history had begun on
   * another server, and the processes that acknowledged them may be gone.
   */
  async saveFromJournal({ epoch, server, journal, postgres }: Look): Promise<void> {
    const { histories, recovered, processId, log } = this.deps;
    if (!epoch || epoch.generation === 0 || !postgres.latest || epoch.generation >= postgres.latest.generation) return;
    const place = `${server} ${postgres.latest.generation} ${journal.lastId}`;
    if (this.#collectedFrom === place) return;
    const later = await histories.since(epoch.generation);
    const contained = earliest([postgres.latest.afterId, ...later.map(({ afterId }) => afterId)]);
    let saved = 0;
    for (let after = contained; ; ) {
      const read = await this.deps.journal.read(after, READ_ENTRIES);
      const entries = read.filter(({ journalId }) => generationOf(journalId) === epoch.generation);
      await recovered.save(processId, entries);
      saved += entries.length;
      const last = read.at(-1);
      if (!last) break;
      after = last.journalId;
    }
    this.#collectedFrom = place;
    if (saved > 0) {
      log.warn({ entries: saved }, 'entries that only a superseded Redis server has were saved from its journal');
    }
  }
}
