import { ConfigError, readEngineUrls } from '../config/config.js';
import { isClean } from '../contracts/verdict.js';
import { compareEngines } from './ledger.js';

/**
 * `npm run ledger -- <product_id>`: compares Redis, journal and Postgres, and prints one JSON object. The exit code is
 * 1 if anything is lost, duplicated, over the cap or drifted, and 2 if the comparison failed.
 */
const [product] = process.argv.slice(2);
if (!product || product.startsWith('-')) {
  process.stderr.write('usage: npm run ledger -- <product_id>\n');
  process.exit(2);
}
const warn = (reason: string) => process.stderr.write(`the primary is read: ${reason}\n`);
try {
  const verdict = await compareEngines(engineUrls(), product, warn);
  process.stdout.write(`${JSON.stringify(verdict, null, 2)}\n`);
  process.exitCode = isClean(verdict) ? 0 : 1;
} catch (error) {
  process.stderr.write(`the ledger could not be compared: ${error instanceof Error ? error.message : error}\n`);
  process.exitCode = 2;
}

function engineUrls(): ReturnType<typeof readEngineUrls> {
  try {
    return readEngineUrls();
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\nor start a service with \`npm start\`\n`);
    process.exit(2);
  }
}
