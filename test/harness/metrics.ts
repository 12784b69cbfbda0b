import { until } from './until.js';

/**
 * What /metrics shows of everything that happened before the call: the text is computed once a second, so the one after
 * the next.
 */
export async function metricsText(url: string): Promise<string> {
  const read = async () => (await fetch(`${url}/metrics`)).text();
  const first = await read();
  // CPU seconds are part of it, so two computations never give the same text.
  return until('the metrics are computed again', async () => {
    const text = await read();
    return text === first ? null : text;
  });
}
