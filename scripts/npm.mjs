// Runs the npm that started this process, or else the one on the PATH.
import { Problem } from './problem.mjs';
import { run } from './processes.mjs';

/**
 * Runs npm quietly in the repository. If it fails, its output becomes part of the message.
 * @param {string} root
 * @param {string[]} args
 * @param {{ env?: NodeJS.ProcessEnv, limitMs: number, failure: string, remedy: string }} options
 * @returns {Promise<void>}
 */
export async function runNpm(root, args, { env = process.env, limitMs, failure, remedy }) {
  const script = env.npm_execpath;
  const [command, ...before] = script?.endsWith('.js') ? [process.execPath, script] : ['npm'];
  const { code, signal, output } = await run(command ?? 'npm', [...before, ...args], { cwd: root, env, limitMs });
  if (code === 0) return;
  // npm prints the reason first and pages of advice after it; compilers print the total last.
  const lines = output.trim().split('\n');
  const details = lines.length <= 30 ? lines : [...lines.slice(0, 15), '…', ...lines.slice(-10)];
  throw new Problem(`${failure} (npm ended with ${signal ?? `code ${code}`}).`, {
    details: details.join('\n'),
    remedy,
  });
}
