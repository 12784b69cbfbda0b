import { describe, expect, test } from '@jest/globals';
import { start as startApi } from '../../api/composition.js';
import { type Config, readConfig } from '../../shared/config/config.js';
import type { Log } from '../../shared/observability/log.js';
import type { Stoppable } from '../../shared/observability/shutdown.js';
import { startWorker } from '../../worker/composition.js';
import { createTestDatabase, startTestRedis } from '../harness/engines.js';
import { watchHandles } from '../harness/open-handles.js';
import { recordingLog } from '../harness/recording-log.js';
import { serviceEnv } from '../harness/service.js';
import { until } from '../harness/until.js';

const [redis, database] = [await startTestRedis(), await createTestDatabase()];
const config = readConfig(serviceEnv(redis.url, database.url));

/** Starts a process inside this one, waits until it serves, stops it, and returns when it has left nothing behind. */
async function runAndStop(start: (config: Config, log: Log) => Promise<Stoppable>, others: Stoppable[] = []) {
  const log = recordingLog();
  const handles = watchHandles();
  const process = await handles.run(() => start(config, log));
  await until('Redis is in service', () =>
    log.lines.some(({ fields, message }) => message === 'Redis availability changed' && fields.open === true),
  );
  for (const one of [process, ...others]) {
    await one.quiet();
    await one.stop();
  }
  // The last ones end a moment later; what is left is compared, so that a failure names it.
  await until('every timer and socket is gone', () => handles.left().length === 0).catch(() => {});
  handles.end();
  expect(handles.left()).toEqual([]);
  expect(log.lines.filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([]);
}

describe('a process that has stopped', () => {
  test('leaves no timer and no socket of the worker', async () => {
    await runAndStop(startWorker);
  });

  test('leaves no timer and no socket of the API', async () => {
    // An API serves when a worker has verified Redis.
    const worker = await startWorker(config, recordingLog());
    await runAndStop(startApi, [worker]);
  });
});
