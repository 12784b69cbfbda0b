import type { HistoryWatch } from '../../shared/history/history-watch.js';
import type { Log } from '../../shared/observability/log.js';
import type { JournalHistories } from '../../shared/postgres/journal-histories.js';
import type { RecoveredEntries } from '../../shared/postgres/recovered-entries.js';
import type { Journal } from '../../shared/redis/journal.js';
import { earliest, generationOf } from '../../shared/redis/journal-ids.js';
import type { Look } from './diagnosis.js';

/** How long live processes are waited for; longer only while they report that they are saving entries. */
const COLLECT_MS = 1_000;
const COLLECT_SAVING_MS = 30_000;
const LOOK_FOR_REPORTS_MS = 20;
const READ_ENTRIES = 1_000;

type Deps = {
  processId: string;
  histories: JournalHistories;
  recovered: RecoveredEntries;
  journal: Journal;
  watch: HistoryWatch;
  log: Log;
};

/** Acknowledged entries that Postgres does not have yet, from the processes that acknowledged them and from an old journal. */
export class UnsavedEntries {
  #collectedFrom = '';

  constructor(readonly deps: Deps) {}

  /** Waits until each live process has saved those of its promises that the new history lacks, within a limit. */
  async untilReported(generation: number): Promise<void> {
    const { histories, processId, watch } = this.deps;
    while (watch.savedGeneration < generation) await watch.beat();
    const began = performance.now();
    for (;;) {
      const { processes, unsaved } = await histories.awaited(generation, processId, watch.aliveMs);
      const limit = unsaved > 0 ? COLLECT_SAVING_MS : COLLECT_MS;
      if (processes === 0 || performance.now() - began > limit) return;
      await new Promise((resolve) => setTimeout(resolve, LOOK_FOR_REPORTS_MS));
    }
  }

  /**
   * Saves entries that only this server's journal has: it acknowledged them after a later history had begun elsewhere.
   * Their processes may be gone.
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
