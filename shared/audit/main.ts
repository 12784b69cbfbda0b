import { ConfigError, readEngineUrls } from '../config/config.js';
import { LIMITS } from '../config/limits.js';
import type { ProductId } from '../domain/ids.js';
import { AuditChains } from '../postgres/audit-chain.js';
import { CampaignsTable } from '../postgres/campaigns.js';
import { Database } from '../postgres/pool.js';
import { RedemptionChains } from '../postgres/redemption-chain.js';
import { lineOfEntry, lineOfHistory, lineOfReport } from './words.js';

/** `npm run audit`: see scripts/audit.mjs for its arguments. */
const STATEMENT_MS = 600_000;

const UP_TO_HEAD =
  'Nothing up to the kept heads was changed, and nothing removed but what AUDIT_KEEP_DAYS has removed above.';
const WITHOUT_HEAD =
  'The chains fit together. Keep the heads where the people with rights over the database have none: with --head they show ' +
  'later that nothing up to them was changed or removed. Without them, a person could have computed the chains anew.';

const [product, ...kept] = readArguments(process.argv.slice(2));
const print = (line: string) => process.stdout.write(`${line}\n`);
// A reader that ends early, as `head` does, has not found a change.
process.stdout.on('error', () => process.exit(2));
const database = new Database({
  url: databaseUrl(),
  name: 'doorbuster-audit',
  connections: 2,
  statementMs: STATEMENT_MS,
  connectMs: LIMITS.commandConnectMs,
  onError: () => {},
});
try {
  process.exitCode = (await run()) ? 0 : 1;
} catch (error) {
  process.stderr.write(`it failed: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 2;
} finally {
  await database.close();
}

/** @returns the product or undefined, then the heads */
function readArguments(args: readonly string[]): [string | undefined, ...string[]] {
  const heads = args.flatMap((arg, i) => (args[i - 1] === '--head' ? [arg] : []));
  const [only] = args.filter((arg, i) => arg !== '--head' && args[i - 1] !== '--head');
  return [only, ...heads];
}

/** @returns whether no entry was changed */
async function run(): Promise<boolean> {
  const campaigns = new CampaignsTable(database);
  const found = product === undefined ? null : await campaigns.find(product as ProductId);
  if (product !== undefined && found === null) throw new Error(`there is no campaign for ${product}`);
  const all = found ? [found] : await campaigns.toRestore();
  const products = new Map<string, string>(all.map(({ id, productId }) => [id, productId]));
  const reports: { broken: object | null; kept: readonly string[] }[] = [];
  const [chains, histories] = [new AuditChains(database), new RedemptionChains(database)];
  const onEntry = found ? (entry: Parameters<typeof lineOfEntry>[0]) => print(lineOfEntry(entry)) : undefined;
  for (const name of await chains.list(found?.id ?? null)) {
    const report = await chains.verify(name, kept, onEntry);
    reports.push(report);
    print(lineOfReport(report, name.campaign === null ? null : (products.get(name.campaign) ?? name.campaign)));
  }
  for (const { id, productId } of all) {
    for (const bucket of await histories.buckets(id)) {
      const report = await histories.verify(id, bucket, kept);
      reports.push(report);
      print(lineOfHistory(report, productId));
    }
  }
  const missing = kept.filter((head) => !reports.some((report) => report.kept.includes(head)));
  for (const head of missing)
    print(
      `MISSING  no chain has the head ${head}: entries were removed or changed, or it is of another chain, from before a restore or failover of Postgres, or older than AUDIT_KEEP_DAYS`,
    );
  const isWhole = reports.every(({ broken }) => broken === null) && missing.length === 0;
  if (reports.length === 0) print('There are no entries.');
  else if (isWhole) print(kept.length > 0 ? UP_TO_HEAD : WITHOUT_HEAD);
  return isWhole;
}

function databaseUrl(): string {
  try {
    return readEngineUrls().databaseUrl;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\nor start a service with \`npm start\`\n`);
    process.exit(2);
  }
}
