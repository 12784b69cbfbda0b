import { ATTESTATION_LEVELS, type CampaignPolicy, enforces } from '../../../shared/domain/campaign-policy.js';
import { hasPlaceholder } from '../../../shared/domain/checkout-url.js';
import type { ProductId } from '../../../shared/domain/ids.js';
import type { Log } from '../../../shared/observability/log.js';
import { runEvery } from '../../../shared/observability/shared-interval.js';
import { type PolicyDefaults, strictestOf } from './uniform-policy.js';

export type PolicySource = {
  live(): Promise<CampaignPolicy[]>;
  of(product: ProductId): Promise<CampaignPolicy | null>;
};

/** Policy of an unknown product. There is nothing to guard; the script rejects the request. */
const UNKNOWN: CampaignPolicy = {
  product: '',
  version: 0,
  risk: 'observe',
  timeZone: 'UTC',
  uniformRefusals: false,
  limits: {},
  audience: null,
  checkoutUrl: null,
  extendSeconds: 0,
  closed: false,
};

/**
 * Caches the policy of each campaign in this process, so that reading one costs a map look-up and works without
 * Postgres. Reads all policies at the start and every few seconds, and a single one when a notification of a change
 * arrives.
 */
export class PolicyCache {
  #policies = new Map<string, CampaignPolicy>();
  #end = () => {};
  #ofNone = UNKNOWN;
  #ofUniform: CampaignPolicy;
  #uniform: readonly string[] = [];
  #enforcing: readonly string[] = [];
  #signed: readonly string[] = [];
  /** Number of single changes, and the number of each campaign's latest change since the last full read. */
  #changes = 0;
  /** Of the last full read. */
  #generation = '';
  readonly #changedAt = new Map<string, number>();

  constructor(
    readonly source: PolicySource,
    readonly everyMs: number,
    readonly log: Log,
    readonly defaults: PolicyDefaults,
    /** Names the current histories of all shards: after a set-back of the engines, versions are given again. */
    readonly generation: () => string,
  ) {
    this.#ofUniform = strictestOf([], defaults);
  }

  start(): void {
    this.refreshSoon();
    this.#end = runEvery(this.everyMs, () => this.refreshSoon());
  }

  stop(): void {
    this.#end();
  }

  of(product: string): CampaignPolicy {
    return this.#policies.get(product) ?? UNKNOWN;
  }

  /**
   * Policy for a code that was never issued. It is as strict as the strictest campaign in what deters guesses, and in
   * what would otherwise reveal, by a challenge, which codes of a campaign with uniform refusals exist.
   */
  get ofNone(): CampaignPolicy {
    return this.#ofNone;
  }

  /**
   * Policy for every code of a campaign with uniform refusals, and for invented codes that look like one. All of them
   * get the same limits, rules and challenges, which therefore do not reveal which codes exist. It is as strict as the
   * strictest of these campaigns.
   */
  get ofUniform(): CampaignPolicy {
    return this.#ofUniform;
  }

  /** Products of campaigns with uniform refusals. */
  get uniform(): readonly string[] {
    return this.#uniform;
  }

  /** Products of campaigns that enforce their rules. */
  get enforcing(): readonly string[] {
    return this.#enforcing;
  }

  /** Products of campaigns whose links to pay are signed. */
  get signed(): readonly string[] {
    return this.#signed;
  }

  /** Starts a full read, because a notification may have been missed. */
  refreshSoon(): void {
    this.refreshAll().catch((error: unknown) =>
      this.log.warn({ reason: String(error) }, 'policies could not be read, the cached ones stay in force'),
    );
  }

  async refreshAll(): Promise<void> {
    const begun = this.#changes;
    const generation = this.generation();
    const live = await this.source.live();
    const policies = new Map(live.map((policy) => [policy.product, policy]));
    // A policy that was read singly in the meantime may be newer, or missing from the full read.
    for (const [product, known] of generation === this.#generation ? this.#policies : []) {
      const read = policies.get(product);
      if (read ? read.version < known.version : (this.#changedAt.get(product) ?? 0) > begun)
        policies.set(product, known);
    }
    this.#policies = policies;
    this.#generation = generation;
    this.#changedAt.clear();
    this.#derive();
  }

  /** Reads the policy of one campaign, which was created or changed. */
  async refresh(product: ProductId): Promise<void> {
    const policy = await this.source.of(product);
    if (!policy || policy.version < this.of(product).version) return;
    this.#changes += 1;
    this.#changedAt.set(product, this.#changes);
    this.#policies.set(product, policy);
    this.#derive();
  }

  #derive(): void {
    const all = [...this.#policies.values()].filter(({ closed }) => !closed);
    this.#enforcing = all.filter(({ risk }) => enforces(risk)).map(({ product }) => product);
    this.#signed = all
      .filter(({ checkoutUrl }) => checkoutUrl !== null && hasPlaceholder(checkoutUrl, 'signature'))
      .map(({ product }) => product);
    const uniform = all.filter(({ uniformRefusals }) => uniformRefusals);
    this.#uniform = uniform.map(({ product }) => product);
    this.#ofUniform = strictestOf(uniform, this.defaults);
    const levels = all.map(({ uniformRefusals, limits }) => (uniformRefusals ? (limits.attestationLevel ?? 0) : 0));
    const level = ATTESTATION_LEVELS.findLast((one) => levels.includes(one)) ?? 0;
    this.#ofNone = {
      ...UNKNOWN,
      // Not strict: a block for made-up codes would be one for all campaigns.
      risk: this.#enforcing.length > 0 ? 'enforce' : 'observe',
      limits: level === 0 ? {} : { attestationLevel: level },
    };
  }
}
