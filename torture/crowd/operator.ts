import type { Random } from '../random.js';
import { Caller, type Stage } from './caller.js';
import { type CampaignKind, planCampaign, type RunCampaign } from './campaign-kinds.js';

/** An operator does something to some campaign about this often. */
const EVERY_MS = [400, 1_600] as const;
const JOB_EVERY_MS = 200;
const JOB_TRIES = 150;
const NEW_CAMPAIGN_UNITS_MINUTES = 0.3;
/** Kinds that are also created during a run; a small campaign of them is sold out and closed again. */
const CREATED_KINDS = ['line', 'instant', 'durable', 'groups'];

/** The people who run the sale: they create campaigns, restock, pause, resume, close and change terms. */
export class Operators {
  readonly #caller: Caller;
  /** Every campaign that was created, closed ones too. */
  readonly created: RunCampaign[] = [];
  #lastNumber = 0;
  #changes = 0;

  constructor(
    readonly stage: Stage,
    readonly random: Random,
    readonly campaigns: RunCampaign[],
    readonly kinds: readonly CampaignKind[],
  ) {
    this.#caller = new Caller(stage, random);
  }

  /** One campaign of each kind. */
  async openAll(minutes: number): Promise<void> {
    for (const kind of this.kinds) {
      this.#lastNumber += 1;
      await this.#create(planCampaign(kind, this.#lastNumber, minutes, this.random));
    }
  }

  /** Goes on until `signal` is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && (await this.#caller.pause(this.random.int(...EVERY_MS)))) await this.#act();
  }

  /** Stops what changes by itself, so that both sides can be compared: paused campaigns do not promote. */
  async pauseAll(): Promise<void> {
    await Promise.all(this.campaigns.map((campaign) => this.#action(campaign, 'pause')));
  }

  async #act(): Promise<void> {
    const campaign = this.random.pick(this.campaigns);
    await this.random.weighted<() => Promise<unknown>>([
      [() => this.#restock(campaign), 40],
      [() => this.#pauseForAWhile(campaign), 12],
      [() => this.#rename(campaign), 14],
      [() => this.#changeHold(campaign), 8],
      [() => this.#stats(campaign), 14],
      [() => this.#createAnother(), 8],
      [() => this.#closeOne(), 4],
    ])();
  }

  async #create(campaign: RunCampaign): Promise<void> {
    const { product, terms } = campaign;
    const path = '/admin/campaigns';
    const created = await this.#caller.insist({
      kind: 'create',
      method: 'POST',
      path,
      product,
      as: 'admin',
      json: terms,
    });
    // 409: an earlier attempt created it, and its response was lost.
    if (created?.status !== 201 && created?.status !== 409) return;
    if (terms.type === 'unique' || terms.type === 'pool') await this.#issueCodes(campaign);
    this.created.push(campaign);
    this.campaigns.push(campaign);
  }

  async #issueCodes({ product, owners, total }: RunCampaign): Promise<void> {
    const path = `/admin/campaigns/${product}/codes`;
    const about = { kind: 'codes' as const, method: 'POST', path, product, as: 'admin' as const };
    const lines = owners.map(({ user, code }) => `${code},${user}`).join('\n');
    const codes = owners.length === 0 ? { json: { count: 2 * Number(total) } } : { csv: lines };
    const job = await this.#caller.insist({ ...about, ...codes });
    if (job?.status === 202) await this.#jobIsDone(product, `${path}/jobs/${job.data.id}`);
  }

  async #jobIsDone(product: string, path: string): Promise<void> {
    const about = { kind: 'codes', method: 'GET', path, product, as: 'admin' } as const;
    for (let tries = 1; tries <= JOB_TRIES && (await this.#caller.pause(JOB_EVERY_MS)); tries += 1) {
      const { data } = await this.#caller.once(about);
      if (data.status === 'done') return;
    }
  }

  async #createAnother(): Promise<void> {
    this.#lastNumber += 1;
    const kind = this.kinds.find(({ name }) => name === this.random.pick(CREATED_KINDS));
    if (kind) await this.#create(planCampaign(kind, this.#lastNumber, NEW_CAMPAIGN_UNITS_MINUTES, this.random));
  }

  async #restock({ product, total }: RunCampaign): Promise<void> {
    if (total === null) return;
    const delta = this.random.chance(0.85) ? this.random.int(1, 6) : -this.random.int(1, 2);
    const key = `stock-${this.random.text(20)}`;
    await this.#caller.insist({
      kind: 'stock',
      method: 'POST',
      path: `/admin/campaigns/${product}/stock`,
      product,
      as: 'admin',
      key,
      keyIn: 'header',
      headers: { 'idempotency-key': key },
      json: { delta },
    });
  }

  async #pauseForAWhile(campaign: RunCampaign): Promise<void> {
    await this.#action(campaign, 'pause');
    await this.#caller.pause(this.random.int(100, 1_500));
    await this.#action(campaign, 'resume');
  }

  /** Closes a campaign that was created during the run. */
  async #closeOne(): Promise<void> {
    const late = this.campaigns.slice(this.kinds.length);
    const campaign = late[0];
    if (!campaign) return;
    this.campaigns.splice(this.campaigns.indexOf(campaign), 1);
    await this.#action(campaign, 'close');
  }

  #action({ product }: RunCampaign, action: 'pause' | 'resume' | 'close') {
    const path = `/admin/campaigns/${product}/${action}`;
    return this.#caller.insist({ kind: 'action', method: 'POST', path, product, as: 'admin', detail: action });
  }

  #rename(campaign: RunCampaign) {
    this.#changes += 1;
    return this.#patch(campaign, { name: `${campaign.product} v${this.#changes}` });
  }

  #changeHold(campaign: RunCampaign) {
    const hold = Number(campaign.kind.terms.hold_seconds ?? 0);
    return hold === 0 ? this.#rename(campaign) : this.#patch(campaign, { hold_seconds: this.random.int(2, 4) });
  }

  #patch({ product }: RunCampaign, json: object) {
    const path = `/admin/campaigns/${product}`;
    return this.#caller.insist({ kind: 'patch', method: 'PATCH', path, product, as: 'admin', json });
  }

  #stats({ product }: RunCampaign) {
    return this.#caller.once({
      kind: 'stats',
      method: 'GET',
      path: `/admin/campaigns/${product}/stats`,
      product,
      as: 'admin',
    });
  }
}
