// The campaign that a newcomer finds open, made through the same door as every other.
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

/**
 * @param {string} address of the API
 * @param {string} adminSecret
 * @returns {Promise<'made' | 'there already'>}
 */
export async function createDemoCampaign(address, adminSecret) {
  const response = await fetch(`${address}/admin/campaigns`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${adminSecret}` },
    body: JSON.stringify(DEMO_CAMPAIGN),
    signal: AbortSignal.timeout(ASK_LIMIT_MS),
  });
  if (response.status === 201) return 'made';
  if (response.status === 409) return 'there already';
  throw new Problem(`The demo campaign was refused with ${response.status}.`, {
    details: (await response.text()).slice(0, 2_000),
    remedy: 'Start without it: DEMO=0 npm start',
  });
}
