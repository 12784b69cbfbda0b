import { mkdtempSync, openSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RegionsConfig } from '../../shared/config/regions.js';
import { campaignOfNumber } from '../../shared/domain/buckets.js';
import { campaignNoOf } from '../../shared/domain/ids.js';
import type { RegionName } from '../../shared/domain/regions.js';
import type { Database, Queryable } from '../../shared/postgres/pool.js';
import type { AcknowledgedState, RegionOperation } from '../../shared/postgres/region-acknowledgements.js';
import type { Terminal } from '../command.js';
import { callRegion } from '../command-regions.js';
import { isReached, type Known } from './reached.js';

const MAX_SHOWN = 100;
const PROGRESS_EVERY = 100_000;

/** A decision as another region shows it (`readRegionAcknowledgements`). */
type Acknowledgement = {
  at: string;
  id: string;
  operation: RegionOperation;
  reservation_id: string;
  product_id: string | null;
  status: AcknowledgedState;
  qty: number | null;
  payment_ref: string | null;
  request_id: string;
};
type Page = {
  since: string;
  unrecorded: number;
  acknowledgements: Acknowledgement[];
  next: { at: string; id: string } | null;
};
type Missing = Omit<Acknowledgement, 'id'> & { region: RegionName; in_database: string | null };
type Print = Pick<Terminal, 'print' | 'warn'>;

/** What is missing: the first lines are printed, and all are in a file if there are more. */
class MissingList {
  count = 0;
  /** null = none was needed. */
  path: string | null = null;
  readonly #shown: string[] = [];
  #file: number | null = null;

  constructor(
    readonly lost: RegionName,
    readonly terminal: Print,
  ) {}

