import { LRUCache } from 'lru-cache';
import {
  type CampaignPolicy,
  DEFAULT_ACCOUNTS_PER_ADDRESS,
  DEFAULT_ACCOUNTS_PER_DEVICE,
  type RiskMode,
} from '../../../shared/domain/campaign-policy.js';
import type { DeviceId, UserId } from '../../../shared/domain/ids.js';
import type { Log } from '../../../shared/observability/log.js';
import type { GenuineToken } from '../attestation/attestation.js';
import { LocalQuota } from '../limits/local-quota.js';
import type { AccountCounts } from './account-counts.js';
import { type Bans, blocked } from './bans.js';
import { DistinctAccounts } from './distinct-accounts.js';
import { isVerified, type Person } from './requirements.js';
import { DEVICE_FARM_ACCOUNTS, type Finding, judge, type RuleName, type Signals } from './risk-rules.js';

/** The user, device and network of an attempt. */
export type RiskSubject = {
  user: UserId;
  /**
   * The named device; null = none. A derived device is never used, because users with the same phone model share it.
   */
  device: DeviceId | null;
  network: string;
  /** The device token if it is genuine; null = none. Without one, anyone can name any device. */
  token: GenuineToken | null;
  /** Creation time of the account as sent, not validated. */
  accountCreatedAt: unknown;
  /** Whether the request proves its user, and what the shop has signed of the person. */
  identity: { proven: boolean } & Person;
};

/**
 * What the rules require of a request. `isHard`: whether a proof of work is as hard as in the worst attack. `byPerson`:
 * whether a person should do it, if there is a provider of such challenges.
 */
export type Work = { isHard: boolean; byPerson: boolean };

/** Rules about the calls of one network per minute (`RiskGate`). */
export type AddressRule = 'checkout_per_address' | 'redeem_per_address';

export type RiskDeps = {
  counts: AccountCounts;
  bans: Bans;
  nowMs: () => number;
  log: Log;
  onVerdict: (rule: RuleName | 'device_farm' | 'allow_list' | AddressRule, verdict: string, mode: RiskMode) => void;
  limits: { accountsMemoryMs: number; accountsObserved: number; deviceBanMs: number };
};

const OBSERVED_PER_ADDRESS = 200;
const LINES_PER_SECOND = 10;
const QUARTER_HOUR_MS = 900_000;

/** Runs the rules. `observe` costs a few look-ups in this process; `enforce` costs one round trip to Redis. */
export class Risk {
  readonly #devices: DistinctAccounts;
  readonly #networks: DistinctAccounts;
  /** Users who got a unit or a place, by device; and the devices with many of them. */
  readonly #served: DistinctAccounts;
  readonly #farms: LRUCache<DeviceId, true>;
  readonly #lines = new LocalQuota(LINES_PER_SECOND, 1_000, 100);
  readonly #hours = new Map<string, { hour: number; quarter: number }>();

  constructor(readonly deps: RiskDeps) {
    const { accountsObserved, accountsMemoryMs } = deps.limits;
    this.#devices = new DistinctAccounts(accountsObserved, accountsMemoryMs);
    this.#networks = new DistinctAccounts(accountsObserved, accountsMemoryMs);
    this.#served = new DistinctAccounts(accountsObserved, accountsMemoryMs);
    this.#farms = new LRUCache({ max: accountsObserved, ttl: accountsMemoryMs });
  }

