import { isClean, type Verdict } from '../../shared/contracts/verdict.js';
import type { CampaignFindings, Findings } from './findings.js';
import { isLost } from './need.js';

/** The report that the command prints: what Postgres lacks, or lacked before the repair. */
export function reportOf(findings: Findings, dryRun: boolean): string[] {
  const { cursor, lastId, backlog, gap, campaigns, renumberedEvents } = findings;
  const lines = [`Postgres has the journal up to ${cursor}, Redis is at ${lastId}.`];
  if (gap) {
    const rest =
      backlog > 0 ? `The journal still has the last ${backlog} of them, for a worker; earlier entries are lost.` : '';
    lines.push(`Postgres lacks entries that were committed before. ${rest}`.trim());
  } else if (backlog > 0) {
    lines.push(`${backlog} entries have not been written yet.`);
  }
  const differing = campaigns.map(linesOf).filter(({ length }) => length > 1);
  lines.push('', ...differing.flatMap((some) => [...some, '']));
  const same = campaigns.length - differing.length;
  if (same > 0) lines.push(`${same} ${same === 1 ? 'campaign is' : 'campaigns are'} the same on both sides.`);
  if (renumberedEvents) lines.push(`${renumberedEvents} events had numbers that were used before; they have new ones.`);
  if (isWhole(findings)) lines.push('Postgres lacks nothing, except entries that the journal has.');
  lines.push(dryRun ? 'Dry run: nothing was written.' : 'Written to Postgres.');
  return lines;
}

/** Whether Postgres lacks nothing except entries that a worker will persist from the journal. */
export function isWhole({ gap, campaigns }: Findings): boolean {
  return !gap && campaigns.every((campaign) => linesOf(campaign).length === 1);
}

/** The line of the report with the ledger's verdict on a campaign. */
export function verdictLine(verdict: Verdict): string {
  const { product_id, confirmed, persisted, lost, duplicated, over_cap, drift } = verdict;
  const found = `lost ${lost}, duplicated ${duplicated}, over the cap ${over_cap}, drift ${drift}`;
  return `${isClean(verdict) ? 'ok    ' : 'WRONG '} ${product_id}: ${persisted} of ${confirmed} reservations in Postgres, ${found}`;
}

function linesOf(campaign: CampaignFindings): string[] {
  const { total, status, terms, codes, missing, changed, places, leftAlone, erased, archivedLoss } = campaign;
  const { bucket, transfers } = campaign;
  const lines = [`campaign ${campaign.product}${bucket === undefined ? '' : `, bucket ${bucket}`}`];
  const add = (what: string) => lines.push(`  ${what}`);
  if (campaign.conflict) {
    add(`number: Postgres gave it to ${campaign.conflict} after the restore; nothing of this campaign was written`);
  }
  if (campaign.unknown) add('campaign: not in Postgres; created again from Redis under its number');
  if (total) add(`total: ${total.redis ?? 'unlimited'} in Redis, ${total.postgres ?? 'unlimited'} in Postgres`);
  if (status) add(`status: ${status.redis} in Redis, ${status.postgres} in Postgres`);
  if (terms) add(`terms: version ${terms.redis} in Redis, version ${terms.postgres} in Postgres`);
  if (codes) {
    add(`codes: ${codes.redis} were issued, ${codes.postgres} are in Postgres; the texts of the others are lost, and`);
    add('  which of them were used: issue new codes, since the same ones would be accepted again');
  }
  if (missing.reservations > 0) {
    add(`reservations missing in Postgres: ${missing.reservations} (${missing.units} units)`);
  }
  for (const [what, times] of Object.entries(changed)) {
    add(`reservations in another state: ${times} (Postgres → Redis: ${what})`);
  }
  if (places.missing > 0) add(`places in line missing in Postgres: ${places.missing}`);
  if (places.ended > 0) add(`places in line that have ended: ${places.ended}`);
  if (transfers && transfers.left > 0) {
    add(`transfers to other buckets missing in Postgres: ${transfers.left} (${transfers.units} units)`);
  }
  if (transfers && transfers.arrived > 0) add(`transfers that have arrived: ${transfers.arrived}`);
  if (isLost(archivedLoss)) {
    const { units, reservations, hidden } = archivedLoss;
    if (hidden) add('archived: Postgres may lack a refund and a late payment, after which the counters are the same;');
    else add(`archived: Postgres lacks ${reservations} reservations, and the counters differ by ${units} units;`);
    add('  Redis no longer has them: compare with the payments (docs/runbook.md, "Backup and restore")');
  }
  if (erased > 0)
    add(`reservations and places of users who were erased since: ${erased}; they have their pseudonyms again`);
  if (leftAlone > 0) add(`left alone: ${leftAlone} rows that Redis does not have, or has in an earlier state`);
  return lines;
}
