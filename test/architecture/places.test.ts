import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { projectRoot } from '../../shared/config/project-root.js';
import { ERRORS } from '../../shared/errors/catalogue.js';
import { bullmqPrefix, keys } from '../../shared/redis/keys.js';
import { CLAIM_REFUSALS } from '../../shared/sale/scripts/claim-refusals.js';
import { nameOf, type Source, sourcesIn, withoutComments } from './sources.js';

/** Things that have one place in the project. */
const product = sourcesIn(['api', 'worker', 'commands', 'shared', 'migrations']);

/** Files with code that matches, in `path` form. */
function filesWith(pattern: RegExp, sources: readonly Source[] = product): string[] {
  return sources.filter(({ text }) => pattern.test(withoutComments(text))).map(({ path }) => path);
}

const ENVIRONMENT = /\bprocess\s*(\.\s*env\b|\[\s*['"]env)|\{[^}]*\benv\b[^}]*\}\s*=\s*process\b|from 'node:process'/;

test('the environment is read in shared/config and by the migrations, nowhere else', () => {
  expect(filesWith(ENVIRONMENT)).toEqual(['migrations/main.ts', 'shared/config/config.ts']);
});

test('the prefix of our keys stands in keys.ts, and no script builds a key', () => {
  expect(filesWith(/['"`{]?\bdb1\b/)).toEqual(['shared/redis/keys.ts']);
  const scripts = sourcesIn(['lua'], '.lua');
  expect(scripts.length).toBeGreaterThan(10);
  expect(scripts.filter(({ text }) => /\bdb\d/.test(text)).map(({ path }) => path)).toEqual([]);
  const commandOnBuiltKey = /redis\.p?call\(\s*'(?!XINFO)\w+'\s*,\s*(['"]|[\w.[\]]+\s*\.\.)/;
  expect(scripts.filter(({ text }) => commandOnBuiltKey.test(text)).map(({ path }) => path)).toEqual([]);
});

test('each key of Redis that the runbook names is a key of keys.ts', () => {
  const runbook = readFileSync(join(projectRoot(), 'docs/runbook.md'), 'utf8');
  const named = [...runbook.matchAll(/\bdb1:[\w{}<>:-]+/g)].map(([key]) => key);
  const known = Object.values(keys).map((key) =>
    typeof key === 'string' ? key : (key as (...parts: string[]) => string)('<product>', '<id>'),
  );
  const isOfQueue = (key: string) => `{${key}`.startsWith(`${bullmqPrefix('')}:`);
  expect(named.length).toBeGreaterThanOrEqual(3);
  expect(named.filter((key) => !known.includes(key) && !isOfQueue(key))).toEqual([]);
});

const CONNECTIONS: [RegExp, string][] = [
  [/\bnew\s+(?:IORedis\.)?(?:Redis|Cluster)\s*\(/, 'shared/redis/connections.ts'],
  [/\bknex\s*\(/, 'shared/postgres/migrate.ts'],
  [/\bnew\s+(?:pg\.)?Pool\s*\(/, 'shared/postgres/pool.ts'],
  [/\bnew\s+(?:pg\.)?Client\s*\(/, 'shared/postgres/migrate.ts'],
  [/\bnew\s+(?:Queue|QueueEvents|FlowProducer)\s*\(/, 'shared/queues/queues.ts'],
  [/\bnew\s+Worker\s*\(/, 'shared/queues/job-worker.ts'],
];
for (const [pattern, path] of CONNECTIONS) {
  test(`${pattern.source} stands in ${path} only`, () => expect(filesWith(pattern)).toEqual([path]));
}

/** Files that read the clock of their process, and why. Redis and Postgres decide by their own clocks. */
const PROCESS_CLOCK: Record<string, string> = {
  'commands/backup/write-backup.ts': 'the time of a backup is for people, and no code compares it',
  'shared/queues/job-worker.ts': 'BullMQ runs delayed jobs by the clock of a worker',
  'shared/queues/queue-upkeep.ts': 'it finds jobs that BullMQ would run late by the clock of this worker',
  'shared/redis/redis-clock.ts': 'until the first reply of Redis, without which no promise is made',
};
const READS_CLOCK = /\bDate\s*\.\s*now\b|\bDate\s*\(\s*\)|\bnew Date\b(?!\s*\()|\bTemporal\s*\.\s*Now\b|\btimeOrigin\b/;

test('the clock of a process is read where nothing depends on it, and in no other file', () => {
  expect(filesWith(READS_CLOCK).toSorted()).toEqual(Object.keys(PROCESS_CLOCK));
});

const VAGUE = /(^|[/.-])(utils?|helpers?|common|misc|services|controllers?|index)([/.-]|$)/i;
const vagueNames = (folders: readonly string[]) =>
  ['.ts', '.mjs', '.lua']
    .flatMap((ending) => sourcesIn(folders, ending))
    .map(({ path }) => path)
    .filter((path) => VAGUE.test(path));

test('nothing is called utils, helpers, common, services or controllers', () => {
  expect(vagueNames(['api', 'worker', 'commands', 'shared', 'migrations', 'lua', 'test'])).toEqual([]);
});

test('no script is called so either', () => {
  expect(vagueNames(['scripts'])).toEqual([]);
});

test('api, worker, commands and shared export by name and have no barrels', () => {
  expect(filesWith(/\bexport\s+default\b|\bas\s+default\b/)).toEqual([]);
  expect(filesWith(/\bexport\s+\*/)).toEqual([]);
});

test('names of migrations have a number each and say what they do', () => {
  const names = sourcesIn(['migrations'])
    .filter(({ path }) => !path.startsWith('migrations/schema/'))
    .map(({ path }) => nameOf(path))
    .filter((name) => name !== 'main.ts');
  expect(new Set(names.map((name) => name.slice(0, 4))).size).toBe(names.length);
  for (const name of names) expect(name).toMatch(/^\d{4}_[a-z]+(_[a-z]+)+\.ts$/);
});

/** First arguments of every `new Problem(…)` and `call.refusal(…)`, whatever expression they are. */
function problemCodes(sources: readonly Source[]): { path: string; code: string }[] {
  return sources.flatMap(({ path, text }) =>
    withoutComments(text)
      .split(/\bnew Problem\(|\bcall\.refusal\((?=')/)
      .slice(1)
      .flatMap((rest) =>
        [...firstArgument(rest).matchAll(/'([^']+)'/g)].map(([, code]) => ({ path, code: String(code) })),
      ),
  );
}

const firstArgument = (text: string) => argumentsOf(text, ',');

/** The text of a call's arguments, up to the closing bracket or to `end` between two of them. */
function argumentsOf(text: string, end?: string): string {
  let depth = 0;
  for (const [i, character] of [...text].entries()) {
    if ('([{'.includes(character)) depth += 1;
    if (')]}'.includes(character)) depth -= 1;
    if (depth < 0 || (depth === 0 && character === end)) return text.slice(0, i);
  }
  return text;
}

test('every error code that is thrown stands in the catalogue, and every one of the catalogue is thrown', () => {
  const ofClaims = Object.values(CLAIM_REFUSALS).map(({ code }) => ({ path: 'shared/sale/scripts', code }));
  const thrown = [...problemCodes(product), ...ofClaims];
  expect(thrown.filter(({ code }) => !Object.hasOwn(ERRORS, code))).toEqual([]);
  const used = new Set(thrown.map(({ code }) => code));
  expect(Object.keys(ERRORS).filter((code) => !used.has(code))).toEqual([]);
});

test('nobody but the catalogue makes error codes or catches problems to answer them differently', () => {
  expect(filesWith(/\bclass\s+\w+\s+extends\s+Problem\b/)).toEqual([]);
  expect(filesWith(/application\/problem\+json/)).toEqual([
    'api/http/fast-reject.ts',
    'api/http/problem-schema.ts',
    'api/http/problem.ts',
    'api/http/raw-response.ts',
    // The worker has no edge of HTTP; two paths for probes.
    'worker/ops/probe-server.ts',
  ]);
});

test('no text of a problem names what the service is made of', () => {
  const internals = /redis|postgres|\blua\b|\bsql\b/i;
  const texts = [
    ...Object.entries(ERRORS).map(([code, { title, remedy }]) => `${code}: ${title} ${remedy}`),
    ...product.flatMap(({ path, text }) =>
      withoutComments(text)
        .split(/\bnew Problem\(|\bcall\.refusal\(/)
        .slice(1)
        .map((rest) => `${path}: ${argumentsOf(rest)}`),
    ),
  ];
  expect(texts.length).toBeGreaterThan(150);
  expect(texts.filter((text) => internals.test(text.slice(text.indexOf(': '))))).toEqual([]);
});

test('routes reply and refuse through their contract', () => {
  const routes = product.filter(({ path }) => /^api\/.+\.route\.ts$/.test(path));
  expect(routes.length).toBeGreaterThan(15);
  expect(filesWith(/\bthrow new Problem\(|\bsend(Data|Json|Text)\(|\bwriteHead\(/, routes)).toEqual([]);
  expect(filesWith(/\bcontract: \{|\bcontract,\n/, routes)).toEqual([]);
});

/** Views of the whole server, which all tests that run at the same time share. */
const WHOLE_SERVER = /\b(?:from|join)\s+(?:pg_stat_activity|pg_locks)\b(?![^;]{0,200}\bdatname\b)/;

test('tests look at their own database only, because others run beside them', () => {
  const tests = [...sourcesIn(['test'], '.test.ts'), ...sourcesIn(['test'])];
  expect(tests.some(({ text }) => text.includes('pg_stat_activity'))).toBe(true);
  expect(filesWith(WHOLE_SERVER, tests)).toEqual([]);
});

const FOUND: [string, RegExp, string][] = [
  ['a look at a whole server', WHOLE_SERVER, ['select 1', 'from', 'pg_locks;'].join(' ')],
  ['a clock', READS_CLOCK, 'const now = Date.now();'],
  ['a clock behind `new`', READS_CLOCK, 'const now = new Date();'],
  ['process.env', /\bprocess\s*\.\s*env\b/, 'const url = process.env.URL;'],
  ['a connection', CONNECTIONS[0]?.[0] ?? /$^/, 'const redis = new Redis(url);'],
  ['a default export', /\bexport\s+default\b/, 'export default function x() {}'],
];
for (const [what, pattern, text] of FOUND) {
  test(`the search finds ${what}, but not in a comment`, () => {
    expect(filesWith(pattern, [{ path: 'a.ts', text }])).toEqual(['a.ts']);
    expect(filesWith(pattern, [{ path: 'a.ts', text: `// ${text}\n/* ${text} */` }])).toEqual([]);
  });
}

test('the search for codes sees through an expression', () => {
  const text =
    "throw new Problem(late ? 'sold_out' : 'no_such_code', 'a detail, with a comma', { members: { code: 'x' } });";
  expect(problemCodes([{ path: 'a.ts', text }]).map(({ code }) => code)).toEqual(['sold_out', 'no_such_code']);
});
