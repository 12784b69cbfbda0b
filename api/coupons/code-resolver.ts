import { type Code, normaliseCode } from '../../shared/domain/codes.js';
import type { CampaignNo, ProductId, UserId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { TermsVersion } from '../../shared/postgres/campaign-terms.js';
import type { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
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
  ) {}

  /** @throws Problem 404 for a code that was never issued · EngineUnavailable */
  async find(typed: string): Promise<IssuedCode & { boundTo: UserId | null }> {
    const normalised = normaliseCode(typed);
    if (normalised.kind !== 'code' || !this.filter.mayContain(normalised.code)) throw codeNotFound();
    const { code } = normalised;
    const found = await this.lookup.find(code);
    if (!found) {
      this.filter.falsePositive();
      throw codeNotFound();
    }
    const product = await this.directory.productOf(found.campaignNo);
    const terms = product && (await this.terms.current(product));
    if (!product || !terms) throw codeNotFound();
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

export const codeNotFound = () => new Problem('code_not_found', 'No campaign has issued this code.');
