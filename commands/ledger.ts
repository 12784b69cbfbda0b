import { parseArgs } from 'node:util';
import { readCommandConfig } from '../shared/config/config.js';
import { isClean } from '../shared/contracts/verdict.js';
import { engineUrls, runCommand } from './command.js';
import { compareEngines } from './ledger/compare-engines.js';
import { compareRegions, isWhole } from './ledger/compare-regions.js';

const USAGE = `usage: npm run ledger -- <product_id> [--regions]

Compares Redis, journal and Postgres, and prints one JSON object: {confirmed, persisted, lost, duplicated, over_cap, drift, …}.
Exit code 0 when lost, duplicated, over_cap and drift are 0, 1 when one is not, 2 when nothing could be compared. REDIS_URL
and DATABASE_URL name the engines; without them those of \`npm start\`.

confirmed counts every reservation that was ever promised, also those that have expired or were released or refunded. So it
may be above the total of the campaign. over_cap is the number of units taken beyond the total (docs/runbook.md).

--regions   also asks the other regions that sell the product (docs/regions.md). It adds misplaced (reservations here of
            users of another region), in_transit, units_lost, units_duplicated and stuck (of transfers between regions),
            and the numbers of each region. Exit code 1 when one of them but in_transit is not 0, 2 when a region did
            not reply. It reads REGION, REGIONS and REGION_KEYS. Run it in each region: each compares its own engines.
`;

await runCommand({
  usage: USAGE,
  parse(args) {
    const options = { regions: { type: 'boolean', default: false } } as const;
    const { positionals, values } = parseArgs({ args, options, allowPositionals: true });
    return positionals.length === 1 ? { product: String(positionals[0]), regions: values.regions } : null;
  },
  async run({ product, regions }, terminal) {
    terminal.failed = 'the ledger could not be compared';
    const urls = engineUrls();
    const verdict = await compareEngines(urls, product, (reason) => terminal.warn(`the primary is read: ${reason}`));
    if (!regions) {
      terminal.print(JSON.stringify(verdict, null, 2));
      return isClean(verdict) ? 0 : 1;
    }
    const config = readCommandConfig().regions;
    if (!config) throw new Error('REGION is missing: this installation is not one of several regions');
    const together = await compareRegions(urls, config, product);
    terminal.print(JSON.stringify({ ...verdict, ...together }, null, 2));
    if (!isClean(verdict) || !isWhole(together)) return 1;
    return together.regions.every(({ problem }) => problem === null) ? 0 : 2;
  },
});
