import { expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { HistoryWatch } from '../../shared/history/history-watch.js';
import { Heartbeats } from '../../shared/postgres/heartbeats.js';
import { JournalHistories } from '../../shared/postgres/journal-histories.js';
import { RecoveredEntries } from '../../shared/postgres/recovered-entries.js';
import { CommitWatermark } from '../../shared/redis/commit-watermark.js';
import { UnpersistedPromises } from '../../shared/sale/unpersisted-promises.js';
import { atEnd } from '../harness/cleanup.js';
import { createTestDatabase } from '../harness/engines.js';
import { connectDatabase } from '../harness/persistence.js';

/** The watch of one process on a database of its own, and the beginning of histories there. */
async function start(promises = new UnpersistedPromises(100_000)) {
  const { url, client } = await createTestDatabase();
  const database = connectDatabase(url);
  const histories = new JournalHistories(database);
  const subscriber = new Redis({ lazyConnect: true });
  atEnd('a connection', () => subscriber.disconnect());
  const commits = new CommitWatermark(subscriber, 10);
  const saved: number[] = [];
  const watch = new HistoryWatch({
    processId: 'api-1',
    kind: 'api',
    histories,
    recovered: new RecoveredEntries(database),
    promises,
    commits,
    map: { version: 0, read: async () => {}, compared: () => {}, sees: () => {} },
    onSaved: (entries) => saved.push(entries),
    onTrouble: () => {},
  });
  const begin = (generation: number, afterId: string, server = 'server') =>
    database.transaction((sql) => histories.begin(sql, { generation, server, afterId }, 'test'));
  const rows = async (sql: string) => (await client.query(sql)).rows;
  return { watch, histories, promises, commits, saved, begin, rows };
}

const entry = (journalId: string) => () => ({ journalId, fields: { kind: 'left', no: '1' } });

test('HistoryWatch saves what a new history lacks of the promises of its process, and reports it', async () => {
  const { watch, histories, promises, saved, begin, rows } = await start();
  await begin(100, '0-0');
  await watch.beat();
  for (let n = 0; n < 10; n += 1) promises.remember(`100-${n}`, entry(`100-${n}`));
  await begin(200, '100-6');
  expect(await histories.awaited(200, 'worker-1', 2_000)).toMatchObject({ processes: 1 });
  await watch.beat();
  await watch.beat();
  expect(saved).toEqual([3]);
  expect(await rows('select journal_id from recovered_entries order by number')).toEqual(
    ['100-7', '100-8', '100-9'].map((journal_id) => ({ journal_id })),
  );
  expect(await histories.awaited(200, 'worker-1', 2_000)).toMatchObject({ processes: 0 });
});

test('HistoryWatch saves what any history since has left behind, when it was away for several', async () => {
  const { watch, promises, begin, rows } = await start();
  await begin(100, '0-0');
  await watch.beat();
  for (let n = 0; n < 5; n += 1) promises.remember(`100-${n}`, entry(`100-${n}`));
  await begin(200, '100-1');
  await begin(300, '200-8');
  await watch.beat();
  expect((await rows('select journal_id from recovered_entries order by number')).length).toBe(3);
});

test('HistoryWatch forgets nothing of an older history because of a commit of a newer one', async () => {
  const { watch, promises, commits, begin } = await start();
  await begin(100, '0-0');
  await watch.beat();
  promises.remember('100-5', entry('100-5'));
  commits.heard('200-3');
  expect(promises.size).toBe(1);
  commits.heard('200-4');
  await begin(200, '100-4');
  await watch.beat();
  expect(promises.size).toBe(0);
});

test('HistoryWatch saves as many promises as a process can keep, in chunks', async () => {
  const { watch, promises, saved, begin, rows } = await start();
  await begin(100, '0-0');
  await watch.beat();
  for (let n = 0; n < 100_000; n += 1) promises.remember(`100-${n}`, entry(`100-${n}`));
  await begin(200, '0-0');
  await watch.beat();
  expect(saved).toEqual([100_000]);
  expect(promises.size).toBe(0);
  expect(await rows('select count(*)::int as n from recovered_entries')).toEqual([{ n: 100_000 }]);
});

test('HistoryWatch judges a server by its epoch, by what Postgres knows, and without Postgres by what it has verified', async () => {
  const { watch, histories, begin } = await start();
  await begin(100, '0-0');
  expect(await watch.judge(null, 'server')).toMatchObject({ open: false });
  expect(await watch.judge({ generation: 100, server: 'other' }, 'server')).toMatchObject({ open: false });
  expect(await watch.judge({ generation: 100, server: 'server' }, 'server')).toMatchObject({ open: false });
  await histories.open(100);
  expect(await watch.judge({ generation: 100, server: 'server' }, 'server')).toEqual({ open: true });
  await begin(200, '100-3', 'new server');
  await watch.beat();
  expect(await watch.judge({ generation: 100, server: 'server' }, 'server')).toEqual({
    open: false,
    reason: 'Redis is being recovered',
  });
  await histories.open(200);
  expect(await watch.judge({ generation: 100, server: 'server' }, 'server')).toMatchObject({
    open: false,
    superseded: true,
  });
  expect(await watch.judge({ generation: 200, server: 'new server' }, 'new server')).toEqual({ open: true });
});

test('HistoryWatch knows whether Postgres was set back, from the first reads of both engines on', async () => {
  const { watch, begin, rows } = await start();
  const after = async (firstId: string | null, lastId: string) => {
    watch.seesJournal({ firstId, lastId, entries: firstId === null ? 0 : 1 });
    await watch.beat();
    return watch.isSetBack;
  };
  await begin(100, '0-0');
  await watch.beat();
  expect(watch.isSetBack).toBe(null);
  expect([await after(null, '0-0'), await after('100-0', '100-3'), await after('100-2', '100-3')]).toEqual([
    false,
    false,
    true,
  ]);
  await rows("update journal_cursor set last_id = '100-3'");
  expect([await after(null, '100-3'), await after(null, '100-4')]).toEqual([false, true]);
  // The first entry of a history follows the cursor, unless Postgres lacks that history or the end of the one before.
  await begin(200, '100-3');
  expect([await after('200-0', '200-4'), await after('300-0', '300-4')]).toEqual([false, true]);
  await rows("update journal_cursor set last_id = '100-2'");
  expect(await after('200-0', '200-4')).toBe(true);
});

test('HistoryWatch lets no reply wait for a commit of an older history', async () => {
  const { watch, commits, begin } = await start();
  await begin(100, '0-0');
  await watch.beat();
  const waiting = commits.committed('100-5', 60_000);
  await begin(200, '100-4');
  await watch.beat();
  expect(await waiting).toBe(false);
});

test('Heartbeats reports all shards of a process in one statement, and each shard gets its own state', async () => {
  const { url, client } = await createTestDatabase();
  const database = connectDatabase(url);
  const heartbeats = new Heartbeats(database);
  const shards = [0, 1, 2, 3].map((shard) => new JournalHistories(database, shard, 4, heartbeats));
  const report = () =>
    Promise.all(
      shards.map((histories, generation) =>
        histories.beat({ processId: 'api-1', kind: 'api', generation, unsaved: 0, serving: null, mapVersion: 0 }),
      ),
    );
  await report();
  const third = shards[2] as JournalHistories;
  await database.transaction((sql) => third.begin(sql, { generation: 66, server: 'third', afterId: '0-0' }, 'test'));
  const states = await report();
  expect(states.map(({ latest }) => latest?.server)).toEqual([undefined, undefined, 'third', undefined]);
  const { rows } = await client.query(
    'select count(distinct xmin::text)::int as statements, array_agg(generation order by shard) as generations from journal_processes',
  );
  expect(rows).toEqual([{ statements: 1, generations: ['0', '1', '2', '3'] }]);
});
