import { FIRST_BUCKET } from '../../shared/domain/buckets.js';
import type { IdempotencyKey, ProductId } from '../../shared/domain/ids.js';
import type { RegionName } from '../../shared/domain/regions.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { CampaignsTable } from '../../shared/postgres/campaigns.js';
import type { Database } from '../../shared/postgres/pool.js';
import type { RegionTransfer, RegionTransfers, TransferStatus } from '../../shared/postgres/region-transfers.js';
import type { CommitWatermark } from '../../shared/redis/commit-watermark.js';
import type { SalesOf } from '../../shared/sale/sales.js';
import type { RestockOutcome } from '../../shared/sale/scripts/campaign.js';
import type { Acknowledgements } from '../claim/acknowledgement.js';
import { requireOwn } from './forward.js';
import { EPOCH_HEADER, takeContract } from './region.contract.js';
import type { LinkResponse } from './region-link.js';
import type { Regions } from './regions.js';

export type TransfersDeps = {
  regions: Regions;
  database: Database;
  table: RegionTransfers;
  campaigns: CampaignsTable;
  sales: SalesOf;
  commitsOf: (product: ProductId) => CommitWatermark;
  acknowledgements: Acknowledgements;
  log: Log;
  limits: {
    operatorCommitWaitMs: number;
    promoteBatch: number;
    transferIdleMs: number;
    transferGiveUpMs: number;
    transfersAtOnce: number;
    /** How long the script recognizes a repeated change of stock. */
    idempotencyTtlMs: number;
  };
};

/** A step that changes the stock of this region: its name in the idempotency key, and its statuses. */
type Step = { name: string; sign: 1 | -1; from: TransferStatus; done: TransferStatus; refused: TransferStatus };
const GIVE: Step = { name: 'out', sign: -1, from: 'leaving', done: 'in_transit', refused: 'refused' };
const TAKE: Step = { name: 'in', sign: 1, from: 'arriving', done: 'arrived', refused: 'refused' };
const TAKE_BACK: Step = { name: 'back', sign: 1, from: 'returning', done: 'returned', refused: 'stuck' };

/** A change of stock is not tried again shortly before the script forgets it. */
const TTL_MARGIN_MS = 60_000;

/**
 * Moves free units of a product from this region to another one that sells it as well. The units leave the stock of the
 * giver, and only after that is committed they enter the stock of the taker. So the sum over all regions is never more
 * than the total. Each step is recorded and may be repeated; a process that dies leaves units in transit, and any other
 * one goes on.
 */
export class Transfers {
  constructor(readonly deps: TransfersDeps) {}

  /** @param id campaign id or product id @throws Problem 404 */
  async productOf(id: string): Promise<ProductId> {
    const campaign = await this.deps.campaigns.find(id);
    if (!campaign) throw new Problem('campaign_not_found', 'No campaign has this id or product id.');
    return campaign.productId;
  }

  /** Gives units to another region, as far as that is possible now. The rest is tried again until it is done. */
  async give(
    product: ProductId,
    { id, to, units }: { id: string; to: RegionName; units: number },
    actor: string,
  ): Promise<RegionTransfer> {
    requireOwn(this.deps.regions);
    await this.#giveUp();
    const begun = { id, product, direction: 'out', region: to, units, status: GIVE.from, actor } as const;
    const transfer = await this.#begin(begun);
    try {
      return await this.#goOn(transfer);
    } catch (error) {
      if (!(error instanceof EngineUnavailable)) throw error;
      return this.#begin(begun);
    }
  }

  /** Takes units that another region gives. @throws EngineUnavailable if that is not committed yet */
  async take(
    product: ProductId,
    { id, from, units }: { id: string; from: RegionName; units: number },
  ): Promise<RegionTransfer> {
    requireOwn(this.deps.regions);
    await this.#requireSeller(from, product, id);
    const actor = `region ${from}`;
    const transfer = await this.#begin({ id, product, direction: 'in', region: from, units, status: TAKE.from, actor });
    return this.#step(transfer, TAKE);
  }

