import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { filesIn, proseOf, sentencesOf, withoutQuotes } from './prose.js';
import { type Source, sourcesIn } from './sources.js';

/** A user is a user, and "they" afterwards. As a sentence writes them, so that constants are free. */
const UNCLEAR = /\b(?:[Ww]hoever|[Ss]omebody|[Nn]obody|[Hh]e|[Hh]im|[Hh]is|[Tt]old)\b/;
/** Folders whose code has plain words throughout, names included. */
const FOLDERS = ['api', 'client', 'commands', 'pages', 'worker', 'torture', 'examples', 'shared'];
/** Folders whose comments and texts have plain words. Keys of reports and SQL that has run keep their names. */
const TEXTS = ['loadtest', 'scripts', 'torture', 'migrations', 'test'];
/** Folders whose comments stay within the formatter's width. */
const NARROW = [
  'api',
  'client',
  'commands',
  'pages',
  'worker',
  'shared',
  'examples',
  'loadtest',
  'scripts',
  'torture',
  'migrations',
  'test',
];
/** Not rewritten yet: code that still moves, and documents that are generated from it. */
const NOT_YET = [
  'docs/configuration.md',
  'test/faults/',
  'test/harness/engines.ts',
  'test/harness/global-setup.mjs',
  'test/harness/runner.mjs',
  'test/harness/service.ts',
  'test/architecture/imports.test.ts',
  'test/architecture/places.test.ts',
  // Quotes them.
  'test/architecture/plain-words.test.ts',
];
const COLUMNS = 120;
/** Longer sentences have more than one idea. Tables and code do not count. */
const WORDS = 30;

/** The line that a benchmark writes itself. */
const isRecord = (line: string) => line.startsWith('// Last record');
const isDue = ({ path }: Source) => !NOT_YET.some((one) => path.startsWith(one));

function documents(): Source[] {
  const root = projectRoot();
  const markdown = (folder: string) =>
    readdirSync(join(root, folder)).flatMap((name) => (name.endsWith('.md') ? [`${folder}/${name}`] : []));
  const paths = [
    'README.md',
    'ARCHITECTURE.md',
    'CONTRIBUTING.md',
    'CHANGELOG.md',
    'SECURITY.md',
    'CODE_OF_CONDUCT.md',
    'lua/README.md',
  ];
  return [...paths, ...markdown('docs'), ...markdown('docs/decisions')].map((path) => ({
    path,
    text: readFileSync(join(root, path), 'utf8'),
  }));
}

const scripts = () => sourcesIn(['lua'], '.lua');
/** The interface of a script: a name and its meaning, in columns. */
const isHeaderRow = (line: string) => /^-- (?:KEYS | )/.test(line);

/** Lines with a word that hides who does what. */
const unclearLines = ({ path, text }: Source): string[] =>
  text
    .split('\n')
    .flatMap((line, i) =>
      UNCLEAR.test(withoutQuotes(line)) && !isRecord(line) ? [`${path}:${i + 1}: ${line.trim()}`] : [],
    );

describe('plain words', () => {
  test('documents say "a user" and "they", and name who does what', () => {
    const due = [...documents(), ...sourcesIn(FOLDERS), ...scripts()].filter(isDue);
    expect(due.flatMap(unclearLines)).toEqual([]);
  });

  test('comments, texts and names of tests do so too', () => {
    const due = filesIn(TEXTS).filter(isDue);
    expect(
      due.flatMap(({ path, text }) => unclearLines({ path, text: proseOf(text, path.startsWith('migrations/')) })),
    ).toEqual([]);
  });

  test('the search sees comments and texts, and leaves names and short values alone', () => {
    const text = `const told = 'nobody'; // for whoever\ntest('he waits for it', () => {});\nconst a = \`to \${b} nobody at all\`;`;
    expect(unclearLines({ path: 'a.ts', text: proseOf(text) })).toEqual([
      'a.ts:1: // for whoever',
      'a.ts:2: he waits for it',
      'a.ts:3: to      nobody at all',
    ]);
  });
});

describe('sentences', () => {
  test(`have at most ${WORDS} words in documents`, () => {
    const long = documents().flatMap(({ path, text }) =>
      sentencesOf(text).flatMap((sentence) => {
        const words = sentence.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length;
        return words > WORDS ? [`${path}: ${words} words: ${sentence}`] : [];
      }),
    );
    expect(long).toEqual([]);
  });

  test('end at a stop, at a colon and at the end of an item; code and links are no words', () => {
    const text =
      '# A title\n\nOne sentence\ngoes on. Two: `a b c` is\n\n- an item\n- [a link](to.md)\n\n| a | cell |\n';
    expect(sentencesOf(text)).toEqual(['One sentence goes on.', 'Two:', 'is', '- an item', '- [a link]']);
  });
});

test(`comments are at most ${COLUMNS} columns wide`, () => {
  const wide = [...filesIn(NARROW), ...scripts()]
    .filter(isDue)
    .flatMap(({ path, text }) =>
      text
        .split('\n')
        .flatMap((line, i) =>
          line.length > COLUMNS && /^\s*(?:\/\/|\/\*|\*(?= )|--)/.test(line) && !isRecord(line) && !isHeaderRow(line)
            ? [`${path}:${i + 1}`]
            : [],
        ),
    );
  expect(wide).toEqual([]);
});

test('the glossary defines each word once', () => {
  const text = readFileSync(join(projectRoot(), 'docs/glossary.md'), 'utf8');
  const words = [...text.matchAll(/^\| ([^|]+) \| /gm)].flatMap(([, cell]) => String(cell).split(', '));
  expect(words.length).toBeGreaterThan(50);
  expect(words.filter((word, i) => words.indexOf(word) !== i)).toEqual([]);
});

test('no document has both versions of a merge', () => {
  const marked = documents().filter(({ text }) => /^(?:<{7}|>{7}) /m.test(text));
  expect(marked.map(({ path }) => path)).toEqual([]);
});

test('every test that a document quotes exists', () => {
  const quotes = documents().flatMap(({ path, text }) =>
    [
      ...text
        .replace(/\s+/g, ' ')
        .matchAll(/`((?:api|shared|worker|client|test)\/[\w./-]+\.test\.ts)`: "([^*]+?)"[;.*]/g),
    ].map(([, file, names]) => ({ path, file: String(file), names: String(names).split('", "') })),
  );
  expect(quotes.length).toBeGreaterThan(5);
  const missing = quotes.flatMap(({ path, file, names }) => {
    const code = readFileSync(join(projectRoot(), file), 'utf8');
    return names.flatMap((name) => (code.includes(name) ? [] : [`${path}: ${file}: ${name}`]));
  });
  expect(missing).toEqual([]);
});
