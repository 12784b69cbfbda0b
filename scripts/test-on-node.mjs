// `npm run test:node -- <version> [jest arguments]`, as in `npm run test:node -- 24 shared`: the tests on another Node
// than the installed one. It downloads that Node into .engines from the package registry, which has each release as a
// package for each system.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const [version = '', ...args] = process.argv.slice(2);
if (!/^\d+(\.\d+){0,2}$/.test(version)) {
  process.stderr.write('which Node? for example: npm run test:node -- 24 [jest arguments]\n');
  process.exit(2);
}
const binary = install(version);
process.stdout.write(`on ${spawnSync(binary, ['--version'], { encoding: 'utf8' }).stdout}`);
const tests = spawn(binary, [join(ROOT, 'scripts', 'test.mjs'), ...args], {
  stdio: 'inherit',
  env: { ...process.env, PATH: `${dirname(binary)}:${process.env.PATH}` },
});
tests.on('exit', (code) => process.exit(code ?? 1));

/**
 * @param {string} version of Node, in part or whole
 * @returns {string} the path of its binary
 */
function install(version) {
  const name = `node-${process.platform}-${process.arch}`;
  const folder = join(ROOT, '.engines', `node-${version}`);
  const binary = join(folder, 'node_modules', name, 'bin', 'node');
  if (existsSync(binary)) return binary;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"private":true}');
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--silent'];
  const { status } = spawnSync('npm', ['install', ...flags, `${name}@${version}`], { cwd: folder, stdio: 'inherit' });
  if (status !== 0) process.exit(1);
  return binary;
}
