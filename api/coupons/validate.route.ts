import type { UserId } from '../../shared/domain/ids.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { sendData } from '../http/exchange.js';
import { readJson } from '../http/json-body.js';
import type { Route } from '../http/route.js';
import { validate } from '../http/validate.js';
import { foundOrCounted, recorded } from './attempt.js';
import { assertHis, type IssuedCode } from './code-finder.js';
import { validateBody, validData } from './coupon.contract.js';
import { type CouponParts, couponContract, shopperOf } from './coupon-parts.js';
import type { Judged } from './validation.js';

/** POST /coupons/validate. */
export function validateRoute(parts: CouponParts): Route {
  const { admission, door, policies, validateQuota, validation, shopper } = parts;
  return {
    contract: couponContract('/validate', {
      summary: 'What one code, or several, would give',
      description:
        'Reads only. One code: its campaign and discount, or the refusal that redeeming it would meet. Several: the best ' +
        'combination that their campaigns allow, and why the others are not in it.',
      body: validateBody,
      answers: { 200: { description: 'What can be used.', data: validData } },
    }),
    async handle(req, res) {
      const body = validate(validateBody, await readJson(req));
      if (door.refuses(req, res, { user: body.user_id as UserId })) return;
      door.bans.admitPaused(body.user_id as UserId);
      const who = shopperOf(body, await shopper.identify(req, body.user_id));
      // One call is counted once, by the limit of the campaign whose code is found first.
      let counted: Promise<string[]> | null = null;
      const count = (product: string) => {
        counted ??= validateQuota.of(policies.of(product).limits.validatePerMinutePerUser).take(who.user);
        return counted;
      };
      const judge = (typed: string) =>
        recorded(parts, req, { action: 'validate', user: who.user, typed, guess: 0 }, (about, attempt) =>
          admission.admit(async () => {
            const issued = await foundOrCounted(parts, attempt, () => count(''));
            await count(issued.product);
            about(issued);
            assertHis(issued, who.user);
            return { issued, data: await validation.one(issued, who) };
          }),
        );
      const data =
        body.code !== undefined
          ? (await judge(body.code)).data
          : validation.several(await Promise.all((body.codes ?? []).map((typed) => judgedOf(typed, judge))), who.cart);
      sendData(req, res, 200, data, (await counted) ?? []);
    },
  };
}

async function judgedOf(typed: string, judge: (typed: string) => Promise<{ issued: IssuedCode }>): Promise<Judged> {
  try {
    return { typed, issued: (await judge(typed)).issued };
  } catch (refusal) {
    if (refusal instanceof Problem && refusal.status < 500 && refusal.status !== 429) return { typed, refusal };
    throw refusal;
  }
}
