import { readFileSync } from 'node:fs';

/** Whether a test file uses the service that files share in a Jest process. @param {string} path */
export function asksToShare(path) {
  return /\bawait sharedService\(\)/.test(readFileSync(path, 'utf8'));
}
