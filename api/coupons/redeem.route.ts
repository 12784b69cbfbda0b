import type { Request, Response } from 'express';
import type { CampaignPolicy } from '../../shared/domain/campaign-policy.js';
import type { DeviceId, OrderId, UserId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { networkOf } from '../guards/address.js';
import type { Attestation, GenuineToken } from '../guards/attestation.js';
import { callerOf } from '../guards/failures.js';
import { deviceOf, provenDevice } from '../guards/fingerprint.js';
import { policyField } from '../guards/quotas.js';
import { assertProofFor } from '../guards/shopper-identity.js';
import { retryAfter, sendData } from '../http/exchange.js';
import { idempotencyKey } from '../http/idempotency-key.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { type Attempted, foundOrCounted, policyOf, recorded } from './attempt.js';
import { assertHis } from './code-finder.js';
import { placeData, type RedeemBody, redeemBody, redeemedData } from './coupon.contract.js';
import { COUPON_REFUSALS, type CouponParts, couponContract, shopperOf } from './coupon-parts.js';
import type { Redeemed } from './redemption.js';

/** POST /coupons/redeem. */
export function redeemRoute(parts: CouponParts): Route {
  const { admission, attestation, door, entry, failures, policies, redeemQuota, redemption, velocity } = parts;
  const { shopper } = parts;
  return {
    contract: couponContract('/redeem', {
      summary: 'Use a code',
      description:
        'Needs an idempotency key, in the header or in the body, as checkout does. The same request means the same code, ' +
        'user_id and order_id. An order of a user takes a code only if the campaigns of all codes on it allow that (`stacking`); it is ' +
        'free again when the other code is released, expired, refunded or voided. Device fields are optional; given, they are checked as in checkout.',
      body: redeemBody,
      answers: {
        201: {
          description: 'It is used; pay before `pay_before` where that is given.',
          data: redeemedData,
          headers: ['RateLimit', 'RateLimit-Policy', 'Idempotent-Replayed'],
        },
        202: {
          description: 'You are in line. `Location` is your queue-status.',
          data: placeData,
          headers: ['RateLimit', 'RateLimit-Policy', 'Idempotent-Replayed', 'Location', 'Retry-After'],
        },
      },
      errors: [
        ...COUPON_REFUSALS,
        'not_combinable',
        'token_invalid',
        'attestation_invalid',
        'attestation_expired',
        'challenge_required',
        'duplicate_request',
        'idempotency_key_reused',
      ],
    }),
    guard: (req, res) => door.refusesNetwork(req, res),
    async handle(req, res) {
      const network = networkOf(req);
      const body = validate(redeemBody, await readJson(req));
      const user = body.user_id as UserId;
      if (door.refuses(req, res, { user, device: body.device_fp as DeviceId | undefined })) return;
      const { key, from } = idempotencyKey(req, body.idempotency_key);
      const { named, bound, counted } = deviceOf(req, body.device_fp, user);
      const device = body.attestation === undefined ? named : bound;
      if (body.device_fp === undefined) door.bans.admit({ device: bound });
      const identity = await shopper.identify(req, user);
      const who = shopperOf(body, identity);
      const guesser = { user, network, proven: identity.proven };
      const caller = callerOf(guesser);
      door.bans.admitPaused(caller);
      /** The guards that cost a round trip. Those of a guess are the same, so that a challenge tells nothing. */
      const enter = async (policy: CampaignPolicy, token: GenuineToken | null) => {
        velocity.attempted(policy.product, device ?? user);
        const rateLimit = await redeemQuota.of(policy.limits.redeemPerMinutePerUser).take(caller);
        const accountCreatedAt = who.attributes.account_created_at;
        const solution = body.challenge_solution ?? null;
        const use = `${user}|${key}`;
        await entry.redeem({
          policy,
          user,
          device: named,
          boundTo: device,
          network,
          accountCreatedAt,
          token,
          solution,
          use,
          key,
        });
        return rateLimit;
      };
      const attempted: Attempted = { action: 'redeem', guesser, failed: false };
      const { issued, redeemed, rateLimit } = await recorded(parts, req, attempted, body.code, (about) =>
        admission.admit(async () => {
          const found = await foundOrCounted(parts, attempted, body.code, (policy) =>
            enter(
              policy,
              policy.uniformRefusals ? tokenOf(body, device, attestation, [...policies.uniform, '']) : null,
            ),
          );
          about(found);
          assertProofFor(identity, found.product);
          const policy = policyOf(parts, found);
          const isUniform = policy.uniformRefusals;
          const token = tokenOf(
            body,
            device,
            attestation,
            isUniform ? [...policies.uniform, found.product] : [found.product],
          );
          const headers = await enter(policy, token);
          assertGenuine(body, token);
          assertHis(found, user);
          const result = await redemption.run(found, {
            ...who,
            // The script's quota of a device is not taken for made-up codes, so it would tell them apart.
            device: isUniform ? null : device,
            counted: isUniform ? null : counted,
            proven: identity.proven,
            holderDevice: provenDevice(named, token !== null),
            attestation: token && { expiresAtSeconds: Number(body.expires_at) },
            order: body.order_id as OrderId,
            oneTimeToken: body.token ?? null,
            key,
            network,
            trace: req.trace,
          });
          about(found, result);
          if (result.replayed) {
            redeemQuota.of(policy.limits.redeemPerMinutePerUser).giveBack(caller);
            entry.replayed({ policy, network }, 'redeem');
          } else {
            failures.succeeded(guesser);
            if (policy.risk !== 'off') velocity.promised(found.product, user);
            entry.promised({ policy, device: named, user });
          }
          return { issued: found, redeemed: result, rateLimit: headers };
        }),
      );
      tell(parts, req, res, { product: issued.product, user }, redeemed, from, redeemed.replayed ? [] : rateLimit);
    },
  };
}

/** The token that came along, for one of these campaigns; null = none did, or it is not ours. */
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

/** @throws Problem 401 when a token came along that is not genuine, as in checkout */
function assertGenuine(body: RedeemBody, token: GenuineToken | null): void {
  if (body.attestation !== undefined && token === null)
    throw new Problem('attestation_invalid', 'The token is not ours for this device and expiry.');
}

function tell(
  { limits }: CouponParts,
  req: Request,
  res: Response,
  claimed: { product: string; user: string },
  { status, data, replayed, quotaLeft }: Redeemed,
  keyFrom: 'header' | 'body',
  rateLimit: readonly string[],
): void {
  if (replayed && keyFrom === 'body') {
    throw new Problem('duplicate_request', 'This request was answered before; `data` is that answer.', {
      members: { original_status: status, data },
    });
  }
  const headers = replayed ? ['Idempotent-Replayed', 'true'] : [...rateLimit];
  if (quotaLeft !== null) {
    const seconds = limits.deviceWindowMs / 1000;
    const policy = policyField('device', limits.deviceQuota, seconds);
    headers.push('RateLimit-Policy', policy, 'RateLimit', `"device";r=${quotaLeft};t=${seconds}`);
  }
  if (status === 202) {
    const query = new URLSearchParams({ product_id: claimed.product, user_id: claimed.user });
    headers.push(
      'Location',
      `/flash-sale/queue-status?${query}`,
      'Retry-After',
      retryAfter(Number(data.poll_after_seconds)),
    );
  }
  sendData(req, res, status, data, headers);
}
