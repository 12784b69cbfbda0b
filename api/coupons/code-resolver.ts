import { type Code, normaliseCode } from '../../shared/domain/codes.js';
import type { CampaignNo, ProductId, UserId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { TermsVersion } from '../../shared/postgres/campaign-terms.js';
import type { CampaignDirectory } from '../../shared/sale/campaign-directory.js';
import type { TermsCache } from '../claim/terms-cache.js';
import type { CodeFilter } from './code-filter.js';
import type { CodeLookup } from './code-lookup.js';
import type { CodePatterns } from './code-patterns.js';

/** A code that was issued, and the terms of its campaign that are in force. */
export type IssuedCode = {
  code: Code;
  /** 0 = the one code of a shared campaign */
  codeNo: number;
  campaignNo: CampaignNo;
  product: ProductId;
  terms: TermsVersion;
};

/** From what somebody typed to the code, its campaign and its terms, in the order of what each step costs. */
export class CodeResolver {
  constructor(
    readonly filter: CodeFilter,
    readonly lookup: CodeLookup,
    readonly directory: CampaignDirectory,
    readonly terms: TermsCache,
    readonly uniform: CodePatterns,
  ) {}

  /** @throws Problem 404 for a code that was never issued; EngineUnavailable */
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

  /** Whether what was typed looks like a code of a campaign that tells nothing of its codes. */
  looksUniform(typed: string): boolean {
    const normalised = normaliseCode(typed);
    return normalised.kind === 'code' && this.uniform.isLike(normalised.code);
  }
}

/** A code that is bound to somebody else is one that does not exist: it is nobody's business. */
export function assertHis(issued: { boundTo: UserId | null }, user: UserId): void {
  if (issued.boundTo !== null && issued.boundTo !== user) throw codeNotFound();
}

export const codeNotFound = () => new Problem('code_not_found', 'No campaign has issued this code.');
