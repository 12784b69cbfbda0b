// Installs and compiles what `npm start` and `npm test` would, and nothing more: for CI, whose checks come before the tests.
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { requireNode } from './node-version.mjs';
import { createTerminal } from './terminal.mjs';

const terminal = createTerminal();
try {
  requireNode();
  // Only now, since it uses what an old Node lacks.
  const { prepare } = await import('./prepare.mjs');
  await prepare(dirname(dirname(fileURLToPath(import.meta.url))), terminal);
} catch (error) {
  terminal.explain(error);
  process.exitCode = 1;
}
