import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from '../cluster/cluster.js';
import type { History } from '../history.js';
import type { CampaignFacts } from '../judge/facts.js';
import type { Random } from '../random.js';
import { Caller, type Stage } from './caller.js';
import { campaignKinds, type RunCampaign } from './campaign-kinds.js';
import { HttpClient } from './http-client.js';
import { Operators } from './operator.js';
import { Shopper, type ShopperPlan } from './shopper.js';

/** People who are under way at once; those who do not fit do not come. */
const MAX_UNDER_WAY = 250;
const TICK_MS = 20;
/** Pausing every campaign takes moments, unless the service is down. */
const PAUSE_LIMIT_MS = 20_000;

/** `buckets`: of the divided campaigns; 1 = there are none. */
export type CrowdOptions = { perSecond: number; minutes: number; buckets: number };

/** Everyone who calls the API during a run. */
export class Crowd {
  readonly campaigns: RunCampaign[] = [];
  readonly http: HttpClient;
  readonly operators: Operators;
  readonly #stage: Stage;
  readonly #end = new AbortController();
  readonly #closing = new AbortController();
  readonly #underWay = new Set<Promise<void>>();
  readonly #owners = new Map<string, number>();
  #arrivals: Promise<void> | null = null;
  #arrived = 0;

  constructor(
    cluster: Cluster,
    history: History,
    readonly random: Random,
    readonly options: CrowdOptions,
  ) {
    this.http = new HttpClient(cluster, history);
    // Each client that waits listens for the end.
    setMaxListeners(0, this.#end.signal, this.#closing.signal);
    this.#stage = {
      http: this.http,
      apis: cluster.apis.map(({ name }) => name),
      closing: this.#closing.signal,
      end: this.#end.signal,
    };
    this.operators = new Operators(
      this.#stage,
      random.fork('operators'),
      this.campaigns,
      campaignKinds(options.buckets),
    );
  }

  /** Opens the campaigns; no shopper has arrived yet. */
  prepare(): Promise<void> {
    return this.operators.openAll(this.options.minutes);
  }

  start(): void {
    this.#arrivals = Promise.all([this.#arrive(), this.operators.run(this.#closing.signal)]).then(() => {});
  }

  /** No more shoppers arrive. Those who are under way have `limitMs` to get their final responses. */
  async finish(limitMs: number): Promise<void> {
    this.#closing.abort();
    const all = Promise.all([this.#arrivals, ...this.#underWay]);
    await Promise.race([all, sleep(limitMs)]);
    const stuck = setTimeout(() => this.#end.abort(), PAUSE_LIMIT_MS);
    await this.operators.pauseAll();
    clearTimeout(stuck);
    this.#end.abort();
    await all;
  }

  close(): void {
    this.#closing.abort();
    this.#end.abort();
    this.http.close();
  }

  get arrived(): number {
    return this.#arrived;
  }

  get underWay(): number {
    return this.#underWay.size;
  }

  /** Every campaign that was created, for the judge. */
  facts(): CampaignFacts[] {
    return this.operators.created.map(({ product, total }) => ({ product, total, isCreated: true }));
  }

  /** A client for the checks before and after the run, which gives up after a limit. */
  caller(limitMs: number): Caller {
    const stage = { ...this.#stage, end: AbortSignal.timeout(limitMs) };
    setMaxListeners(0, stage.end);
    return new Caller(stage, this.random.fork('final'));
  }

  async #arrive(): Promise<void> {
    const began = performance.now();
    const random = this.random.fork('arrivals');
    while (!this.#closing.signal.aborted) {
      const due = ((performance.now() - began) / 1_000) * this.options.perSecond;
      for (; this.#arrived < due; this.#arrived += 1) this.#admit(this.#plan(random));
      await sleep(TICK_MS);
    }
  }

  #admit(plan: ShopperPlan | null): void {
    if (!plan || this.#underWay.size >= MAX_UNDER_WAY) return;
    const one: Promise<void> = new Shopper(this.#stage, plan).run().finally(() => this.#underWay.delete(one));
    this.#underWay.add(one);
  }

  #plan(random: Random): ShopperPlan | null {
    const campaign = random.weighted(this.campaigns.map((one) => [one, one.kind.weight] as const));
    const own = random.fork(`shopper-${this.#arrived}`);
    if (campaign.kind.entrance !== 'unique-codes')
      return { campaign, user: `u${this.#arrived}-${own.text(4)}`, code: null, random: own };
    const next = this.#owners.get(campaign.product) ?? 0;
    this.#owners.set(campaign.product, next + 1);
    const owner = campaign.owners[next];
    return owner ? { campaign, user: owner.user, code: owner.code, random: own } : null;
  }
}