  /**
   * Units come only from a region that sells the product together with this one. What was begun before goes on: a
   * refusal would return units that may have arrived.
   * @throws Problem 409
   */
  async #requireSeller(from: RegionName, product: ProductId, id: string): Promise<void> {
    const { regions } = this.deps;
    const { directory, own } = regions;
    if (!directory.hasOwn(product)) await regions.readAgain();
    const isSeller = from !== own && directory.sellersOf(product)?.includes(from);
    // A product without a campaign is refused by its step.
    if (isSeller || !directory.hasOwn(product) || (await this.deps.table.has(id))) return;
    throw new Problem('campaign_conflict', `This region does not sell the product together with ${from}.`);
  }

  /** Goes on with transfers that no process works on. */
  async resume(): Promise<void> {
    const { regions, table, limits, log } = this.deps;
    if (regions.refusal !== null) return;
    try {
      await this.#giveUp();
      for (const transfer of await table.open(limits.transferIdleMs, limits.transfersAtOnce)) {
        await this.#goOn(transfer).catch((error: unknown) => {
          // A process whose Redis is away leaves the transfer to one that can go on with it.
          if (!(error instanceof EngineUnavailable)) return table.note(transfer.id, String(error));
          return log.debug({ transfer: transfer.id, reason: error.message }, 'a transfer waits');
        });
      }
    } catch (error) {
      log.debug({ reason: String(error) }, 'transfers wait for Postgres');
    }
  }

  /** Before anything is sent: the other region may have forgotten that it took such units. */
  #giveUp(): Promise<void> {
    return this.deps.table.giveUp(this.deps.limits.transferGiveUpMs, UNKNOWN_THERE);
  }

  /** @throws Problem 409 if the id was used for another transfer */
  async #begin(begun: Parameters<RegionTransfers['begin']>[0]): Promise<RegionTransfer> {
    const found = await this.deps.table.begin(begun);
    const { product, direction, region, units } = begun;
    const isSame =
      found.product === product && found.direction === direction && found.region === region && found.units === units;
    if (!isSame) throw new Problem('campaign_conflict', 'This `transfer_id` was used for another transfer.');
    return found;
  }

  async #goOn(transfer: RegionTransfer): Promise<RegionTransfer> {
    switch (transfer.status) {
      case 'leaving': {
        const left = await this.#step(transfer, GIVE);
        return left.status === 'in_transit' ? this.#goOn(left) : left;
      }
      case 'in_transit': {
        const sent = await this.#send(transfer);
        return sent.status === 'returning' ? this.#goOn(sent) : sent;
      }
      case 'returning':
        return this.#step(transfer, TAKE_BACK);
      default:
        return transfer;
    }
  }

  /**
   * Changes the stock once, and waits for the commit. The lock excludes that one process records a refusal while
   * another one changes the stock.
   * @throws EngineUnavailable if it is not committed yet
   */
  async #step(transfer: RegionTransfer, step: Step): Promise<RegionTransfer> {
    const { database, table, commitsOf, acknowledgements, limits } = this.deps;
    const { id, product } = transfer;
    const key = `region-transfer-${step.name}.${id}`;
    const { after, journalId } = await database.transaction(async (client) => {
      const locked = await table.lock(id, client);
      if (locked.status !== step.from) return { after: locked, journalId: null };
      if (await table.isCommitted(product, key, client))
        return { after: await table.advance(id, step.from, step.done, null, client), journalId: null };
      if (locked.agedMs > limits.idempotencyTtlMs - TTL_MARGIN_MS)
        return { after: await table.advance(id, step.from, 'stuck', TOO_OLD, client), journalId: null };
      const outcome = await this.#restock(transfer, step, key);
      if (outcome.kind === 'restocked') return { after: locked, journalId: outcome.journalId };
      const reason = reasonOf(outcome);
      return { after: await table.advance(id, step.from, step.refused, reason, client), journalId: null };
    });
    if (journalId === null) return after;
    await commitsOf(product).committed(
      await acknowledgements.entryOf(product, journalId, FIRST_BUCKET),
      limits.operatorCommitWaitMs,
    );
    if (!(await table.isCommitted(product, key)) && !(await this.#isRepaired(transfer, step, key, journalId)))
      throw new EngineUnavailable('postgres', 'the change of stock is not committed yet');
    return table.advance(id, step.from, step.done, null);
  }

  /**
   * Whether Postgres has a change of stock without its audit entry, as after it was set back and repaired: its cursor
   * is beyond the journal entry, and Redis still knows the change, so it has lost nothing.
   */
  async #isRepaired(transfer: RegionTransfer, step: Step, key: string, journalId: string): Promise<boolean> {
    const again = await this.#restock(transfer, step, key);
    return again.kind === 'restocked' && again.journalId === journalId;
  }

  #restock({ product, units, actor }: RegionTransfer, step: Step, key: string): Promise<RestockOutcome> {
    const { campaigns } = this.deps.sales.of(product, FIRST_BUCKET);
    const { promoteBatch } = this.deps.limits;
    // A campaign that was closed meanwhile gets its units back as well, or they would be in no region for ever.
    const back = step === TAKE_BACK;
    const delta = step.sign * units;
    // What is recorded as refused must stay so, although a call that got no reply may reach Redis later.
    const options = { back, final: true };
    return campaigns.restock(product, delta, promoteBatch, key as IdempotencyKey, actor, key, options);
  }

  /** Asks the other region to take the units. It records a refusal, and never takes them afterwards. */
  async #send(transfer: RegionTransfer): Promise<RegionTransfer> {
    const { table, regions } = this.deps;
    const { id, product, region, units } = transfer;
    let response: LinkResponse;
    try {
      const link = regions.linkTo(region);
      if (!link) throw new Error('it cannot be reached');
      const { method, path } = takeContract;
      const headers = { ...regions.headersTo(region), 'content-type': 'application/json' };
      const body = JSON.stringify({ transfer_id: id, product_id: product, from: regions.own, units });
      response = await link.call({ method, path, headers, body });
    } catch (error) {
      return this.#waits(transfer, error instanceof Error ? error.message : String(error));
    }
    // What an old owner of the region has done is lost with it.
    if (Number(response.headers[EPOCH_HEADER] ?? 0) < regions.epochOf(region))
      return this.#waits(transfer, 'it has an old owner epoch');
    if (response.status === 200) return table.advance(id, 'in_transit', 'arrived', null);
    const { code, detail } = problemIn(response);
    if (code !== 'campaign_conflict') return this.#waits(transfer, `it replied with ${response.status}`);
    return table.advance(id, 'in_transit', 'returning', `${region} refused: ${detail}`);
  }

  async #waits(transfer: RegionTransfer, reason: string): Promise<RegionTransfer> {
    const detail = `${transfer.region}: ${reason}`;
    await this.deps.table.note(transfer.id, detail);
    return { ...transfer, detail };
  }
}

const UNKNOWN_THERE =
  'The other region has not replied for too long: compare the audit log and the stock of both regions, and correct them by hand.';
const TOO_OLD =
  'It is not known whether the stock was changed: compare the audit log and the stock of both regions, and correct them by hand.';

/** The problem document of a response; empty if it has none, as what a proxy replies with. */
function problemIn({ status, text }: LinkResponse): { code?: string; detail?: string } {
  try {
    return status === 409 ? (JSON.parse(text) as { code?: string; detail?: string }) : {};
  } catch {
    return {};
  }
}

function reasonOf(outcome: Exclude<RestockOutcome, { kind: 'restocked' }>): string {
  switch (outcome.kind) {
    case 'insufficient':
      return `Only ${outcome.free} units are free.`;
    case 'too_many':
      return `A campaign can have at most ${outcome.maxTotal} units.`;
    case 'unlimited':
      return 'The campaign has unlimited stock.';
    case 'closed':
      return 'The campaign is closed.';
    case 'not_found':
      return 'There is no campaign for this product.';
    case 'key_reused':
      return 'The idempotency key of the transfer was used for another change.';
  }
}
