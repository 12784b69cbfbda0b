import { randomUUID } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { newAddress } from '../harness/addresses.js';
import { accessibilityFindings, openPhone, showsHeadline as shows, startBrowser } from '../harness/browser.js';
import { solve } from '../harness/challenge.js';
import { TestChallengeProvider } from '../harness/challenge-provider.js';
import { expectProblem } from '../harness/checks.js';
import { type Answer, Operator, send } from '../harness/clients.js';
import { behindApi, sharedService, startApiProcess } from '../harness/service.js';
import { countStatuses } from '../harness/shoppers.js';
import { freshToken } from '../harness/tokens.js';

/** Challenges that a person solves, in campaigns with `risk: strict`. */
const provider = await TestChallengeProvider.start();
const service = await behindApi(await sharedService(), { ...provider.env });
const operator = new Operator(service.url);
const browser = await startBrowser();
const inBrowser = browser ? describe : describe.skip;

const open = (limits: Record<string, unknown> = {}, terms: Record<string, unknown> = {}) =>
  operator.openCampaign({
    ...{ total_limit: 10_000, hold_seconds: 900, risk: 'strict' },
    limits: { unusual_hours: null, checkout_per_minute_per_address: 1, checkout_per_minute_per_user: 9, ...limits },
    ...terms,
  });

/** One intention to buy of a shopper, which can be repeated. */
class Buyer {
  readonly user = `user-${randomUUID()}`;
  readonly device = `fp-${randomUUID()}`;
  key = randomUUID();
  constructor(
    readonly product: string,
    readonly address: string,
    readonly url = service.url,
  ) {}

  buy(fields: Record<string, unknown> = {}): Promise<Answer> {
    const { user: user_id, device, key: idempotency_key, product: product_id, address } = this;
    return send(`${this.url}/flash-sale/checkout`, {
      method: 'POST',
      headers: { 'x-forwarded-for': address },
      json: { product_id, user_id, qty: 1, ...freshToken(device), idempotency_key, ...fields },
    });
  }
  solved = (response: string) => this.buy({ challenge_solution: `human.${response}` });
}
/** A network that a campaign has blocked. */
async function blockedIn(product: string, url = service.url): Promise<string> {
  const address = newAddress();
  for (let i = 0; i < 2; i += 1) await new Buyer(product, address, url).buy();
  return address;
}
function challengeOf(refused: Answer): Record<string, string> {
  expectProblem(refused, 403, 'challenge_required');
  return refused.body.challenge as Record<string, string>;
}

describe('behind a blocked address', () => {
  test('a solved challenge is good for one request and its repetitions', async () => {
    const product = await open();
    const address = await blockedIn(product);
    const buyer = new Buyer(product, address);
    const challenge = challengeOf(await buyer.buy());
    expect(challenge).toEqual({
      ...{ kind: 'human', provider: 'turnstile', site_key: 'site-key-of-the-shop', data: expect.any(String) },
      script: `${provider.origin}/turnstile/v0/api.js`,
    });
    const response = provider.solve(challenge);
    expect((await buyer.solved(response)).status).toBe(200);
    expectProblem(await buyer.solved(response), 409, 'duplicate_request');
    expect(Object.fromEntries(provider.calls.at(-1) ?? [])).toEqual({ secret: 'secret-at-the-provider', response });

    const calls = provider.calls.length;
    const thief = new Buyer(product, address);
    challengeOf(await thief.solved(response));
    expect(provider.calls.length).toBe(calls);
  });

  test('a wrong solution, and one for another device or campaign, is not accepted', async () => {
    const [product, other] = [await open(), await open()];
    const address = await blockedIn(product);
    const buyer = new Buyer(product, address);
    const ofOther = challengeOf(await new Buyer(other, await blockedIn(other)).buy());
    const ofNeighbour = challengeOf(await new Buyer(product, address).buy());
    for (const response of [
      'none',
      '',
      'x'.repeat(2_049),
      provider.solve(ofOther),
      provider.solve(ofNeighbour),
      provider.solve({}),
    ]) {
      const again = await buyer.solved(response);
      expect(challengeOf(again).kind).toBe('human');
      expect(again.body.detail).toMatch(/^The solution is not valid\./);
    }
    expect((await buyer.solved(provider.solve(challengeOf(await buyer.buy())))).status).toBe(200);
  });

  test('all of 60 users are served who solve it', async () => {
    const product = await open({ checkout_per_minute_per_address: 20 });
    const address = newAddress();
    const shop = async () => {
      const buyer = new Buyer(product, address);
      const first = await buyer.buy();
      return first.status === 200 ? first : buyer.solved(provider.solve(challengeOf(first)));
    };
    const answers: Answer[] = [];
    // Fifty at once wait longer for the provider than an API does, on a machine with other work.
    while (answers.length < 60) answers.push(...(await Promise.all(Array.from({ length: 10 }, shop))));
    expect(countStatuses(answers)).toEqual({ 200: 60 });
  });

  test('a proof of work is asked for while the provider is away, and then only', async () => {
    const product = await open();
    const buyer = new Buyer(product, await blockedIn(product));
    const challenge = challengeOf(await buyer.buy());
    for (const state of ['away', 'broken'] as const) {
      const late = new Buyer(product, buyer.address);
      provider.state = state;
      const instead = await late.solved(provider.solve(challenge));
      provider.state = 'well';
      expect(challengeOf(instead).kind).toBeUndefined();
      expect((await late.buy({ challenge_solution: await solve(instead) })).status).toBe(200);
    }
    // Work for another purpose of the same campaign.
    const leveled = await open({ attestation_level: 1, checkout_per_minute_per_address: 3 });
    const worker = new Buyer(leveled, newAddress());
    const challenge_solution = await solve(await worker.buy());
    for (let i = 0; i < 3; i += 1) await new Buyer(leveled, worker.address).buy();
    expect(challengeOf(await worker.buy({ challenge_solution })).kind).toBe('human');
    // Work for a device that is named like the purpose of that work.
    const other = new Buyer(leveled, newAddress());
    const named = freshToken(`instead.${worker.device}`);
    const cheap = await solve(await other.buy(named));
    expect(challengeOf(await worker.buy({ challenge_solution: cheap })).kind).toBe('human');
  });
});

