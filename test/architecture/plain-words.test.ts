import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { type Source, sourcesIn } from './sources.js';

/** A user is a user, and "they" afterwards. As a sentence writes them, so that constants are free. */
const UNCLEAR = /\b(?:[Ww]hoever|[Ss]omebody|[Nn]obody|[Hh]e|[Hh]im|[Hh]is|[Tt]old)\b/;
/** Folders that are written in plain words, except for the paths below. */
const FOLDERS = ['api', 'client', 'pages', 'worker', 'torture', 'examples', 'shared'];
const NOT_YET = ['shared/sale/', 'docs/configuration.md'];

/** Names of tests that documents quote, and code, stay as they are. */
const withoutQuotes = (line: string) => line.replace(/"[^"]*"?|`[^`]*`/g, '');

function guides(): Source[] {
  const root = projectRoot();
  const inDocs = readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md'));
  return ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', ...inDocs.map((name) => `docs/${name}`)].map((path) => ({
    path,
    text: readFileSync(join(root, path), 'utf8'),
  }));
}

test('texts say "a user" and "they", and name who does what', () => {
  const sources = [...guides(), ...sourcesIn(FOLDERS)].filter(
    ({ path }) => !NOT_YET.some((one) => path.startsWith(one)),
  );
  const found = sources.flatMap(({ path, text }) =>
    text
      .split('\n')
      .flatMap((line, i) => (UNCLEAR.test(withoutQuotes(line)) ? [`${path}:${i + 1}: ${line.trim()}`] : [])),
  );
  expect(found).toEqual([]);
});
