import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { DeviceId, OrderId, ProductId, UserId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { ClaimRequest } from '../../shared/sale/reserve-input.js';
import { claimSender } from '../claim/send-claim.js';
import type { AttemptRate } from '../guards/abuse/attempt-rate.js';
import type { BlocklistGuard } from '../guards/abuse/blocklist-guard.js';
import { callerOf } from '../guards/abuse/failed-attempt-limiter.js';
import type { RiskGate } from '../guards/abuse/risk-gate.js';
import type { RiskGateRequest } from '../guards/abuse/risk-request.js';
import type { Attestation, GenuineToken } from '../guards/attestation/attestation.js';
import { assertProofFor, type ShopperIdentity } from '../guards/auth/shopper-identity.js';
import { networkOf } from '../guards/caller/address.js';
import type { DerivedDevices } from '../guards/caller/fingerprint.js';
import type { LoadShedder } from '../guards/limits/load-shedding.js';
import type { CampaignLimit } from '../guards/limits/quotas.js';
import type { TokenBucket } from '../guards/limits/token-bucket.js';
import { type Call, defineRoute } from '../http/define-route.js';
import { metadataText } from '../http/fields.js';
import { idempotencyKey } from '../http/idempotency-key.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { type AttemptDeps, type Attempted, foundOrCounted, policyOf, recorded } from './attempt.js';
import { assertOwner } from './code-resolver.js';
import { type RedeemBody, redeemBody, redeemContract } from './coupon.contract.js';
import type { Redemption } from './redemption.js';
import { shopperOf } from './validation.js';

export type RedeemDeps = AttemptDeps & {
  loadShedder: LoadShedder;
  attestation: Attestation;
  devices: DerivedDevices;
  blocklist: BlocklistGuard;
  riskGate: RiskGate;
  redeemQuota: CampaignLimit<TokenBucket>;
  redemption: Redemption;
  attemptRate: AttemptRate;
  shopper: ShopperIdentity;
  limits: { deviceQuota: number; deviceWindowMs: number };
};

/** POST /coupons/redeem. */
export function redeemRoute(deps: RedeemDeps): Route {
  const { loadShedder, attestation, blocklist, riskGate, failures, policies, redeemQuota, redemption, attemptRate } =
    deps;
  const { shopper } = deps;
  const sendClaim = claimSender(deps.limits);
  return defineRoute(redeemContract, async (call) => {
    const { req, res } = call;
    const network = networkOf(req);
    const body = validate(redeemBody, await readJson(req));
    const user = body.user_id as UserId;
    if (blocklist.refuses(req, res, { user, device: body.device_fp as DeviceId | undefined })) return;
    const source = idempotencyKey(req, body.idempotency_key);
    const { key } = source;
    const { named, derived, bound, counted } = deps.devices.of(req, body.device_fp, user, body.attestation);
    const device = body.attestation === undefined ? named : bound;
    blocklist.bans.admit({ device: derived ?? bound });
    const identity = await shopper.identify(req, user);
    const who = shopperOf(body, identity);
    const guesser = { user, network, proven: identity.proven };
    const caller = callerOf(guesser);
    blocklist.bans.admitPaused(caller);
    /** Runs the guards that cost a round trip. They also run for a guess, so that a challenge reveals nothing. */
    const enter = async (policy: CampaignPolicy, token: GenuineToken | null, product = '' as ProductId) => {
      if (token !== null || policy.product === '') attemptRate.add(policy, network);
      const bucket = redeemQuota.of(policy.limits.redeemPerMinutePerUser);
      let rateLimit: string[] | null = null;
      try {
        rateLimit = await bucket.take(caller);
      } catch (error) {
        // A replay is answered whatever the user has left.
        if (!(error instanceof Problem && product !== '' && (await riskGate.deps.remembers(product, user, key))))
          throw error;
      }
      const accountCreatedAt = who.attributes.account_created_at;
      const solution = body.challenge_solution ?? null;
      const use = `${user}|${key}`;
      const entering: RiskGateRequest = {
        ...{ policy, user, device: named, boundTo: device, network, accountCreatedAt, token, solution, use, key },
        ...{ product, identity },
      };
      await riskGate.redeem(entering);
      return { rateLimit, entering };
    };
    const attempted: Attempted = { action: 'redeem', guesser, failed: false };
    const { issued, redeemed, rateLimit } = await recorded(deps, req, attempted, body.code, (about) =>
      loadShedder.admit(async () => {
        const found = await foundOrCounted(deps, attempted, body.code, (policy) =>
          enter(policy, policy.uniformRefusals ? tokenOf(body, device, attestation, [...policies.uniform, '']) : null),
        );
        about(found);
        assertProofFor(identity, found.product);
        const policy = policyOf(deps, found);
        const isUniform = policy.uniformRefusals;
        const token = tokenOf(
          body,
          device,
          attestation,
          isUniform ? [...policies.uniform, found.product] : [found.product],
        );
        const { rateLimit: headers, entering } = await enter(policy, token, found.product);
        assertGenuine(call, body, token);
        assertOwner(found, user);
        const claim: ClaimRequest = {
          ...{ product: found.product, user, qty: 1, key, order: body.order_id as OrderId, coupon: null },
          token: token && { expiresAtSeconds: Number(body.expires_at) },
          // Invented codes never reach the script's quota of devices, so this quota would distinguish them.
          device: isUniform ? null : device,
          counted: isUniform ? null : counted,
          proven: identity.proven,
          holderDevice: token && named,
          ...{ network, trace: req.trace, metadata: metadataText(body.metadata) },
        };
        const { attributes, cart } = who;
        const result = await redemption.run(found, { claim, attributes, cart, oneTimeToken: body.token ?? null });
        about(found, result);
        if (result.replayed) {
          if (headers) redeemQuota.of(policy.limits.redeemPerMinutePerUser).giveBack(caller);
          riskGate.replayed(entering);
        } else {
          failures.succeeded(guesser);
          riskGate.promised({ policy, device: named, user });
        }
        return { issued: found, redeemed: result, rateLimit: headers ?? [] };
      }),
    );
    sendClaim(call, redeemed, source, { product: issued.product, user }, rateLimit);
  });
}

/** Returns the device token of a request if it is valid for one of these campaigns; null = none, or not valid. */
function tokenOf(
  { attestation: token, expires_at: expiresAtSeconds }: RedeemBody,
  device: DeviceId | null,
  attestation: Attestation,
  products: readonly string[],
): GenuineToken | null {
  if (token === undefined || device === null || expiresAtSeconds === undefined) return null;
  for (const product of products) {
    const genuine = attestation.read(token, device, expiresAtSeconds, product);
    if (genuine) return genuine;
  }
  return null;
}

/** Rejects a device token that is not valid, as checkout does. @throws Problem 401 */
function assertGenuine(call: Call<typeof redeemContract>, body: RedeemBody, token: GenuineToken | null): void {
  if (body.attestation !== undefined && token === null)
    throw call.refusal('attestation_invalid', 'The device token is not valid for this device and expiry.');
}
