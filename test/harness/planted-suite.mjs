// Runs the test files of a folder in the rounds of `npm test`, without engines: the tests of these rounds plant files.
// usage: node test/harness/planted-suite.mjs <folder> [--stress | --no-second-chance] [<argument for Jest> ...]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { runInRounds } from '../../scripts/test-rounds.mjs';
import { runStress } from '../../scripts/test-stress.mjs';

const JEST = join(import.meta.dirname, '../../node_modules/jest/bin/jest.js');
const [folder = '', ...args] = process.argv.slice(2);

const OURS = ['--stress', '--no-second-chance'];
/** @type {import('../../scripts/test-rounds.mjs').Suite} */
const suite = {
  jest: async (given, env) => {
    const node = ['--experimental-vm-modules', '--disable-warning=ExperimentalWarning', JEST];
    const jest = spawn(process.execPath, [...node, ...given], { stdio: 'inherit', env: { ...process.env, ...env } });
    const [code] = await once(jest, 'exit');
    return Number(code);
  },
  args: ['--config', join(folder, 'jest.config.mjs'), ...args.filter((arg) => !OURS.includes(arg))],
  secondChance: !args.includes('--no-second-chance'),
  root: folder,
  scratch: join(folder, 'results'),
  report: join(folder, 'test-report'),
  print: (text = '') => process.stdout.write(`${text}\n`),
};
process.exitCode = await (args.includes('--stress') ? runStress(suite, 1) : runInRounds(suite));
