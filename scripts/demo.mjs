// Creates the campaigns of the demo over the API.
import { Problem } from './problem.mjs';

const ASK_LIMIT_MS = 10_000;

export const DEMO_CAMPAIGN = {
  product_id: 'flash-indomie-2026',
  name: 'Indomie flash sale',
  type: 'shared',
  total_limit: 100,
  hold_seconds: 120,
  waiting_room: { enabled: true, max_size: 10_000 },
};

export const DEMO_COUPON = {
  product_id: 'coupon-save10-2026',
  name: 'Ten percent off',
  type: 'shared',
  code: 'SAVE10',
  total_limit: 1_000,
  discount: { kind: 'percent', percent: 10 },
};

/**
 * @param {string} address of the API
 * @param {string} adminSecret
 * @returns {Promise<'made' | 'there already'>}
 */
export async function createDemoCampaigns(address, adminSecret) {
  const outcomes = [];
  for (const campaign of [DEMO_CAMPAIGN, DEMO_COUPON]) outcomes.push(await create(address, adminSecret, campaign));
  return outcomes.includes('made') ? 'made' : 'there already';
}

/**
 * @param {string} address
 * @param {string} adminSecret
 * @param {{ product_id: string }} campaign
 */
async function create(address, adminSecret, campaign) {
  const response = await fetch(`${address}/admin/campaigns`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${adminSecret}` },
    body: JSON.stringify(campaign),
    signal: AbortSignal.timeout(ASK_LIMIT_MS),
  });
  if (response.status === 201) return 'made';
  if (response.status === 409) return 'there already';
  throw new Problem(`The demo campaign ${campaign.product_id} was refused with ${response.status}.`, {
    details: (await response.text()).slice(0, 2_000),
    remedy: 'Start without it: DEMO=0 npm start',
  });
}
