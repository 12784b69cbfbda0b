import { PortRange } from '../../scripts/port-range.mjs';
import { atEnd } from './cleanup.js';

let range: Promise<PortRange> | null = null;

/**
 * A port that is free now, and stays free for this test file while its server is down. Every port that a test chooses
 * comes from here; one that a process has for as long as it runs may be the system's choice (port 0).
 */
export async function freePort(): Promise<number> {
  range ??= takeRange();
  return (await range).freePort();
}

/** So many different ones. */
export function freePorts(count: number): Promise<number[]> {
  return Promise.all(Array.from({ length: count }, freePort));
}

function takeRange(): Promise<PortRange> {
  const taken = PortRange.take(Number(process.env.JEST_WORKER_ID ?? 1) - 1);
  atEnd('the ports of the file', async () => {
    range = null;
    await (await taken).release();
  });
  return taken;
}
