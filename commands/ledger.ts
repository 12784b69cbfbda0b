import { parseArgs } from 'node:util';
import { isClean } from '../shared/contracts/verdict.js';
import { engineUrls, runCommand } from './command.js';
import { compareEngines } from './ledger/compare-engines.js';

const USAGE = `usage: npm run ledger -- <product_id>

Compares Redis, journal and Postgres, and prints one JSON object: {confirmed, persisted, lost, duplicated, over_cap, drift, …}.
Exit code 0 when the last four are 0, 1 when one is not, 2 when nothing could be compared. REDIS_URL and DATABASE_URL name
the engines; without them those of \`npm start\`.
`;

await runCommand({
  usage: USAGE,
  parse(args) {
    const { positionals } = parseArgs({ args, allowPositionals: true });
    return positionals.length === 1 ? { product: String(positionals[0]) } : null;
  },
  async run({ product }, terminal) {
    terminal.failed = 'the ledger could not be compared';
    const verdict = await compareEngines(engineUrls(), product, (reason) =>
      terminal.warn(`the primary is read: ${reason}`),
    );
    terminal.print(JSON.stringify(verdict, null, 2));
    return isClean(verdict) ? 0 : 1;
  },
});
