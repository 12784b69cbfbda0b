import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { readmeFigures, redisFigure, withFigures } from '../../scripts/figures.mjs';
import { projectRoot } from '../../shared/config/project-root.js';

const read = (path: string) => readFileSync(join(projectRoot(), path), 'utf8');
const records = JSON.parse(read('loadtest/bench/record.json'));

describe('figures of documents', () => {
  test('are those of the record', () => {
    const checkout = {
      ...records['checkout-cpu'],
      per_second: 4321.9,
      redis_us: 90.1,
      date: '2027-01-02T03:04:05.000Z',
    };
    expect(readmeFigures({ ...records, 'checkout-cpu': checkout })).toContain(
      '| Confirmed checkouts | 4,320 a second,',
    );
    expect(readmeFigures({ ...records, 'checkout-cpu': checkout })).toContain('| 2 January 2027 |');
    expect(redisFigure({ 'checkout-cpu': checkout })).toContain(
      '**11,000 confirmed checkouts a second**: a confirmed checkout costs it 90.1 µs',
    );
  });

  test('of a benchmark without a record name the command that makes one', () => {
    expect(() => redisFigure({})).toThrow('record.json lacks checkout-cpu: run `npm run bench -- checkout-cpu`');
  });

  test('go between the two comments of a document, which has them once', () => {
    const text = 'a\n<!-- figures: x -->\nold\n<!-- /figures -->\nb\n';
    expect(withFigures(text, 'new')).toBe('a\n<!-- figures: x -->\nnew\n<!-- /figures -->\nb\n');
    for (const other of ['no place', text + text]) expect(() => withFigures(other, 'new')).toThrow('expected one');
  });
});

test('what Redis decides in a second is said in performance.md alone', () => {
  const others = readdirSync(join(projectRoot(), 'docs'))
    .filter((name) => name.endsWith('.md') && name !== 'performance.md')
    .map((name) => `docs/${name}`);
  const stated = ['ARCHITECTURE.md', 'CONTRIBUTING.md', ...others].filter((path) =>
    /\d,000\s+(?:confirmed\s+)?(?:checkouts|decisions|times)\s+a\s+second/.test(read(path)),
  );
  expect(stated).toEqual([]);
});
