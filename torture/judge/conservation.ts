import type { Call } from '../history.js';
import { type Facts, grouped } from './facts.js';
import type { Violation } from './violation.js';

const MOST_AMBIGUOUS = 12;
const STATUS_AFTER: Record<string, string> = { pause: 'paused', resume: 'open', close: 'closed' };

/** Rule 5: nothing is created or lost, and Redis, Postgres and the ledger agree. */
export function stockIsConserved(facts: Facts): Violation[] {
  return [
    ...statsAddUp(facts),
    ...ledgersAgree(facts),
    ...linesAgree(facts),
    ...standingsAgree(facts),
    ...facts.campaignFacts.flatMap(({ product, total, isCreated }) => [
      ...(isCreated ? isKept(facts, product) : []),
      ...(total === null ? [] : totalIsRight(facts, product, total)),
      ...statusIsRight(facts, product),
      ...nameIsRight(facts, product),
    ]),
  ];
}

const violation = (what: string, ...evidence: unknown[]): Violation => ({ rule: 'conservation', what, evidence });

/** A backup of the nemesis is a few seconds old. */
const BACKUP_MS = 30_000;

/** A campaign has a row, unless it is younger than the backup to which Postgres was set back while Redis was lost. */
function isKept({ campaigns, calls, losses }: Facts, product: string): Violation[] {
  if (campaigns.has(product)) return [];
  const created = calls.filter((call) => call.kind === 'create' && call.product === product && call.status === 201);
  const isExcused = created.some(
    ({ at }) => losses.bothLost(at) && losses.repairs.some(({ from }) => from >= at && from - at < BACKUP_MS),
  );
  return isExcused ? [] : [violation('a created campaign has no row', product, ...created)];
}

function statsAddUp(facts: Facts): Violation[] {
  return facts.final.stats.flatMap(({ product, api, stats }) => {
    if (!stats) return [violation(`${api} returns no stats of ${product}`)];
    const { total, free, held, redeemed, burned, drift } = stats;
    const row = facts.campaigns.get(product);
    const sum = (free ?? 0) + held + redeemed + burned;
    const wrong: Violation[] = [];
    if (total !== null && sum !== total) wrong.push(violation('the stats do not add up', product, stats));
    if (drift !== 0) wrong.push(violation('Redis and Postgres have different numbers of units taken', product, stats));
    if (row && total !== row.total_limit) wrong.push(violation('Redis and Postgres have different totals', stats, row));
    return wrong;
  });
}

function ledgersAgree(facts: Facts): Violation[] {
  return Object.entries(facts.final.ledgers).flatMap(([product, verdict]) => {
    const { lost, duplicated, over_cap, drift } = verdict;
    return lost === 0 && duplicated === 0 && over_cap === 0 && drift === 0
      ? []
      : [violation(`the ledger of ${product} finds differences`, verdict)];
  });
}

function linesAgree(facts: Facts): Violation[] {
  const waiting = grouped(
    facts.final.tickets.filter(({ status }) => status === 'waiting'),
    ({ product_id }) => product_id,
  );
  return Object.entries(facts.final.lines).flatMap(([product, users]) => {
    const inPostgres = new Set((waiting.get(product) ?? []).map(({ user_id }) => user_id));
    const onlyInRedis = users.filter((user) => !inPostgres.has(user));
    const onlyInPostgres = [...inPostgres].filter((user) => !users.includes(user));
    return onlyInRedis.length + onlyInPostgres.length === 0
      ? []
      : [violation(`the lines of ${product} differ`, { onlyInRedis, onlyInPostgres })];
  });
}

/** What an API returns to a person whose reservation is in Postgres. */
function standingsAgree(facts: Facts): Violation[] {
  const allowed: Record<string, string[]> = {
    reserved: ['completed', 'promoted'],
    redeemed: ['redeemed'],
    released: ['released'],
    expired: ['expired'],
    refunded: ['refunded', 'released', 'not_queued'],
  };
  return facts.final.standings.flatMap((standing) => {
    const { status, reservation } = standing;
    const row = reservation === null ? null : facts.redemptions.get(reservation);
    if (status === null) return [violation('no API returns the standing of a user', standing)];
    if (!row || row.status === 'voided' || status === 'queued' || status === 'left' || status === 'closed') return [];
    return allowed[row.status]?.includes(status) ? [] : [violation('queue-status and the row differ', standing, row)];
  });
}

/** The total is what it was plus every acknowledged restock, plus any of those whose response was lost. */
function totalIsRight(facts: Facts, product: string, before: number): Violation[] {
  const calls = facts.calls.filter((call) => call.kind === 'stock' && call.product === product);
  const found = facts.campaigns.get(product)?.total_limit;
  if (found === undefined || found === null) return [];
  const deltaOf = ([call]: readonly Call[]) => Number((call?.body as { delta: number } | undefined)?.delta);
  let totals = new Set([before]);
  let ambiguous = 0;
  for (const attempts of grouped(calls, ({ key }) => String(key)).values()) {
    const isDone = attempts.some(({ status }) => status === 200);
    if (!isDone && attempts.some(({ status }) => status === 409)) continue;
    const isSure = isDone && facts.losses.excuseOf(attempts, facts.durabilityOf(product)) === null;
    if (!isSure) ambiguous += 1;
    if (ambiguous > MOST_AMBIGUOUS) return [];
    const added = [...totals].map((total) => total + deltaOf(attempts));
    totals = new Set(isSure ? added : [...totals, ...added]);
  }
  return totals.has(found)
    ? []
    : [
        violation(
          `the total of ${product} is ${found}`,
          { expected: [...totals] },
          ...calls.filter((one) => one.status === 200),
        ),
      ];
}

/** The status is what the last acknowledged action made it, unless the response of a later one was lost. */
function statusIsRight(facts: Facts, product: string): Violation[] {
  const actions = facts.calls.filter((call) => call.kind === 'action' && call.product === product);
  const last = actions.findLast(({ status }) => status === 200);
  const row = facts.campaigns.get(product);
  if (!last || !row) return [];
  const later = actions.some(({ status, end }) => status === null && end > last.at);
  const excuse = facts.losses.excuseOf(attemptsBefore(actions, last), facts.durabilityOf(product));
  if (later || excuse !== null || row.status === STATUS_AFTER[last.detail ?? '']) return [];
  return [violation(`${product} is ${row.status} although the last acknowledged action is ${last.detail}`, last, row)];
}

function nameIsRight(facts: Facts, product: string): Violation[] {
  const patches = facts.calls.filter(
    (call) => call.kind === 'patch' && call.product === product && 'name' in ((call.body as object | undefined) ?? {}),
  );
  const last = patches.findLast(({ status }) => status === 200);
  const row = facts.campaigns.get(product);
  if (!last || !row || patches.some(({ status, at }) => status !== 200 && at > last.at)) return [];
  // Postgres has it before the response, and Redis keeps it for a Postgres that is set back.
  if (facts.losses.excuseOf([last], 'committed') !== null) return [];
  const name = (last.body as { name: string }).name;
  return row.name === name ? [] : [violation(`the acknowledged name of ${product} is lost`, last, row)];
}

const attemptsBefore = (calls: readonly Call[], last: Call) =>
  calls.filter(({ detail, at }) => detail === last.detail && at <= last.end);
