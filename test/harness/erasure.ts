import type { Operator } from './clients.js';
import { until } from './until.js';

export type ErasureData = {
  erasure_id: string;
  status: 'running' | 'waiting' | 'done';
  waits_for: { product_id: string; state: 'waiting' | 'held' | 'open' }[];
  rows: Record<string, number>;
};

const LIMIT_MS = 60_000;

/** Asks for the erasure of a user, by default also in open campaigns. @returns the id of the job */
export async function askToErase(operator: Operator, user: string, inOpenCampaigns = true): Promise<string> {
  const answer = await operator.call('DELETE', `/admin/users/${user}?in_open_campaigns=${inOpenCampaigns}`);
  if (answer.status !== 202) throw new Error(`the erasure was refused: ${answer.text}`);
  return String(answer.data.erasure_id);
}

export const erasureOf = async (operator: Operator, id: string): Promise<ErasureData> =>
  (await operator.call('GET', `/admin/erasures/${id}`)).data as unknown as ErasureData;

/** Erases a user. Resolves when it is done, or when it waits for the user if `orWaits`. */
export async function erase(operator: Operator, user: string, orWaits = false): Promise<ErasureData> {
  const id = await askToErase(operator, user);
  return until(
    'the user is erased',
    async () => {
      const found = await erasureOf(operator, id);
      return (found.status === 'done' || (orWaits && found.status === 'waiting')) && found;
    },
    LIMIT_MS,
  );
}
