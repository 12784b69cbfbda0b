import type { Operator } from './clients.js';
import { until } from './until.js';

/** Adds generated codes to a campaign, and waits until they are issued. */
export async function generateCodes(operator: Operator, product: string, count: number): Promise<void> {
  const asked = await operator.call('POST', `/admin/campaigns/${product}/codes`, { count });
  if (asked.status !== 202) throw new Error(`the codes were not accepted: ${asked.text}`);
  const location = String(asked.headers.get('location'));
  await until('the codes are issued', async () => (await operator.call('GET', location)).data.status === 'done');
}
