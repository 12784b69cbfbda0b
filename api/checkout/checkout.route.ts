import type { Request } from 'express';
import type { Attributes } from '../../shared/domain/audience.js';
import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { DeviceId, IdempotencyKey, ProductId, UserId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import type { ClaimRequest } from '../../shared/sale/reserve-input.js';
import { claimSender } from '../claim/send-claim.js';
import type { AttemptRate } from '../guards/abuse/attempt-rate.js';
import type { BlocklistGuard } from '../guards/abuse/blocklist-guard.js';
import { admitsAll, type RiskGate } from '../guards/abuse/risk-gate.js';
import type { RiskGateRequest } from '../guards/abuse/risk-request.js';
import type { Attestation, GenuineToken } from '../guards/attestation/attestation.js';
import { assertProofFor, type Identity, type ShopperIdentity } from '../guards/auth/shopper-identity.js';
import { networkOf } from '../guards/caller/address.js';
import type { DerivedDevices, RequestDevice } from '../guards/caller/fingerprint.js';
import type { LoadShedder } from '../guards/limits/load-shedding.js';
import type { PolicyCache } from '../guards/limits/policy-cache.js';
import { type Call, defineRoute } from '../http/define-route.js';
import { metadataText } from '../http/fields.js';
import { idempotencyKey } from '../http/idempotency-key.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { type CheckoutBody, checkoutBody, checkoutContract } from './checkout.contract.js';
import type { Checkout, CheckoutResult } from './checkout.js';

export type CheckoutRouteDeps = {
  loadShedder: LoadShedder;
  checkout: Checkout;
  attestation: Attestation;
  devices: DerivedDevices;
  blocklist: BlocklistGuard;
  riskGate: RiskGate;
  policies: PolicyCache;
  attemptRate: AttemptRate;
  shopper: ShopperIdentity;
  metrics: Metrics;
  log: Log;
};

/**
 * POST /flash-sale/checkout. Guards that need no round trip come first; risk and the quota of unproven calls may ask
 * Redis; then one script decides.
 */
export function checkoutRoute(deps: CheckoutRouteDeps): Route {
  const { loadShedder, checkout, blocklist, riskGate, policies, attemptRate, shopper, metrics, log } = deps;
  const sendClaim = claimSender(checkout.limits);
  return defineRoute(checkoutContract, async (call) => {
    const { req } = call;
    let outcome = 'failed';
    let body: CheckoutBody | undefined;
    let reservation: string | undefined;
    try {
      loadShedder.requireRoom();
      body = validate(checkoutBody, await readJson(req));
      if (
        blocklist.refuses(req, call.res, {
          user: body.user_id as UserId,
          device: body.device_fp as DeviceId | undefined,
        })
      ) {
        outcome = 'blocked';
        return;
      }
      const source = idempotencyKey(req, body.idempotency_key);
      const attested = attest(call, body, deps);
      blocklist.bans.admit({ device: attested.device.derived ?? attested.device.bound });
      const identity = await shopper.identify(req, body.user_id);
      assertProofFor(identity, body.product_id);
      const request = requestOf(req, body, source.key, attested, identity);
      const attributes = identity.attributes ?? body.attributes;
      const policy = policies.of(body.product_id);
      if (attested.genuine) attemptRate.add(policy, request.network);
      const entering = admitsAll(policy) ? null : entryOf(policy, request, attested, body, { attributes, identity });
      loadShedder.enter();
      let result: CheckoutResult;
      try {
        const waiting = entering && riskGate.checkout(entering);
        if (waiting) await waiting;
        result = await checkout.run(request, policy, attributes ?? {});
      } finally {
        loadShedder.leave();
      }
      if (result.replayed) {
        if (entering) riskGate.replayed(entering);
      } else if (policy.risk !== 'off') {
        riskGate.promised({ policy, device: attested.device.named, user: request.user });
      }
      const { replayed, answer } = result;
      outcome = replayed ? 'replayed' : answer.data.status;
      reservation = answer.status === 200 ? answer.data.reservation_id : undefined;
      sendClaim(call, result, source, request);
    } catch (error) {
      if (error instanceof Problem) outcome = error.code;
      throw error;
    } finally {
      metrics.checkouts.inc({ outcome });
      // Fast rejects have a shared log line.
      if (!req.logged) {
        req.logged = true;
        log.info(
          {
            request_id: req.requestId,
            trace: req.trace || undefined,
            campaign: body?.product_id,
            reservation,
            outcome,
          },
          'checkout',
        );
      }
    }
  });
}

type Attested = {
  device: RequestDevice;
  /** Device for the record and for challenges; null = neither named nor bound to a token. */
  known: DeviceId | null;
  genuine: GenuineToken | null;
};

/**
 * Verifies the device token if there is one. The script refuses a missing token in a campaign that requires one.
 * @throws Problem 401
 */
function attest(
  call: Call<typeof checkoutContract>,
  body: CheckoutBody,
  { attestation, devices }: Pick<CheckoutRouteDeps, 'attestation' | 'devices'>,
): Attested {
  const device = devices.of(call.req, body.device_fp, body.user_id, body.attestation);
  if (body.attestation === undefined) return { device, known: device.named, genuine: null };
  const genuine =
    body.expires_at === undefined
      ? null
      : attestation.read(body.attestation, device.bound, body.expires_at, body.product_id);
  if (!genuine) throw call.refusal('attestation_invalid', 'The device token is not valid for this device and expiry.');
  return { device, known: device.bound, genuine };
}

function requestOf(
  req: Request,
  body: CheckoutBody,
  key: IdempotencyKey,
  attested: Attested,
  identity: Identity,
): ClaimRequest {
  return {
    product: body.product_id as ProductId,
    user: body.user_id as UserId,
    qty: body.qty,
    key,
    order: null,
    token: attested.genuine && { expiresAtSeconds: body.expires_at as number },
    device: attested.known,
    proven: identity.proven,
    holderDevice: attested.genuine && attested.device.named,
    counted: attested.device.counted,
    network: networkOf(req),
    trace: req.trace,
    metadata: metadataText(body.metadata),
    coupon: null,
  };
}

/** Returns the request in the form that the risk gate takes. */
function entryOf(
  policy: CampaignPolicy,
  { product, user, key, network }: ClaimRequest,
  { device, known, genuine }: Attested,
  body: CheckoutBody,
  { attributes, identity }: { attributes: Attributes | undefined; identity: Identity },
): RiskGateRequest {
  return {
    policy,
    product,
    user,
    device: device.named,
    boundTo: known,
    network,
    accountCreatedAt: attributes?.account_created_at,
    token: genuine,
    solution: body.challenge_solution ?? null,
    use: `${user}|${key}`,
    key,
    identity,
  };
}