  /**
   * Counts a user who got a unit or a place on a device. Attempts do not count, because anyone can send any user id.
   */
  promised(device: DeviceId, user: UserId): void {
    if (this.#served.see(device, user, DEVICE_FARM_ACCOUNTS) >= DEVICE_FARM_ACCOUNTS) this.#farms.set(device, true);
  }

  /**
   * Records what the rules would decide, based on the requests of this process.
   * @returns reason of a challenge that is required even so; null = none is required
   */
  observe(policy: CampaignPolicy, subject: RiskSubject): string | null {
    const { user, device, network, accountCreatedAt } = subject;
    const perDevice = policy.limits.accountsPerDevice ?? DEFAULT_ACCOUNTS_PER_DEVICE;
    const perAddress = policy.limits.accountsPerAddress ?? DEFAULT_ACCOUNTS_PER_ADDRESS;
    const signals: Signals = {
      accountsOnDevice: device === null ? null : this.#devices.see(device, user, perDevice),
      accountsInNetwork: this.#networks.see(network, user, Math.min(perAddress + 1, OBSERVED_PER_ADDRESS)),
      accountAgeHours: this.#ageHours(accountCreatedAt),
      hour: this.#hourIn(policy.timeZone),
    };
    for (const finding of judge(signals, policy.limits)) this.#report(policy, finding);
    const isFarm = device !== null && policy.limits.accountsPerDevice !== null && this.#farms.has(device);
    if (!isFarm || this.deps.bans.isAllowed(subject)) return null;
    this.deps.onVerdict('device_farm', 'challenge', 'observe');
    return 'Many users have claimed units on this device.';
  }

  /**
   * Applies the rules. With `strict` a blocked device is blocked in this campaign alone.
   * @returns null = nothing is required
   * @throws Problem 403 if a rule blocks · EngineUnavailable
   */
  async enforce(policy: CampaignPolicy, subject: RiskSubject): Promise<Work | null> {
    const { bans, limits, nowMs } = this.deps;
    if (bans.isAllowed(subject)) {
      this.deps.onVerdict('allow_list', 'allow', policy.risk);
      return null;
    }
    const isStrict = policy.risk === 'strict';
    const findings = await this.#findings(policy, subject);
    const [worst] = findings;
    if (!worst) return null;
    this.#report(policy, worst);
    if (worst.verdict === 'challenge')
      return {
        isHard: isStrict && findings.some(({ strictly }) => strictly === 'hard work'),
        byPerson: isStrict && findings.some(({ strictly }) => strictly === 'person'),
      };
    const { device } = subject;
    if (device !== null && !isStrict)
      await bans.byRule('device', device, limits.deviceBanMs, worst.reason, worst.rule).catch(() => null);
    // In a strict campaign the users of a device are forgotten a day after the last attempt.
    throw blocked('device', nowMs() + (isStrict ? limits.accountsMemoryMs : limits.deviceBanMs), nowMs());
  }

  async #findings(policy: CampaignPolicy, subject: RiskSubject): Promise<Finding[]> {
    const { user, device, network, token, accountCreatedAt, identity } = subject;
    const { accountsPerDevice, accountsPerAddress } = policy.limits;
    const { counts } = this.deps;
    // What a strict campaign counts on a device has no effect elsewhere, nor the other way round.
    const isStrict = policy.risk === 'strict';
    // An address says nothing about a user who proves who they are.
    const countsNetwork = accountsPerAddress !== null && !(isStrict && identity.proven);
    const [accountsOnDevice, accountsInNetwork] = await Promise.all([
      device === null || token === null || accountsPerDevice === null
        ? null
        : counts.onDevice(isStrict ? `${policy.product}|${device}` : device, user, network),
      countsNetwork ? counts.inNetwork(network, user) : null,
    ]);
    // A person whom the shop has verified may be new.
    const accountAgeHours = isVerified(identity) ? null : this.#ageHours(accountCreatedAt);
    return judge(
      { accountsOnDevice, accountsInNetwork, accountAgeHours, hour: this.#hourIn(policy.timeZone) },
      policy.limits,
    );
  }

  #report(policy: CampaignPolicy, { rule, verdict, reason }: Finding): void {
    this.deps.onVerdict(rule, verdict, policy.risk);
    // The metric counts every finding; the log contains at most `LINES_PER_SECOND` examples per rule.
    if (this.#lines.take(rule) > 0) return;
    this.deps.log.info({ campaign: policy.product, rule, verdict, mode: policy.risk, reason }, 'risk rule applied');
  }

  #ageHours(createdAt: unknown): number | null {
    if (typeof createdAt !== 'string') return null;
    const ms = Date.parse(createdAt);
    return Number.isNaN(ms) ? null : Math.max(0, (this.deps.nowMs() - ms) / 3_600_000);
  }

  /** Returns the hour in a time zone. It is cached per quarter of an hour, because time zones only change at these. */
  #hourIn(timeZone: string): number {
    const now = this.deps.nowMs();
    const quarter = Math.floor(now / QUARTER_HOUR_MS);
    const known = this.#hours.get(timeZone);
    if (known?.quarter === quarter) return known.hour;
    const hour = Number(new Intl.DateTimeFormat('en', { timeZone, hour: 'numeric', hourCycle: 'h23' }).format(now));
    if (this.#hours.size > 1_000) this.#hours.clear();
    this.#hours.set(timeZone, { hour, quarter });
    return hour;
  }
}
