import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { newAddress } from '../harness/addresses.js';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { generateCodes } from '../harness/issued-codes.js';
import { sharedService } from '../harness/service.js';
import { freshToken } from '../harness/tokens.js';

/**
 * Every rule of a campaign in every way in which a caller takes a unit, or asks whether one could be taken. Promotions
 * and late payments take one without a caller: audience.test.ts, orders.test.ts, terms.test.ts and the tests of the
 * scripts have what holds for them.
 */
const service = await sharedService();
const operator = new Operator(service.url);

type Call = { user: string; device?: string; address: string; headers: Record<string, string>; fields: object };
/** A campaign, and how a call takes one of its units. */
type Way = {
  open: (terms: Record<string, unknown>) => Promise<{ product: string; code: string }>;
  take: (sale: { product: string; code: string }, call: Call) => Promise<Answer>;
  /** What meets the rule, if it is not `take`. */
  ask?: Way['take'];
};

const post = (path: string, { user, device, address, headers, fields }: Call, json: object) =>
  send(`${service.url}${path}`, {
    method: 'POST',
    headers: { 'x-forwarded-for': address, ...headers },
    json: {
      user_id: user,
      idempotency_key: randomUUID(),
      ...(device === undefined ? {} : { device_fp: device }),
      ...json,
      ...fields,
    },
  });
const BASE = { total_limit: 1_000, require_attestation: false, hold_seconds: 900 };
const checkout: Way['take'] = ({ product }, call) =>
  post('/flash-sale/checkout', call, { product_id: product, qty: 1 });
const newCode = () => `CODE${randomUUID().replaceAll('-', '').slice(0, 12).toUpperCase()}`;
const openShared: Way['open'] = async (terms) => {
  const code = newCode();
  return { code, product: await operator.openCampaign({ ...BASE, code, ...terms }) };
};
const openPool: Way['open'] = async (terms) => {
  const product = await operator.openCampaign({ ...BASE, type: 'pool', ...terms });
  const [code] = await generateCodes(operator, product, 5);
  return { product, code: String(code) };
};
const redeem: Way['take'] = ({ code }, call) => post('/coupons/redeem', call, { code, order_id: randomUUID() });
const WAYS: Record<string, Way> = {
  'a checkout': { open: openShared, take: checkout },
  'a hand-out of a pool': { open: openPool, take: checkout },
  'a redemption': { open: openShared, take: redeem },
  'a check of a code': {
    open: openShared,
    take: redeem,
    ask: ({ code }, call) => post('/coupons/validate', call, { code, idempotency_key: undefined }),
  },
};

const enforce = (limits: object) => ({
  risk: 'enforce',
  limits: { unusual_hours: null, accounts_per_address: null, ...limits },
});
const ban = (kind: string, subject: string) =>
  operator.call('POST', '/admin/bans', { effect: 'ban', kind, subject, reason: 'a test' });
const act = (action: string) => (product: string) => operator.call('POST', `/admin/campaigns/${product}/${action}`);

/** What a way meets, or `accepted`. `before`: calls that are accepted first; `prepare`: what an operator does first. */
type Rule = {
  rule: string;
  terms?: Record<string, unknown>;
  call?: (call: Call) => Call;
  prepare?: (product: string, call: Call) => Promise<unknown>;
  before?: number;
  sameUser?: boolean;
  refusal: [number, string] | 'accepted';
  /** It is about a device, a token or the risk, which a check of a code does not have. */
  ofClaims?: true;
};
const derivedOf = async (call: Call) =>
  (
    await send(`${service.url}/flash-sale/token`, {
      headers: { 'x-forwarded-for': call.address, ...call.headers },
    })
  ).data.device_fp as string;

