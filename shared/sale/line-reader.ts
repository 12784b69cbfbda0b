import type { ProductId } from '../domain/ids.js';
import { EngineUnavailable } from '../errors/faults.js';
import { keys } from '../redis/keys.js';
import { recordIn } from '../redis/record-format.js';
import { PERSON } from '../redis/record-formats.js';
import type { ScriptRunner } from '../redis/script-runner.js';

/** A place in line: its number, and the id of the reservation after a promotion. */
export type Place = { lineNo: number; reservation: string };

/** Added to the score of a demoted user (lua/includes/presence.lua). */
const AWAY = 2 ** 52;

/** Reads the places in the line of a campaign. Changes nothing. */
export class LineReader {
  constructor(readonly scripts: Pick<ScriptRunner, 'redis' | 'gate'>) {}

  /** Yields every place in a line in batches. A place may come twice while the line moves. */
  async *places(product: ProductId, batch: number): AsyncGenerator<ReadonlyMap<string, Place>> {
    let cursor = '0';
    do {
      const [next, flat] = await this.#read(() => this.scripts.redis.zscan(keys.line(product), cursor, 'COUNT', batch));
      cursor = next;
      yield await this.placesOf(
        product,
        flat.filter((_, i) => i % 2 === 0),
      );
    } while (cursor !== '0');
  }

  /** Returns the places of the waiting users among these. */
  async placesOf(product: ProductId, users: readonly string[]): Promise<ReadonlyMap<string, Place>> {
    if (users.length === 0) return new Map();
    const results = await this.#read(() =>
      this.scripts.redis
        .multi()
        .zmscore(keys.line(product), ...users)
        .hmget(keys.people(product), ...users)
        .exec(),
    );
    const [scores, people] = (results ?? []).map(([error, value]) => {
      if (error) throw new EngineUnavailable('redis', error.message, { cause: error });
      return value as (string | null)[];
    });
    const places = new Map<string, Place>();
    for (const [i, user] of users.entries()) {
      const score = scores?.[i];
      if (score == null) continue;
      const reservation = recordIn(PERSON, people?.[i] ?? '')?.reservation_id ?? '';
      places.set(user, { lineNo: Number(score) % AWAY, reservation });
    }
    return places;
  }

  async #read<Value>(read: () => Promise<Value>): Promise<Value> {
    const { gate } = this.scripts;
    try {
      return await (gate ? gate.guard(read) : read());
    } catch (error) {
      if (error instanceof EngineUnavailable) throw error;
      throw EngineUnavailable.from('redis', error);
    }
  }
}
