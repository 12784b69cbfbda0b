import { expect, test } from '@jest/globals';
import type { HistoryWatch } from '../../shared/history/history-watch.js';
import { JournalHistories } from '../../shared/postgres/journal-histories.js';
import { RecoveredEntries } from '../../shared/postgres/recovered-entries.js';
import type { Journal } from '../../shared/redis/journal.js';
import { UnsavedEntries } from '../../worker/recovery/unsaved-entries.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';
import { recordingLog } from '../harness/recording-log.js';
import { until } from '../harness/until.js';

/** A worker that has begun history 200, and an API that reports which history it has saved its promises for. */
async function begin() {
  const database = connectDatabase((await createTestDatabase()).url);
  const histories = new JournalHistories(database);
  const report = (generation: number) =>
    histories.beat({ processId: 'api-1', kind: 'api', generation, unsaved: 0, serving: null, mapVersion: 0 });
  await report(100);
  await database.transaction((sql) =>
    histories.begin(sql, { generation: 200, server: 'server', afterId: '0-0' }, 'test'),
  );
  const unsaved = new UnsavedEntries({
    processId: 'worker-1',
    histories,
    recovered: new RecoveredEntries(database),
    journal: {} as Journal,
    watch: { savedGeneration: 200, aliveMs: 2_000 } as HistoryWatch,
    log: recordingLog(),
  });
  const collected = { done: false };
  const waiting = unsaved.untilReported(200).then(() => {
    collected.done = true;
  });
  return { report, collected, waiting };
}

test('a recovery waits for a slow process for as long as it hears from it', async () => {
  const { report, collected, waiting } = await begin();
  const began = performance.now();
  await until('the process needs longer than a dead one is waited for', async () => {
    await report(100);
    return performance.now() - began > 2_500;
  });
  expect(collected.done).toBe(false);
  await report(200);
  await waiting;
});

test('a recovery does without the report of a process that has died', async () => {
  const { waiting } = await begin();
  await waiting;
});
