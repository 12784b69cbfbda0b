// Installs and compiles like `npm start` and `npm test`, without running anything: for CI, which runs the checks before
// the tests.
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { requireNode } from './node-version.mjs';
import { createTerminal } from './terminal.mjs';

const terminal = createTerminal();
try {
  requireNode();
  // Imported here, because it needs a newer Node than the message about an old one.
  const { prepare } = await import('./prepare.mjs');
  await prepare(dirname(dirname(fileURLToPath(import.meta.url))), terminal);
} catch (error) {
  terminal.explain(error);
  process.exitCode = 1;
}
