import { ATTESTATION_LEVELS, type CampaignPolicy } from '../../../shared/domain/campaign-policy.js';
import type { ProductId } from '../../../shared/domain/ids.js';
import type { Log } from '../../../shared/observability/log.js';
import { type PolicyDefaults, strictestOf } from './uniform-policy.js';

export type PolicySource = {
  live(): Promise<CampaignPolicy[]>;
  of(product: ProductId): Promise<CampaignPolicy | null>;
};

/** A product that no campaign sells: the script says so, there is nothing to guard. */
const UNKNOWN: CampaignPolicy = {
  product: '',
  version: 0,
  risk: 'observe',
  timeZone: 'UTC',
  uniformRefusals: false,
  limits: {},
  audience: null,
};

/**
 * What the guards go by in each campaign, in the memory of this process, so that asking costs one look-up and works without
 * Postgres. Read whole at the start and every few seconds, and one at a time when news of a change comes.
 */
export class PolicyCache {
  #policies = new Map<string, CampaignPolicy>();
  #timer: NodeJS.Timeout | undefined;
  #ofNone = UNKNOWN;
  #ofUniform: CampaignPolicy;
  #uniform: readonly string[] = [];
  #enforcing: readonly string[] = [];
  /** Counts changes of single campaigns, and which one a campaign's last was, since all were read. */
  #changes = 0;
  readonly #changedAt = new Map<string, number>();

  constructor(
    readonly source: PolicySource,
    readonly everyMs: number,
    readonly log: Log,
    readonly defaults: PolicyDefaults,
  ) {
    this.#ofUniform = strictestOf([], defaults);
  }

  start(): void {
    this.refreshSoon();
    this.#timer = setInterval(() => this.refreshSoon(), this.everyMs);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  of(product: string): CampaignPolicy {
    return this.#policies.get(product) ?? UNKNOWN;
  }

  /**
   * For a code that nobody issued: as strict as the strictest campaign, where that keeps guesses of its codes away or would
   * tell apart, by a challenge, the codes of a campaign that tells nothing of them.
   */
  get ofNone(): CampaignPolicy {
    return this.#ofNone;
  }

  /**
   * For every code of a campaign with uniform refusals, and for made-up codes that look like one: the same limits, rules and
   * challenges for all of them, so that none of these says which codes exist. As strict as the strictest of these campaigns.
   */
  get ofUniform(): CampaignPolicy {
    return this.#ofUniform;
  }

  /** Products of campaigns with uniform refusals. */
  get uniform(): readonly string[] {
    return this.#uniform;
  }

  /** Products of campaigns whose rules decide. */
  get enforcing(): readonly string[] {
    return this.#enforcing;
  }

  /** Everything again; news may have been missed. */
  refreshSoon(): void {
    this.refreshAll().catch((error: unknown) =>
      this.log.warn({ reason: String(error) }, 'policies could not be read; those that are known stay in force'),
    );
  }

  async refreshAll(): Promise<void> {
    const begun = this.#changes;
    const live = await this.source.live();
    const policies = new Map(live.map((policy) => [policy.product, policy]));
    // What was read by itself meanwhile may be newer, or not have been there.
    for (const [product, known] of this.#policies) {
      const read = policies.get(product);
      if (read ? read.version < known.version : (this.#changedAt.get(product) ?? 0) > begun)
        policies.set(product, known);
    }
    this.#policies = policies;
    this.#changedAt.clear();
    this.#look();
  }

  /** Of one campaign, which was made or changed. */
  async refresh(product: ProductId): Promise<void> {
    const policy = await this.source.of(product);
    if (!policy || policy.version < this.of(product).version) return;
    this.#changes += 1;
    this.#changedAt.set(product, this.#changes);
    this.#policies.set(product, policy);
    this.#look();
  }

  #look(): void {
    const all = [...this.#policies.values()];
    this.#enforcing = all.filter(({ risk }) => risk === 'enforce').map(({ product }) => product);
    const uniform = all.filter(({ uniformRefusals }) => uniformRefusals);
    this.#uniform = uniform.map(({ product }) => product);
    this.#ofUniform = strictestOf(uniform, this.defaults);
    const levels = all.map(({ uniformRefusals, limits }) => (uniformRefusals ? (limits.attestationLevel ?? 0) : 0));
    const level = ATTESTATION_LEVELS.findLast((one) => levels.includes(one)) ?? 0;
    this.#ofNone = {
      ...UNKNOWN,
      risk: this.#enforcing.length > 0 ? 'enforce' : 'observe',
      limits: level === 0 ? {} : { attestationLevel: level },
    };
  }
}
