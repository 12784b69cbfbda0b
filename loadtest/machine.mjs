// The machine, versions and revision of a measurement.
import { execFileSync } from 'node:child_process';
import { cpus, loadavg, totalmem } from 'node:os';

/** @param {string} root of the checkout */
export function machineFacts(root) {
  return {
    date: new Date().toISOString(),
    machine: `${cpus().length} × ${cpus()[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB`,
    load: String(loadavg()[0]?.toFixed(1)),
    node: process.version,
    revision: revisionOf(root),
  };
}

/** @param {string} root */
function revisionOf(root) {
  const git = (/** @type {string[]} */ ...args) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  try {
    // The benchmarks write their records into their own files.
    const changed = git('status', '--porcelain', '--', '.', ':!loadtest/bench');
    return `${git('rev-parse', '--short', 'HEAD')}${changed ? ' with changes' : ''}`;
  } catch {
    // An unpacked archive has no revision.
    return 'unknown';
  }
}
