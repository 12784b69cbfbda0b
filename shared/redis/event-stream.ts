import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { EngineUnavailable } from '../errors/faults.js';
import { appendEventsScript } from './append-events.js';
import { askRedis } from './ask-redis.js';
import { keys } from './keys.js';
import type { ScriptRunner } from './script-runner.js';

const LOOK_AGAIN_MS = 50;

export type StreamEvent = { seq: number; id: string; type: string; subject: string; json: string };

/**
 * The stream of events in Redis. The id of an entry is `<seq>-0` of the outbox. The stream therefore contains its own
 * cursor, rejects duplicates, and receives lost events again after Redis has lost data.
 */
export class EventStream {
  readonly redis: Redis;

  constructor(
    readonly scripts: ScriptRunner,
    /** Approximate number of entries that are kept. */
    readonly length: number,
  ) {
    this.redis = scripts.redis;
  }

  /** Returns the `seq` of the last event ever appended; 0 = none, or all were lost. */
  async lastSeq(): Promise<number> {
    try {
      const info = (await this.redis.xinfo('STREAM', keys.events)) as unknown[];
      return Number(String(info[info.indexOf('last-generated-id') + 1]).split('-')[0]);
    } catch (error) {
      if (error instanceof Error && /no such key/.test(error.message)) return 0;
      throw EngineUnavailable.from('redis', error);
    }
  }

  /** Waits until the stream has had the event of this number. @returns false when it has not after `withinMs` */
  async reaches(seq: number, withinMs: number): Promise<boolean> {
    const giveUpAt = performance.now() + withinMs;
    while ((await this.lastSeq()) < seq) {
      if (performance.now() > giveUpAt) return false;
      await sleep(LOOK_AGAIN_MS);
    }
    return true;
  }

  /** Yields every event in the stream in batches, oldest first. */
  async *entries(batch: number): AsyncGenerator<StreamEvent[]> {
    let after = '-';
    for (;;) {
      const rows = await askRedis(() => this.redis.xrange(keys.events, after, '+', 'COUNT', batch));
      yield rows.map(([entryId, fields]) => {
        const field = (name: string) => String(fields[fields.indexOf(name) + 1]);
        const [id, type, subject, json] = ['id', 'type', 'subject', 'event'].map(field) as [
          string,
          string,
          string,
          string,
        ];
        return { seq: Number(entryId.split('-')[0]), id, type, subject, json };
      });
      const last = rows.at(-1);
      if (!last || rows.length < batch) return;
      after = `(${last[0]}`;
    }
  }

  /** The numbers, ids and times of all events in the stream, oldest first. */
  async published(batch: number): Promise<{ seq: number; id: string; atMs: number }[]> {
    const published: { seq: number; id: string; atMs: number }[] = [];
    for await (const events of this.entries(batch))
      for (const { seq, id, json } of events)
        published.push({ seq, id, atMs: Date.parse((JSON.parse(json) as { time: string }).time) });
    return published;
  }

  /**
   * Removes the events for which `matches` holds. A consumer that has not read them yet does not get them.
   * @returns how many were removed
   */
  async remove(matches: (event: StreamEvent) => boolean, batch: number): Promise<number> {
    let removed = 0;
    for await (const events of this.entries(batch)) {
      const ids = events.filter(matches).map(({ seq }) => `${seq}-0`);
      if (ids.length === 0) continue;
      removed += await askRedis(() => this.redis.xdel(keys.events, ...ids));
    }
    return removed;
  }

  /**
   * Appends events in their order, all or none: a full Redis rejects the script, so there is never a gap. Events that
   * another publisher has already appended are skipped.
   * @param after `seq` that the last event of the stream must have; null = any
   * @returns null = appended; otherwise the `seq` of the last event, which is not `after`, and nothing was appended
   */
  async append(events: readonly StreamEvent[], after: number | null = null): Promise<number | null> {
    const outcome = await this.scripts.run(appendEventsScript, {
      keys: { events: keys.events },
      args: { after: after ?? '', length: this.length },
      each: events.map(({ seq, id, type, subject, json }) => ({ number: seq, id, type, subject, event: json })),
    });
    return outcome.kind === 'elsewhere' ? outcome.last : null;
  }
}
