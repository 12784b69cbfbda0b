import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { ProductId } from '../../shared/domain/ids.js';
import type { Log } from '../../shared/observability/log.js';

export type PolicySource = {
  live(): Promise<CampaignPolicy[]>;
  of(product: ProductId): Promise<CampaignPolicy | null>;
};

/** A product that no campaign sells: the script says so, there is nothing to guard. */
const UNKNOWN: CampaignPolicy = { product: '', risk: 'observe', timeZone: 'UTC', uniformRefusals: false, limits: {} };

/**
 * What the guards go by in each campaign, in the memory of this process, so that asking costs one look-up and works without
 * Postgres. Read whole at the start and every few seconds, and one at a time when news of a change comes.
 */
export class PolicyBook {
  #policies = new Map<string, CampaignPolicy>();
  #timer: NodeJS.Timeout | undefined;
  #ofNone = UNKNOWN;

  constructor(
    readonly source: PolicySource,
    readonly everyMs: number,
    readonly log: Log,
  ) {}

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

  /** Everything again; news may have been missed. */
  refreshSoon(): void {
    this.refreshAll().catch((error: unknown) =>
      this.log.warn({ reason: String(error) }, 'policies could not be read; those that are known stay in force'),
    );
  }

  async refreshAll(): Promise<void> {
    const policies = await this.source.live();
    this.#policies = new Map(policies.map((policy) => [policy.product, policy]));
    this.#look();
  }

  /** Of one campaign, which was made or changed. */
  async refresh(product: ProductId): Promise<void> {
    const policy = await this.source.of(product);
    if (policy) this.#policies.set(product, policy);
    this.#look();
  }

  #look(): void {
    const all = [...this.#policies.values()];
    const level = all.find((policy) => policy.uniformRefusals && policy.limits.attestationLevel)?.limits
      .attestationLevel;
    this.#ofNone = {
      ...UNKNOWN,
      risk: all.some(({ risk }) => risk === 'enforce') ? 'enforce' : 'observe',
      limits: level === undefined ? {} : { attestationLevel: level },
    };
  }
}
