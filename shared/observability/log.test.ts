import { EventEmitter } from 'node:events';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, describe, expect, jest, test } from '@jest/globals';
import pino from 'pino';
import { until } from '../../test/harness/until.js';
import { createLog, flushed, prettyOutput } from './log.js';

function logInto(level: string) {
  const lines: string[] = [];
  const log = createLog('api', level, { write: (line) => lines.push(line), flushSync: () => {} });
  return { log, lines };
}

test('a line has the process, an RFC 3339 time and the fields, escaped; those that are undefined are left out', () => {
  const { log, lines } = logInto('info');
  log.info({ request_id: 'abc-1.2:3', trace: undefined, campaign: 'a "sale"' }, 'checkout');
  expect(lines[0]).toMatch(/"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"/);
  const line = JSON.parse(String(lines[0]));
  expect(line).toMatchObject({ level: 30, process: 'api', msg: 'checkout', campaign: 'a "sale"' });
  expect(line).not.toHaveProperty('trace');
});

test('a line is not written where lines of its level are not', () => {
  const { log, lines } = logInto('warn');
  log.info({ outcome: 'completed' }, 'checkout');
  log.warn({}, 'told');
  expect(lines).toHaveLength(1);
});

test('a pretty line has the level in words, the process, the text and the fields', async () => {
  const stream = new PassThrough();
  const log = createLog('worker', 'info', await prettyOutput(stream));
  log.warn({ campaign: 'sneakers' }, 'the line stands');
  const text = String(stream.read());
  expect(text).toMatch(/WARN.*worker: the line stands/);
  expect(text).toMatch(/campaign.*"sneakers"/);
  expect(text).not.toContain(`(${process.pid}`);
});

describe('the log of a process', () => {
  afterEach(() => {
    jest.useRealTimers();
  });

  test('writes a line soon, although no other follows', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'doorbuster-log-')), 'log');
    writeFileSync(file, '');
    const log = flushed(pino.destination({ dest: file, sync: false, minLength: 16_000, contentMode: 'buffer' }));
    log.write('one\n');
    await until('the line is in the file', () => readFileSync(file, 'utf8') === 'one\n');
    log.write('two\n');
    await until('so is the next', () => readFileSync(file, 'utf8') === 'one\ntwo\n');
  });

  test('flushes what came during a write of the disk, and nothing while it is idle', () => {
    jest.useFakeTimers();
    const output = Object.assign(new EventEmitter(), { write: jest.fn(), flush: jest.fn(), flushSync: jest.fn() });
    const log = flushed(output as never);
    const written = (bytes: number) => {
      output.emit('write', bytes);
      output.emit('drain');
    };
    log.write('one');
    jest.advanceTimersByTime(250);
    log.write('two');
    // The disk still writes the first line, so this flush does nothing.
    jest.advanceTimersByTime(250);
    expect(output.flush).toHaveBeenCalledTimes(2);
    written(3);
    jest.advanceTimersByTime(250);
    expect(output.flush).toHaveBeenCalledTimes(3);
    written(3);
    jest.advanceTimersByTime(10_000);
    expect(output.flush).toHaveBeenCalledTimes(3);
  });
});
