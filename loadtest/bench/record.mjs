// Writes the last record of each benchmark: all of it to record.json, and one line to the program's header.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './environment.mjs';

const RECORD = join(ROOT, 'loadtest/bench/record.json');
const LINE = /^\/\/ Last record.*$/m;
/** Facts that are no figure, or that the line contains anyway. */
const FACTS = ['date', 'machine', 'load', 'node', 'versions', 'revision', 'goal'];

/** @param {string} name @param {Record<string, unknown>} figures with the facts of machine and revision */
export function keep(name, figures) {
  const record = existsSync(RECORD) ? JSON.parse(readFileSync(RECORD, 'utf8')) : {};
  record[name] = figures;
  writeFileSync(RECORD, `${JSON.stringify(record, null, 2)}\n`);
  const program = join(ROOT, `loadtest/bench/${name}.mjs`);
  writeFileSync(program, withRecord(readFileSync(program, 'utf8'), figures));
}

/**
 * Returns the source of a program with the line of its last record at the end of its first comment.
 * @param {string} source
 * @param {Record<string, unknown>} figures
 */
export function withRecord(source, figures) {
  const entries = Object.entries(figures).filter(([name]) => !FACTS.includes(name));
  const text = entries.map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(', ');
  const line = `// Last record (${String(figures.date).slice(0, 10)}, ${figures.revision}, load ${figures.load}): ${text}`;
  if (LINE.test(source)) return source.replace(LINE, () => line);
  const lines = source.split('\n');
  const end = lines.findIndex((one) => !one.startsWith('//'));
  return [...lines.slice(0, end), line, ...lines.slice(end)].join('\n');
}
