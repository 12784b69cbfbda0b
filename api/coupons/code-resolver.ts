import { type Code, normaliseCode } from '../../shared/domain/codes.js';
import type { CampaignNo, ProductId, UserId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { TermsVersion } from '../../shared/postgres/campaign-terms.js';
import type { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
import type { SaleMap } from '../../shared/sale/sales.js';
import type { SetBackCheck } from '../../shared/shards/set-back-check.js';
import type { TermsCache } from '../claim/terms-cache.js';
import type { CodeFilter } from './code-filter.js';
import type { CodeLookup } from './code-lookup.js';
import type { CodePatterns } from './code-patterns.js';

/** An issued code with the current terms of its campaign. */
export type IssuedCode = {
  code: Code;
  /** 0 = the one code of a shared campaign */
  codeNo: number;
  campaignNo: CampaignNo;
  product: ProductId;
  terms: TermsVersion;
};

/** Resolves a typed code to its canonical form, its campaign and its terms, with the cheapest checks first. */
export class CodeResolver {
  constructor(
    readonly filter: CodeFilter,
    readonly lookup: CodeLookup,
    readonly directory: CampaignDirectory,
    readonly terms: TermsCache,
    readonly uniform: CodePatterns,
    readonly setBack: SetBackCheck,
    /** Whether another region decides about a code of a user. */
    readonly isOfOther: (code: Code, user: UserId) => boolean,
  ) {}

  /**
   * @throws Problem 404 for a code that was never issued, 409 for one of several codes that belongs to another region ·
   *   EngineUnavailable, also for an unknown code while Postgres may have lost it, because it was set back
   */
  async find(typed: string, user: UserId): Promise<IssuedCode & { boundTo: UserId | null }> {
    const normalised = normaliseCode(typed);
    if (normalised.kind === 'code' && this.isOfOther(normalised.code, user)) throw ofOtherRegion();
    if (normalised.kind !== 'code') throw codeNotFound();
    const { code } = normalised;
    if (!this.filter.mayContain(code)) {
      this.setBack.assertWhole();
      throw codeNotFound();
    }
    const found = await this.lookup.find(code);
    if (!found) {
      await this.setBack.assertWholeNow();
      this.filter.falsePositive();
      throw codeNotFound();
    }
    const product = await this.directory.productOf(found.campaignNo);
    const terms = product && (await this.terms.current(product));
    if (!product || !terms) {
      await this.setBack.assertWholeNow();
      throw codeNotFound();
    }
    const { codeNo, campaignNo, userId } = found;
    return { code, codeNo, campaignNo, product, terms, boundTo: userId };
  }

  /** Whether a typed code looks like a code of a campaign with uniform refusals. */
  looksUniform(typed: string): boolean {
    const normalised = normaliseCode(typed);
    return normalised.kind === 'code' && this.uniform.isLike(normalised.code);
  }
}

/** Rejects a code that is bound to another user as unknown, so that its existence stays secret. @throws Problem 404 */
export function assertOwner(issued: { boundTo: UserId | null }, user: UserId): void {
  if (issued.boundTo !== null && issued.boundTo !== user) throw codeNotFound();
}

/**
 * Rejects codes of a pool with several buckets. Only one of its buckets may give a code, and it may be another one than
 * that of the user, so its codes are given by checkout only (docs/buckets.md).
 * @throws Problem 409
 */
export function assertByCode(issued: IssuedCode, map: Pick<SaleMap, 'bucketsOf'>): void {
  if (issued.terms.type !== 'pool' || map.bucketsOf(issued.product) === 1) return;
  throw new Problem('checkout_required', 'The stock of this campaign is divided, so users get its codes by checkout.');
}

const ofOtherRegion = () =>
  new Problem('not_combinable', 'The code belongs to another region. Codes of several regions cannot be combined.');

export const codeNotFound = () => new Problem('code_not_found', 'No campaign has issued this code.');