const members = { audience: { attribute: 'tier', eq: 'gold' } };
const RULES: Rule[] = [
  { rule: 'none', refusal: 'accepted' },
  { rule: 'an audience of others', terms: members, refusal: [403, 'audience_mismatch'] },
  {
    rule: 'an audience with this user in it',
    terms: members,
    call: (call) => ({ ...call, fields: { attributes: { tier: 'gold' } } }),
    refusal: 'accepted',
  },
  { rule: 'a banned user', prepare: (_, { user }) => ban('user', user), refusal: [403, 'blocked'] },
  {
    rule: 'a banned device in the body',
    call: (call) => ({ ...call, device: `device-${randomUUID()}` }),
    prepare: (_, { device }) => ban('device', String(device)),
    refusal: [403, 'blocked'],
    ofClaims: true,
  },
  {
    rule: 'a banned device in the header',
    call: (call) => ({ ...call, headers: { ...call.headers, 'x-device-fingerprint': `device-${randomUUID()}` } }),
    prepare: (_, { headers }) => ban('device', String(headers['x-device-fingerprint'])),
    refusal: [403, 'blocked'],
    ofClaims: true,
  },
  {
    rule: 'a banned device that the request does not name',
    prepare: async (_, call) => ban('device', await derivedOf(call)),
    refusal: [403, 'blocked'],
    ofClaims: true,
  },
  { rule: 'a banned network', prepare: (_, { address }) => ban('network', address), refusal: [403, 'blocked'] },
  { rule: 'a pause', prepare: act('pause'), refusal: [503, 'campaign_paused'] },
  { rule: 'an end', prepare: act('close'), refusal: [410, 'campaign_ended'] },
  {
    rule: 'a start that is to come',
    terms: { starts_at: new Date(Date.now() + 86_400_000).toISOString() },
    refusal: [409, 'campaign_not_started'],
  },
  { rule: 'the limit of the user', before: 1, sameUser: true, refusal: [409, 'already_redeemed'] },
  { rule: 'an empty stock', terms: { total_limit: 1 }, before: 1, refusal: [410, 'sold_out'] },
  { rule: 'a one-time token', terms: { require_token: true }, refusal: [401, 'token_invalid'], ofClaims: true },
  {
    rule: 'a forged token',
    call: (call) => ({ ...call, fields: { attestation: 'forged', expires_at: Math.floor(Date.now() / 1000) } }),
    refusal: [401, 'attestation_invalid'],
    ofClaims: true,
  },
  {
    rule: 'a level of tokens',
    terms: { limits: { attestation_level: 1 } },
    refusal: [403, 'challenge_required'],
    ofClaims: true,
  },
  {
    rule: 'unusual hours',
    terms: enforce({ unusual_hours: { from: 0, to: 24 } }),
    refusal: [403, 'challenge_required'],
    ofClaims: true,
  },
  {
    rule: 'accounts of one network',
    terms: enforce({ accounts_per_address: 1 }),
    before: 1,
    refusal: [403, 'challenge_required'],
    ofClaims: true,
  },
  {
    rule: 'accounts on one device',
    terms: enforce({ accounts_per_device: 2 }),
    call: (call) => ({ ...call, fields: freshToken(`device-${call.address}`) }),
    before: 1,
    refusal: [403, 'blocked'],
    ofClaims: true,
  },
  {
    rule: 'calls of one network',
    terms: enforce({ checkout_per_minute_per_address: 1, redeem_per_minute_per_address: 1 }),
    before: 1,
    refusal: [403, 'challenge_required'],
    ofClaims: true,
  },
  {
    rule: 'a young account',
    terms: enforce({ account_min_age_hours: 24 }),
    call: (call) => ({ ...call, fields: { attributes: { account_created_at: new Date().toISOString() } } }),
    refusal: [403, 'challenge_required'],
    ofClaims: true,
  },
];

const newCall = (): Call => ({
  user: `user-${randomUUID()}`,
  address: newAddress(),
  headers: { 'user-agent': 'a browser' },
  fields: {},
});

for (const [name, way] of Object.entries(WAYS)) {
  describe(name, () => {
    const rules = way.ask ? RULES.map((one) => (one.ofClaims ? { ...one, refusal: 'accepted' as const } : one)) : RULES;
    test.each(rules)('meets $rule: $refusal', async ({ terms = {}, call, prepare, before = 0, sameUser, refusal }) => {
      const sale = await way.open(terms);
      const mine = (call ?? ((one) => one))(newCall());
      for (let i = 0; i < before; i += 1) {
        const user = sameUser ? mine.user : `user-${randomUUID()}`;
        expect([200, 201]).toContain((await way.take(sale, { ...mine, user })).status);
      }
      await prepare?.(sale.product, mine);
      const answer = await (way.ask ?? way.take)(sale, mine);
      if (refusal === 'accepted') expect([200, 201]).toContain(answer.status);
      else expectProblem(answer, ...refusal);
    });
  });
}