test('a young account solves it too', async () => {
  const product = await open({ checkout_per_minute_per_address: 20 });
  const buyer = new Buyer(product, newAddress());
  const attributes = { account_created_at: new Date(Date.now() - 3_600_000).toISOString() };
  const challenge = challengeOf(await buyer.buy({ attributes }));
  expect(challenge.kind).toBe('human');
  const challenge_solution = `human.${provider.solve(challenge)}`;
  expect((await buyer.buy({ attributes, challenge_solution })).status).toBe(200);
});

test('hCaptcha is asked by its documented call', async () => {
  const hcaptcha = await TestChallengeProvider.start('hcaptcha');
  const api = await startApiProcess({ ...service.env, ...hcaptcha.env });
  const product = await open();
  const buyer = new Buyer(product, await blockedIn(product, api.url), api.url);
  const challenge = challengeOf(await buyer.buy());
  expect([challenge.provider, challenge.script]).toEqual(['hcaptcha', `${hcaptcha.origin}/1/api.js`]);
  const response = hcaptcha.solve(challenge);
  expect((await buyer.solved(response)).status).toBe(200);
  expect(Object.fromEntries(hcaptcha.calls.at(-1) ?? [])).toEqual({
    ...{ secret: 'secret-at-the-provider', response, sitekey: 'site-key-of-the-shop' },
  });
});

inBrowser('the sale page', () => {
  test('shows the challenge, and gets the unit once it is solved', async () => {
    if (!browser) throw new Error('there is no browser');
    const product = await open({ checkout_per_minute_per_address: 1 });
    for (let i = 0; i < 2; i += 1) await new Buyer(product, '127.0.0.1').buy();
    const { page } = await openPhone(browser, {});
    const answer = await page.goto(`${service.url}/sale/${product}`);
    expect(answer?.headers()['content-security-policy']).toContain(`script-src 'self' ${provider.origin}`);
    await page.getByRole('button', { name: 'Get one now', exact: true }).click();
    await page.getByText('Please confirm that you are a person.').waitFor();
    expect(await accessibilityFindings(page)).toEqual([]);
    await page.getByRole('button', { name: 'I am a person', exact: true }).click();
    await shows(page, 'You got one');
    expect(await page.getByText('Please confirm that you are a person.').isVisible()).toBe(false);
  });

  test.each(['broken', 'away'] as const)('works instead when the provider is %s', async (state) => {
    if (!browser) throw new Error('there is no browser');
    const product = await open({ checkout_per_minute_per_address: 1 });
    for (let i = 0; i < 2; i += 1) await new Buyer(product, '127.0.0.1').buy();
    provider.state = state;
    const { page } = await openPhone(browser, {});
    await page.goto(`${service.url}/sale/${product}`);
    await page.getByRole('button', { name: 'Get one now', exact: true }).click();
    await shows(page, 'You got one');
    provider.state = 'well';
  });
});