  add(missing: Missing): void {
    const json = `${JSON.stringify(missing)}\n`;
    this.count += 1;
    if (this.count === MAX_SHOWN + 1) this.#open();
    if (this.#file !== null) writeSync(this.#file, json);
    // Without a file all of them are printed.
    if (this.#file === null) this.terminal.print(lineOf(missing));
    if (this.count <= MAX_SHOWN) this.#shown.push(json);
  }

  #open(): void {
    try {
      this.path = join(mkdtempSync(join(tmpdir(), 'doorbuster-lost-')), `${this.lost}.jsonl`);
      this.#file = openSync(this.path, 'wx', 0o600);
      writeSync(this.#file, this.#shown.join(''));
    } catch (error) {
      this.path = null;
      this.terminal.warn(`No file can be written, so all are printed: ${String(error)}`);
    }
  }
}

const lineOf = ({ operation, product_id, reservation_id, status, qty, payment_ref, ...rest }: Missing): string =>
  `missing: ${operation} of ${product_id ?? 'an unknown product'}, reservation ${reservation_id}, ${status}` +
  `${qty === null ? '' : ` with ${qty} units`}${payment_ref === null ? '' : ` by payment ${payment_ref}`}; ` +
  `returned by ${rest.region} at ${rest.at}, request ${rest.request_id}; ` +
  `the database has ${rest.in_database ?? 'nothing'}`;

/**
 * Asks the other regions which decisions of this one they returned, and prints those that this database lacks or has in
 * an earlier state. It compares all that they have recorded: the database may lack decisions from long before its end,
 * because its journal was behind, and the clocks of the regions differ.
 * @param epochsBelow only decisions under earlier owner epochs
 * @param ended when the restored database ends; 1970 = it has no promise
 */
export async function listLost(
  config: RegionsConfig,
  database: Database,
  terminal: Print,
  { epochsBelow, ended }: { epochsBelow: number; ended: Date },
): Promise<void> {
  const { own, peers } = config;
  const list = new MissingList(own, terminal);
  const notAsked: RegionName[] = [];
  for (const { name } of peers) {
    try {
      await compareWith(name, { config, database, terminal, list, epochsBelow, ended });
    } catch (error) {
      terminal.print(`not compared: ${name}, ${error instanceof Error ? error.message : String(error)}`);
      notAsked.push(name);
    }
  }
  terminal.print(`${list.count} acknowledged decisions that other regions returned are missing.`);
  if (list.path !== null) terminal.print(`The first ${MAX_SHOWN} are above, all are in ${list.path}.`);
  const others = notAsked.length === 0 ? '' : `, and what ${notAsked.join(' and ')} returned`;
  terminal.print(`This cannot list what the lost ${own} returned to its own clients directly${others}.`);
}

type Comparison = {
  config: RegionsConfig;
  database: Database;
  terminal: Print;
  list: MissingList;
  epochsBelow: number;
  ended: Date;
};

/** @throws Error when the region does not reply, also in the middle of its list; EngineUnavailable */
async function compareWith(name: RegionName, comparison: Comparison): Promise<void> {
  const { config, database, terminal, list, epochsBelow, ended } = comparison;
  const seen = new Set<string>();
  let [compared, unrecorded] = [0, 0];
  let page: Page | null = null;
  do {
    const request = { region: config.own, epochs_below: epochsBelow, after: page?.next ?? null };
    const reply: Page = await callRegion(config, name, 'acknowledgements', request);
    if (page === null && Date.parse(reply.since) > ended.getTime())
      terminal.print(`${name} has recorded what it returned since ${reply.since}, not before.`);
    page = reply;
    unrecorded += page.unrecorded;
    const before = compared;
    compared += page.acknowledgements.length;
    if (Math.floor(before / PROGRESS_EVERY) < Math.floor(compared / PROGRESS_EVERY))
      terminal.print(`compared ${compared} decisions of ${name}, up to ${page.acknowledgements.at(-1)?.at}`);
    const known = await knownOf(database, page.acknowledgements);
    page.acknowledgements.forEach(({ id, ...one }, i) => {
      const found = known[i] as Found;
      const key = `${one.operation} ${one.reservation_id} ${one.status} ${one.qty} ${one.payment_ref}`;
      if (isReached(one, found) || seen.has(key)) return;
      // A replay is recorded as well.
      seen.add(key);
      list.add({
        ...{ ...one, product_id: one.product_id ?? found.product, region: name },
        in_database: found.status ?? found.place,
      });
    });
  } while (page.next !== null);
  if (unrecorded > 0)
    terminal.print(`${unrecorded} decisions that ${name} returned could not be recorded: they may be missing as well.`);
}

type Found = Known & { product: string | null };

/** What the database has of each of these reservations, in their order. */
async function knownOf(database: Queryable, decisions: readonly Acknowledgement[]): Promise<Found[]> {
  const ids = decisions.map(({ reservation_id }) => reservation_id);
  const numbers = ids.map((id) => campaignOfNumber(campaignNoOf(id)));
  const { rows } = await database.query<Omit<Found, 'place'>>(
    `select c.product_id as product, r.status, r.qty, r.extended,
       array_remove(array[r.payment_ref], null)
         || array(select d.payment_ref from duplicate_payments d where d.reservation_id = n.id) as payments
     from unnest($1::uuid[], $2::integer[]) with ordinality as n(id, no, i)
     left join campaigns c on c.no = n.no
     left join redemptions r on r.campaign_id = c.campaign_id and r.redemption_id = n.id order by n.i`,
    [ids, numbers],
  );
  const inLine = decisions.filter(({ status }) => status === 'queued' || status === 'left');
  const { rows: places } = await database.query<{ id: string; status: Known['place'] }>(
    `select reservation_id as id, status from waiting_tickets
     where campaign_id = any(array(select campaign_id from campaigns where no = any($2::integer[])))
       and reservation_id = any($1::uuid[])`,
    [inLine.map(({ reservation_id }) => reservation_id), numbers],
  );
  const placeOf = new Map(places.map(({ id, status }) => [id, status]));
  return rows.map((row, i) => ({ ...row, place: placeOf.get(ids[i] as string) ?? null }));
}
