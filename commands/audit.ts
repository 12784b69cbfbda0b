import { parseArgs } from 'node:util';
import type { ProductId } from '../shared/domain/ids.js';
import { AuditChains } from '../shared/postgres/audit-chain.js';
import { CampaignsTable } from '../shared/postgres/campaigns.js';
import type { Database } from '../shared/postgres/pool.js';
import { RedemptionChains } from './audit/redemption-chain.js';
import { lineOfEntry, lineOfHistory, lineOfReport } from './audit/words.js';
import { connectDatabase, engineUrls, runCommand, type Terminal } from './command.js';

const USAGE = `usage: npm run audit -- <product_id> [--head <head>]…   what was done to a campaign, and whether it was changed later
       npm run audit [-- --head <head>…]                verifies everything: all campaigns, and what concerns none

Entries are chained: each contains a digest of the one before. The command recomputes the chains and names the first entry
that was changed, removed or made up by hand. It prints the head of each chain.

A person with all rights over the database can compute a chain anew. So keep the heads where that person has no rights:
with --head, which may be repeated, the command shows that nothing up to there was changed or removed. docs/operators.md.

Exit code 0 when the chains are whole and have the heads, 1 when not, 2 when it failed. DATABASE_URL names the database;
without it that of \`npm start\`.
`;

const STATEMENT_MS = 600_000;
const UP_TO_HEAD =
  'Nothing up to the kept heads was changed, and nothing removed but what AUDIT_KEEP_DAYS has removed above.';
const WITHOUT_HEAD =
  'The chains fit together. Keep the heads where the people with rights over the database have none: with --head they show ' +
  'later that nothing up to them was changed or removed. Without them, a person could have computed the chains anew.';

/** `kept`: the heads that were kept elsewhere. */
type Options = { product: string | undefined; kept: readonly string[] };

await runCommand<Options>({
  usage: USAGE,
  parse(args) {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: { head: { type: 'string', multiple: true, default: [] } },
    });
    const [product, ...more] = positionals;
    if (!values.head.every((head) => /^[0-9a-f]{64}$/.test(head)))
      throw new TypeError('--head must be 64 hexadecimal digits, as this command prints them');
    return more.length === 0 ? { product, kept: values.head } : null;
  },
  async run(options, { print }) {
    const database = connectDatabase('audit', engineUrls().databaseUrl, STATEMENT_MS, 2);
    try {
      return (await verify(database, options, print)) ? 0 : 1;
    } finally {
      await database.close();
    }
  },
});

/** @returns whether no entry was changed */
async function verify(database: Database, { product, kept }: Options, print: Terminal['print']): Promise<boolean> {
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
