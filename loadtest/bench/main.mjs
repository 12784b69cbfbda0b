// `npm run bench [-- p1 p4 …] [--versus <revision>]`: the goals of the project, measured on engines of their own. Prints machine, versions and figures, and
// keeps the last record in loadtest/bench/record.json. A benchmark is no test: nothing fails for being slow.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir, totalmem } from 'node:os';
import { join } from 'node:path';
import { ROOT, startStage } from './stage.mjs';

const ALL = ['p1', 'p2', 'p3', 'p4', 'p5', 'p6', 'p7', 'p8', 'p9', 'blocked', 'bots', 'storm'];
const RECORD = join(ROOT, 'loadtest/bench/record.json');

process.exit(await main(process.argv.slice(2)));

/** @param {string[]} args @returns {Promise<number>} */
async function main(args) {
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(`usage: npm run bench [-- ${ALL.join('|')} …] [--versus <revision>]

Without names all of them run, in about ten minutes. --versus builds another revision and measures it in turn with this one.
`);
    return 0;
  }
  const versusAt = args.indexOf('--versus');
  const revision = versusAt < 0 ? null : args[versusAt + 1];
  const names = args.filter((arg, i) => ALL.includes(arg) && (versusAt < 0 || i < versusAt || i > versusAt + 1));
  const unknown = args.filter((arg, i) => !ALL.includes(arg) && i !== versusAt && (versusAt < 0 || i !== versusAt + 1));
  if (unknown.length > 0 || (versusAt >= 0 && !revision)) {
    process.stderr.write(
      `not known: ${unknown.join(' ') || '--versus without a revision'}; see npm run bench -- --help\n`,
    );
    return 2;
  }
  const other = revision ? checkOut(revision) : null;
  const facts = machine();
  process.stdout.write(
    `${Object.entries(facts)
      .map(([name, value]) => `${name}: ${value}`)
      .join('\n')}\n`,
  );
  const record = existsSync(RECORD) ? JSON.parse(readFileSync(RECORD, 'utf8')) : {};
  try {
    for (const name of names.length > 0 ? names : ALL) {
      for (const root of other ? [ROOT, other] : [ROOT]) {
        const label = root === ROOT ? name : `${name} at ${revision}`;
        process.stdout.write(`\n${label}\n`);
        const { run, stageEnv = {} } = await import(`./${name}.mjs`);
        const stage = await startStage({ root, env: stageEnv });
        try {
          const figures = await run(stage, (text) => process.stdout.write(`  ${text}\n`), root);
          process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
          if (root === ROOT) record[name] = { ...figures, ...facts };
        } finally {
          await stage.stop();
        }
      }
    }
  } finally {
    if (other) rmSync(other, { recursive: true, force: true });
  }
  writeFileSync(RECORD, `${JSON.stringify(record, null, 2)}\n`);
  return 0;
}

function machine() {
  const git = (...args) => execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).trim();
  return {
    date: new Date().toISOString(),
    machine: `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB`,
    load: readFileSync('/proc/loadavg', 'utf8').split(' ')[0],
    node: process.version,
    revision: `${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain') ? ' with changes' : ''}`,
  };
}

/** Another revision, built, with this checkout's packages. @param {string} revision @returns {string} its folder */
function checkOut(revision) {
  const folder = mkdtempSync(join(tmpdir(), 'doorbuster-versus-'));
  execFileSync('git', ['clone', '--quiet', ROOT, folder]);
  execFileSync('git', ['checkout', '--quiet', revision], { cwd: folder });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: folder });
  return folder;
}
