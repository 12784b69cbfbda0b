import type { ChainableCommander, Redis } from 'ioredis';
import type { IdempotencyKey, ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { campaignKeys, keys } from './keys.js';
import { encodePerson, type PersonRecord } from './person-record.js';
import { encodeReservation, type ReservationRecord } from './reservation-record.js';

/**
 * Writes a campaign's records into a Redis that does not serve it: its campaign hash is not there, and is put there last
 * (SaleStore.load). So plain writes in batches are enough; nobody can see half of it.
 */
export class CampaignRestore {
  /** @param seenMs when those who wait count as seen; null = the campaign does not ask for presence */
  constructor(
    readonly redis: Redis,
    readonly product: ProductId,
    readonly seenMs: number | null = null,
  ) {}

  /** Takes the campaign out of service: scripts do not find it, and say that Redis is not filled. */
  async takeOut(): Promise<void> {
    await this.#run((pipeline) => {
      pipeline.unlink(keys.campaign(this.product));
    });
  }

  /** Takes the campaign out of service and removes what an older Redis may still hold of it. */
  async clear(): Promise<void> {
    await this.#run((pipeline) => {
      pipeline.unlink(...campaignKeys(this.product));
    });
  }

  async reservations(records: ReadonlyMap<string, ReservationRecord>): Promise<void> {
    if (records.size === 0) return;
    const packed: string[] = [];
    const due: (string | number)[] = [];
    for (const [id, record] of records) {
      packed.push(id, encodeReservation(record));
      if (record.state === 'reserved') due.push(record.dueMs, id);
    }
    await this.#run((pipeline) => {
      pipeline.hset(keys.reservations(this.product), ...packed);
      if (due.length > 0) pipeline.zadd(keys.deadlines(this.product), ...due);
    });
  }

  async people(people: readonly (readonly [string, PersonRecord])[]): Promise<void> {
    if (people.length === 0) return;
    const packed: string[] = [];
    const line: (string | number)[] = [];
    const presence: (string | number)[] = [];
    for (const [user, person] of people) {
      const { inLine, lineNo } = person;
      packed.push(user, encodePerson(person));
      if (inLine) line.push(lineNo, user);
      if (inLine && this.seenMs !== null) presence.push(this.seenMs, user);
    }
    await this.#run((pipeline) => {
      pipeline.hset(keys.people(this.product), ...packed);
      if (line.length > 0) pipeline.zadd(keys.line(this.product), ...line);
      if (presence.length > 0) pipeline.zadd(keys.presence(this.product), ...presence);
    });
  }

  /** Marks codes as used. */
  async codes(numbers: readonly number[]): Promise<void> {
    if (numbers.length === 0) return;
    await this.#run((pipeline) => {
      for (const number of numbers) pipeline.setbit(keys.usedCodes(this.product), number - 1, 1);
    });
  }

  async answers(answers: readonly { key: string; answer: string; ttlMs: number }[]): Promise<void> {
    if (answers.length === 0) return;
    await this.#run((pipeline) => {
      for (const { key, answer, ttlMs } of answers)
        pipeline.set(keys.idempotency(key as IdempotencyKey), answer, 'PX', ttlMs);
    });
  }

  async #run(fill: (pipeline: ChainableCommander) => void): Promise<void> {
    const pipeline = this.redis.pipeline();
    fill(pipeline);
    const results = await pipeline.exec();
    const failed = results?.find(([error]) => error)?.[0];
    if (failed || !results) throw new EngineUnavailable('redis', failed?.message ?? 'the pipeline was not executed');
  }
}
