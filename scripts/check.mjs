// `npm run check`: types, unused code, lint and format, generated documents, import direction, commit
// subjects. Runs all checks and fails if one of them failed.
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
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
const failed = CHECKS.filter(({ name, command, args, env }) => {
  const { status } = spawnSync(command, args, { cwd: ROOT, stdio: 'inherit', env: { ...process.env, ...env } });
  process.stdout.write(`${status === 0 ? 'ok    ' : 'FAILED'} ${name}\n`);
  return status !== 0;
});
const subjects = longSubjects();
for (const subject of subjects) process.stdout.write(`longer than ${SUBJECT_LENGTH} characters: ${subject}\n`);
process.stdout.write(`${subjects.length === 0 ? 'ok    ' : 'FAILED'} commit subjects\n`);
process.exitCode = failed.length === 0 && subjects.length === 0 ? 0 : 1;
