import { MAX_BUCKETS } from '../../shared/domain/buckets.js';
import { LIMIT_FIELDS } from '../../shared/domain/campaign-policy.js';
import { hasPlaceholder } from '../../shared/domain/checkout-url.js';
import { type FieldError, Problem } from '../../shared/errors/catalogue.js';
import { invalidFields } from '../http/validate.js';
import type { AmendBody, CampaignBody } from './campaign.contract.js';

/** What the configuration of the API allows a campaign to demand. */
export type Supported = {
  mayDemandPlatform: boolean;
  mayDemandIdentity: boolean;
  mayUseHttp: boolean;
  maySignLinks: boolean;
  imageOrigins: readonly string[];
  shards: number;
};

/** What a new or a changed campaign demands. */
export type Demands = Pick<AmendBody, 'limits' | 'checkout_url' | 'branding'> & {
  type?: CampaignBody['type'] | undefined;
  buckets?: number | undefined;
};

/** @throws Problem 400 with every rule that this configuration cannot keep */
export function requireSupported(body: Demands, supported: Supported): void {
  const errors = [...limitErrors(body, supported), ...urlErrors(body, supported), ...pictureErrors(body, supported)];
  if (errors.length > 0) throw invalidFields(...errors);
  requireBuckets(body, supported.shards);
}

function* limitErrors({ limits }: Demands, { mayDemandPlatform, mayDemandIdentity }: Supported) {
  if (limits?.attestation_level === 2 && !mayDemandPlatform)
    yield requires('/limits/attestation_level', 'APP_ATTEST_APP_IDS or PLAY_INTEGRITY_PACKAGE');
  for (const [name, limit] of Object.entries(LIMIT_FIELDS))
    if ('ofEvery' in limit && limit.ofEvery === 'person' && limits?.[name] && !mayDemandIdentity)
      yield requires(`/limits/${name}`, 'SHOPPER_IDENTITY=jwt or signed');
}

function* urlErrors({ checkout_url: url }: Demands, { mayUseHttp, maySignLinks }: Supported): Iterable<FieldError> {
  if (!url) return;
  if (!mayUseHttp && !/^https:/i.test(url))
    yield { pointer: '#/checkout_url', detail: 'must be a URL starting with https:// in production' };
  if (!maySignLinks && hasPlaceholder(url, 'signature'))
    yield requires('/checkout_url', 'PAY_LINK_KEYS', '{signature}');
}

function* pictureErrors({ branding }: Demands, { imageOrigins }: Supported): Iterable<FieldError> {
  for (const name of ['image_url', 'logo_url'] as const) {
    const picture = branding?.[name];
    if (picture === undefined || imageOrigins.includes(new URL(picture).origin)) continue;
    if (imageOrigins.length === 0) yield requires(`/branding/${name}`, 'its origin in IMAGE_ORIGINS');
    else {
      const detail = `must be from an origin of IMAGE_ORIGINS: ${imageOrigins.join(', ')}`;
      yield { pointer: `#/branding/${name}`, detail };
    }
  }
}

function requires(path: string, setting: string, placeholder = ''): FieldError {
  const use = placeholder && ` for ${placeholder}`;
  return { pointer: `#${path}`, detail: `requires ${setting} in the configuration of the API${use}` };
}

/** @throws Problem 400 if a campaign of this type, or on these shards, cannot have so many buckets */
function requireBuckets({ type, buckets = 1 }: Demands, shards: number): void {
  const most = Math.min(shards, MAX_BUCKETS);
  const detail =
    buckets > most
      ? `must be at most ${most}: each bucket needs a shard of its own, and SHARDS is ${shards}`
      : 'must be 1 in a campaign of type `unique`: its codes are redeemed by users of any bucket';
  if (buckets > most || (buckets > 1 && type === 'unique'))
    throw new Problem('buckets_unavailable', 'The campaign cannot have so many buckets; see `errors`.', {
      members: { errors: [{ pointer: '#/buckets', detail }] },
    });
}
