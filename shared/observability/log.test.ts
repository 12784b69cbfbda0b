import { expect, test } from '@jest/globals';
import { createLog } from './log.js';

function logInto(level: string) {
  const lines: string[] = [];
  const log = createLog('api', level, { write: (line) => lines.push(line), flushSync: () => {} });
  return { log, lines };
}
const withoutTime = (line: string | undefined) => line?.replace(/"time":"[^"]+"/, '"time":"…"');

test('a plain line is what pino writes, byte for byte but for its time', () => {
  const { log, lines } = logInto('info');
  const fields = { request_id: 'abc-1.2:3', trace: undefined, campaign: 'summer@2026', outcome: 'completed' };
  log.info(fields, 'checkout');
  log.plain(fields, 'checkout');
  expect(lines[0]).toMatch(/"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"/);
  expect(withoutTime(lines[1])).toBe(withoutTime(lines[0]));
  expect(JSON.parse(String(lines[1]))).toMatchObject({
    level: 30,
    process: 'api',
    msg: 'checkout',
    campaign: 'summer@2026',
  });
});

test('a plain line is not written where lines of its level are not', () => {
  const { log, lines } = logInto('warn');
  log.plain({ outcome: 'completed' }, 'checkout');
  log.warn({}, 'told');
  expect(lines).toHaveLength(1);
});
