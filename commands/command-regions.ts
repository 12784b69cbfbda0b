import type { RegionsConfig } from '../shared/config/regions.js';
import type { RegionName } from '../shared/domain/regions.js';

const ASK_MS = 3_000;

/**
 * Calls the API of another region, as regions call each other.
 * @param path below `/regions/`
 * @returns `data` of the response
 * @throws Error when there is no response, or it is an error
 */
export async function callRegion<Data>(
  { peers, keys }: RegionsConfig,
  region: RegionName,
  path: 'beat' | 'units' | 'acknowledgements',
  json: unknown,
): Promise<Data> {
  const url = peers.find(({ name }) => name === region)?.url;
  const response = await fetch(`${url}/regions/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'doorbuster-region-key': keys[0]?.secret ?? '' },
    body: JSON.stringify(json),
    signal: AbortSignal.timeout(ASK_MS),
  });
  if (response.status !== 200) throw new Error(`it replied with ${response.status}`);
  return ((await response.json()) as { data: Data }).data;
}
