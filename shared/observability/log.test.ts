import { PassThrough } from 'node:stream';
import { expect, test } from '@jest/globals';
import { createLog, prettyOutput } from './log.js';

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
