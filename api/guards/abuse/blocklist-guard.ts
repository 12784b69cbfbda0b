import type { Request, Response } from 'express';
import type { Ban } from '../../../shared/domain/ban.js';
import { type FastReject, type FastRejects, fastReject } from '../../http/fast-reject.js';
import { networkOf } from '../caller/address.js';
import type { LocalQuota } from '../limits/local-quota.js';
import { policyField, type Quota, rateLimited } from '../limits/quotas.js';
import { type Bans, blocked, type Caller } from './bans.js';

/** Rejects banned callers and floods in as few steps as possible, because this is the server's cost of an attack. */
export class BlocklistGuard {
  /** One refusal per ban, created when the ban first applies. */
  readonly #refusals = new WeakMap<Ban, FastReject>();
  readonly #floods = new WeakMap<Quota, FastReject>();

  constructor(
    readonly bans: Bans,
    readonly rejects: FastRejects,
    readonly nowMs: () => number,
  ) {}

  /** Rejects a request from a banned network, before its body is read. @returns whether it was rejected with 403 */
  refusesNetwork(req: Request, res: Response): boolean {
    return this.bans.size > 0 && this.refuses(req, res, { network: networkOf(req) });
  }

  /**
   * Rejects a request of a caller whom this process has seen over a quota.
   * @param callerOf called only if there are such callers
   * @returns whether it was rejected with 429
   */
  refusesFlood(req: Request, res: Response, quota: Quota, callerOf: (req: Request) => string = networkOf): boolean {
    const waitMs = quota.hasRefused ? quota.waitOf(callerOf(req)) : 0;
    if (waitMs === 0) return false;
    const seconds = Math.max(1, Math.ceil(waitMs / 1000));
    let flood = this.#floods.get(quota);
    if (!flood) {
      flood = fastReject(rateLimited(quota.name, quota.limit, quota.windowSeconds, waitMs));
      this.#floods.set(quota, flood);
    }
    const policy = policyField(quota.name, quota.limit, quota.windowSeconds);
    const fields = ['RateLimit-Policy', policy, 'RateLimit', `"${quota.name}";r=0;t=${seconds}`];
    this.rejects.reject(req, res, flood, seconds, fields);
    return true;
  }

  /** Counts a request of a network in a quota of this process. @returns whether it was rejected with 429 */
  refusesBeyond(req: Request, res: Response, name: string, quota: LocalQuota): boolean {
    const waitMs = quota.take(networkOf(req));
    if (waitMs === 0) return false;
    const problem = rateLimited(name, quota.limit, quota.windowMs / 1000, waitMs);
    this.rejects.reject(req, res, fastReject(problem), Math.ceil(waitMs / 1000));
    return true;
  }

  /** Rejects a request of a banned caller. @returns whether it was rejected with 403 */
  refuses(req: Request, res: Response, caller: Caller): boolean {
    const ban = this.bans.banOf(caller);
    if (!ban) return false;
    let refusal = this.#refusals.get(ban);
    if (!refusal) {
      refusal = fastReject(blocked(ban.kind, ban.untilMs, this.nowMs()));
      this.#refusals.set(ban, refusal);
    }
    const { untilMs } = ban;
    this.rejects.reject(req, res, refusal, untilMs === null ? null : Math.max(1, (untilMs - this.nowMs()) / 1000));
    return true;
  }
}
