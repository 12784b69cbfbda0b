import type { Redis } from 'ioredis';

export type Event = { id: string; type: string; subject: string; time: string; data: Record<string, unknown> };
export type Reader = { stream: string; group: string; name: string };
type Entry = [id: string, fields: string[]];

/** What a reader that died had been given is another's after this time. */
const CLAIM_AFTER_MS = 30_000;

/** Starts at the oldest event there is. */
export async function createGroup(redis: Redis, { stream, group }: Reader): Promise<void> {
  await redis.xgroup('CREATE', stream, group, '0', 'MKSTREAM').catch((error: Error) => {
    if (!error.message.startsWith('BUSYGROUP')) throw error;
  });
}

/**
 * Gives the next events to `handle`, one after the other, and acknowledges each when it is handled. An event may come
 * again (a crash in between, a replay), so `handle` must do no harm the second time.
 * @returns how many were handled
 */
export async function readEvents(
  redis: Redis,
  reader: Reader,
  handle: (event: Event) => Promise<void>,
  options: { blockMs?: number; claimAfterMs?: number } = {},
): Promise<number> {
  const { stream, group, name } = reader;
  const { blockMs = 1_000, claimAfterMs = CLAIM_AFTER_MS } = options;
  // Before new events: those that a reader got, perhaps this one before a crash, and never acknowledged.
  const [, left] = (await redis.xautoclaim(stream, group, name, claimAfterMs, '0', 'COUNT', 100)) as [string, Entry[]];
  const entries = left.length > 0 ? left : await readNew(redis, reader, blockMs);
  for (const [id, fields] of entries) {
    await handle(JSON.parse(fields[fields.indexOf('event') + 1] ?? '{}') as Event);
    await redis.xack(stream, group, id);
  }
  return entries.length;
}

async function readNew(redis: Redis, { stream, group, name }: Reader, blockMs: number): Promise<Entry[]> {
  const replies = await redis.xreadgroup('GROUP', group, name, 'COUNT', 100, 'BLOCK', blockMs, 'STREAMS', stream, '>');
  return ((replies as [string, Entry[]][] | null) ?? []).flatMap(([, entries]) => entries);
}
