import { type Answer, type Operator, send } from './clients.js';
import { ADMIN_SECRET } from './service.js';
import { until } from './until.js';

/** Has a worker make codes for a campaign. @returns them in the order of their numbers */
export async function generateCodes(
  operator: Operator,
  product: string,
  count: number,
  prefix?: string,
): Promise<string[]> {
  const form = { count, ...(prefix === undefined ? {} : { prefix }) };
  await untilIssued(operator, product, await operator.call('POST', `/admin/campaigns/${product}/codes`, form));
  return exportCodes(operator, product);
}

/** Imports `code,user_id`. */
export async function importCodes(operator: Operator, product: string, lines: readonly string[]): Promise<void> {
  const answer = await send(`${operator.url}/admin/campaigns/${product}/codes`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ADMIN_SECRET}`, 'content-type': 'text/csv' },
    body: lines.join('\n'),
  });
  await untilIssued(operator, product, answer);
}

export async function exportCodes(operator: Operator, product: string): Promise<string[]> {
  const { text } = await operator.call('GET', `/admin/campaigns/${product}/codes`);
  return text
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => String(line.split(',')[0]));
}

async function untilIssued(operator: Operator, product: string, asked: Answer): Promise<void> {
  if (asked.status !== 202) throw new Error(`no codes were asked for: ${asked.text}`);
  await until('the codes are there', async () => {
    const { data } = await operator.call('GET', `/admin/campaigns/${product}/codes/jobs/${asked.data.id}`);
    return data.status === 'done';
  });
}
