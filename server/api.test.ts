import { expect, test } from '@jest/globals';
import { Doorbuster } from './api.js';

const problem = { type: 'https://doorbuster.dev/errors/campaign_exists', code: 'campaign_exists' };
const exists = () => Response.json(problem, { status: 409 });
const created = {
  id: 'lamp',
  product_id: 'lamp',
  total_limit: 5,
  starts_at: '2031-01-01T00:00:00.000Z',
  status: 'scheduled',
};

/** A shop whose calls get these responses; null = the response is lost. */
function shopWith(answers: (Response | null)[]) {
  const send = async () => {
    const answer = answers.shift();
    if (!answer) throw new TypeError('the response was lost');
    return answer;
  };
  return new Doorbuster({ baseUrl: 'https://sale.example', adminKey: 'a', fetch: send });
}

test('a campaign whose response was lost is returned by the retry', async () => {
  const shop = shopWith([null, exists(), Response.json({ data: created })]);
  const terms = { product_id: 'lamp', total_limit: 5, starts_at: '2031-01-01T01:00:00+01:00' };
  expect(await shop.campaigns.create(terms)).toEqual(created);
});

test('a campaign that was there before, or has other terms, is refused', async () => {
  const terms = { product_id: 'lamp', total_limit: 9 };
  const refused = { code: 'campaign_exists' };
  await expect(shopWith([exists()]).campaigns.create(terms)).rejects.toMatchObject(refused);
  const shop = shopWith([null, exists(), Response.json({ data: created })]);
  await expect(shop.campaigns.create(terms)).rejects.toMatchObject(refused);
});
