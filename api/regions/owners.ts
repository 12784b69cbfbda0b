import { normaliseCode } from '../../shared/domain/codes.js';
import { ownerOfCampaignNo, ownerOfCode, type RegionLayout, type RegionName } from '../../shared/domain/regions.js';
import type { RegionDirectory } from './region-directory.js';
import type { Subject } from './subjects.js';

/**
 * The region that decides. `unknown`: not every region has been reached since the start, and one of the others may have
 * it.
 */
export type Owner = { kind: 'region'; region: RegionName } | { kind: 'unknown' };

/** Finds the region that owns a subject. */
export class Owners {
  constructor(
    readonly own: RegionName,
    readonly layout: RegionLayout,
    readonly directory: RegionDirectory,
  ) {}

  /** `unknown` also until this region has read its own campaigns, which come before those of others. */
  of(subject: Subject): Owner {
    if (!this.directory.knowsOwn) return { kind: 'unknown' };
    switch (subject.kind) {
      case 'codes':
        return this.#ofCodes(subject.codes, subject.user);
      case 'product':
        return this.#ofProduct(subject.product, subject.user);
      case 'campaign':
        return region(ownerOfCampaignNo(subject.no, this.layout) ?? this.own);
    }
  }

  /** The region of a code in canonical form: the one with this shared campaign, else by prefix or hash. */
  ofCode(code: string, user: string | null): RegionName {
    return this.directory.ownerOfSharedCode(code, user) ?? ownerOfCode(code, this.layout);
  }

  /** Several codes have another owner only if all of them do; this region leaves out those of others. */
  #ofCodes(typed: readonly string[], user: string | null): Owner {
    const owners = new Set(
      typed.map((text) => {
        const normalised = normaliseCode(text);
        return normalised.kind === 'code' ? this.ofCode(normalised.code, user) : this.own;
      }),
    );
    const [only] = owners;
    return region(only !== undefined && owners.size === 1 ? only : this.own);
  }

  /** A product that no region has is unknown here as well, once every region has been asked. */
  #ofProduct(product: string, user: string | null): Owner {
    const owner = this.directory.ownerOfProduct(product, user);
    if (owner !== null) return region(owner);
    return this.directory.isComplete ? region(this.own) : { kind: 'unknown' };
  }
}

const region = (name: RegionName): Owner => ({ kind: 'region', region: name });
