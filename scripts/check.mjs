// `npm run check`: types, unused code, lint and format, generated documents, import direction, commit
// subjects. Runs all checks and fails if one of them failed.
import { spawnSync } from 'node:child_process';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { prepare } from './prepare.mjs';
import { createTerminal } from './terminal.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const BIN = join(ROOT, 'node_modules/.bin');
const JEST = [
  '--experimental-vm-modules',
  '--disable-warning=ExperimentalWarning',
  join(ROOT, 'node_modules/jest/bin/jest.js'),
];
const CHECKS = [
  { name: 'types', command: join(BIN, 'tsc'), args: ['--noEmit'] },
  { name: 'types in the browser', command: join(BIN, 'tsc'), args: ['--noEmit', '-p', 'tsconfig.browser.json'] },
  { name: 'types in a report', command: join(BIN, 'tsc'), args: ['-p', 'loadtest/report'] },
  { name: 'unused files, exports and packages', command: join(BIN, 'knip'), args: ['--no-progress'] },
  { name: 'lint and format', command: join(BIN, 'biome'), args: ['check', '--error-on-warnings'] },
  { name: 'generated documents', command: process.execPath, args: ['scripts/docs.mjs', '--check'] },
  // Needs no engine; `npm test` runs it again with all the rest.
  {
    name: 'import direction and contracts',
    command: process.execPath,
    args: [...JEST, 'test/architecture'],
    env: { DOORBUSTER_TEST_NO_ENGINES: '1' },
  },
];

/**
 * A subject that fits a line of `git log` and of a review. The last 100 commits, as far as a shallow clone has them.
 */
const SUBJECT_LENGTH = 72;
const OUTPUT_LIMIT_BYTES = 64 * 1024 * 1024;
/** How many lines of output of the failed checks are printed again, all together. */
const SUMMARY_LINES = 40;

/** @returns {string[]} the subjects that are too long; none where there is no history */
function longSubjects() {
  const { stdout } = spawnSync('git', ['log', '-n', '100', '--format=%s'], { cwd: ROOT, encoding: 'utf8' });
  return (stdout ?? '').split('\n').filter((subject) => subject.length > SUBJECT_LENGTH);
}

const terminal = createTerminal();
try {
  await prepare(ROOT, terminal);
} catch (error) {
  terminal.explain(error);
  process.exit(1);
}
/** @type {{ name: string, output: string, repeat: string }[]} */
const failed = [];
const report = (/** @type {string} */ name, /** @type {boolean} */ passed) =>
  process.stdout.write(`${passed ? 'ok    ' : 'FAILED'} ${name}\n`);

for (const { name, command, args, env } of CHECKS) {
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: OUTPUT_LIMIT_BYTES,
    env: { ...process.env, ...env },
  });
  const output = `${stdout ?? ''}${stderr ?? ''}`;
  process.stdout.write(output);
  report(name, status === 0);
  const repeat = [relative(ROOT, command), ...args.map((arg) => arg.replace(`${ROOT}/`, ''))].join(' ');
  if (status !== 0) failed.push({ name, output, repeat: repeat.replace(relative(ROOT, process.execPath), 'node') });
}
const subjects = longSubjects();
report('commit subjects', subjects.length === 0);
if (subjects.length > 0) {
  const output = subjects.map((subject) => `longer than ${SUBJECT_LENGTH} characters: ${subject}`).join('\n');
  failed.push({ name: 'commit subjects', output, repeat: 'git log -n 100 --format=%s' });
}
// Again at the end, where a reader of a failed run looks first.
for (const { name, output, repeat } of failed) {
  const lines = output
    .trimEnd()
    .split('\n')
    .slice(-Math.floor(SUMMARY_LINES / failed.length));
  process.stdout.write(`\nFAILED ${name}\n${lines.join('\n')}\nrepeat: ${repeat}\n`);
}
process.exitCode = failed.length === 0 ? 0 : 1;
