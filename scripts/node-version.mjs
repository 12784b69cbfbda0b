// Reports at once when Node is too old, instead of failing later on a missing function.
import { readFileSync } from 'node:fs';
import { Problem } from './problem.mjs';

/** @returns {void} */
export function requireNode() {
  const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const wanted = /\d+\.\d+/.exec(engines.node)?.[0] ?? '0.0';
  const [major = 0, minor = 0] = wanted.split('.').map(Number);
  const [haveMajor = 0, haveMinor = 0] = process.versions.node.split('.').map(Number);
  if (haveMajor > major || (haveMajor === major && haveMinor >= minor)) return;
  throw new Problem(`This is Node ${process.versions.node}; Doorbuster needs ${wanted} or newer.`, {
    remedy: 'Install a newer one from https://nodejs.org and try again.',
  });
}
