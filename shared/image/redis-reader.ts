import type { ChainableCommander } from 'ioredis';
import type { ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { decodeEpoch } from '../redis/epoch.js';
import { positionOf } from '../redis/journal.js';
import { keys } from '../redis/keys.js';
import { recordIn } from '../redis/record-format.js';
import { PERSON } from '../redis/record-formats.js';
import { decodeReservation } from '../sale/reservation-record.js';
import { readThrough, type SaleReader, STOCK_FIELDS, stockOf } from '../sale/sale-reader.js';
import { factOf, type Head, type Place, type Reservation } from './facts.js';
import type { RedisPosition } from './journal-tail.js';

/** Facts as Redis has them at a position of its journal. */
export type InRedis<Facts> = { facts: Facts; position: RedisPosition };

/** Added to the score of a demoted user (lua/includes/presence.lua). */
const AWAY = 2 ** 52;

/** Reads the facts of a campaign, or of one of its buckets, in Redis. Changes nothing. */
export class RedisReader {
  constructor(
    readonly sale: Pick<SaleReader, 'scripts'>,
    readonly product: ProductId,
  ) {}

  /** Yields the id of every reservation in batches. One may come twice while the campaign changes. */
  async *reservationIds(batch: number): AsyncGenerator<readonly string[]> {
    yield* this.#scan((cursor) =>
      this.sale.scripts.redis.hscan(keys.reservations(this.product), cursor, 'COUNT', batch),
    );
  }

  /** Yields every user in the line in batches, as `reservationIds` does. */
  async *waitingUsers(batch: number): AsyncGenerator<readonly string[]> {
    yield* this.#scan((cursor) => this.sale.scripts.redis.zscan(keys.line(this.product), cursor, 'COUNT', batch));
  }

  async reservations(ids: readonly string[]): Promise<InRedis<ReadonlyMap<string, Reservation>>> {
    const { results, position } = await this.#atOnce((multi) => multi.hmget(keys.reservations(this.product), ...ids));
    const [texts] = results as [(string | null)[]];
    return { facts: mapOf(ids, (_, i) => texts[i] && factOf(decodeReservation(texts[i]))), position };
  }

  async places(users: readonly string[]): Promise<InRedis<ReadonlyMap<string, Place>>> {
    const { results, position } = await this.#atOnce((multi) =>
      multi.zmscore(keys.line(this.product), ...users).hmget(keys.people(this.product), ...users),
    );
    const [scores, people] = results as [(string | null)[], (string | null)[]];
    const placeOf = (_: string, i: number): Place | null => {
      const score = scores[i];
      if (score == null) return null;
      return { lineNo: Number(score) % AWAY, reservation: recordIn(PERSON, people[i] ?? '')?.reservation_id ?? '' };
    };
    return { facts: mapOf(users, placeOf), position };
  }

  /**
   * The head, and the number of reservations. `head`: null = Redis lacks the campaign. Its total counts the units that
   * Redis has removed because Postgres had no room for them (lua/void.lua).
   */
  async head(): Promise<InRedis<{ head: Head | null; reservations: number }>> {
    const { places } = this.sale.scripts;
    const { results, position } = await this.#atOnce((multi) =>
      multi.hmget(keys.campaign(this.product), ...STOCK_FIELDS, 'refused').hlen(keys.reservations(this.product)),
    );
    const [values, reservations] = results as [(string | null)[], number];
    const head = stockOf(values);
    if (head?.total != null) head.total += Number(values.at(-1));
    if (!head) places?.assertNowhere(this.product);
    return { facts: { head, reservations }, position };
  }

  /** Reads at one moment, together with the position. @throws EngineUnavailable also while Redis is being filled */
  async #atOnce(
    read: (multi: ChainableCommander) => ChainableCommander,
  ): Promise<{ results: unknown[]; position: RedisPosition }> {
    const { redis } = this.sale.scripts;
    const found = await this.#read(() => read(redis.multi().get(keys.epoch).xinfo('STREAM', keys.journal)).exec());
    const [epoch, journal, ...others] = found ?? [];
    for (const [error] of [epoch, ...others].flatMap((one) => (one ? [one] : [])))
      if (error) throw EngineUnavailable.from('redis', error);
    if (typeof epoch?.[1] !== 'string') throw new EngineUnavailable('redis', 'Redis is empty or being filled');
    const { generation } = decodeEpoch(epoch[1]);
    const { lastId } = positionOf(journal?.[0] ?? null, journal?.[1]);
    return { results: others.map(([, value]) => value), position: { lastId, generation } };
  }

  async *#scan(read: (cursor: string) => Promise<[string, string[]]>): AsyncGenerator<readonly string[]> {
    let cursor = '0';
    do {
      const [next, flat] = await this.#read(() => read(cursor));
      cursor = next;
      const names = flat.filter((_, i) => i % 2 === 0);
      if (names.length > 0) yield names;
    } while (cursor !== '0');
  }

  #read<Value>(read: () => Promise<Value>): Promise<Value> {
    return readThrough(this.sale.scripts, read);
  }
}

function mapOf<Fact>(names: readonly string[], factOf: (name: string, i: number) => Fact | null | '' | undefined) {
  const found = new Map<string, Fact>();
  for (const [i, name] of names.entries()) {
    const fact = factOf(name, i);
    if (fact) found.set(name, fact);
  }
  return found;
}
