import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const ASKS = /\bawait sharedService\(\)/;
const STAGE = /from '(?<path>\.[^']+-stage)\.js'/g;

/**
 * Whether a test file uses the service that files share in a Jest process, by itself or by its stage.
 * @param {string} path
 */
export function asksToShare(path) {
  const text = readFileSync(path, 'utf8');
  if (ASKS.test(text)) return true;
  return [...text.matchAll(STAGE)].some((found) =>
    ASKS.test(readFileSync(join(dirname(path), `${found.groups?.path}.ts`), 'utf8')),
  );
}
