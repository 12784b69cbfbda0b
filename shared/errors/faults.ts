import { foreignFormat, type StoringEngine } from '../domain/format.js';

/** Redis or Postgres cannot be used at the moment: it is away, hangs or is full. Callers get 503 and may retry. */
export class EngineUnavailable extends Error {
  override readonly name = 'EngineUnavailable';
  constructor(
    readonly engine: 'redis' | 'postgres',
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Makes the fault for a call that failed with `error`. */
  static from(engine: EngineUnavailable['engine'], error: unknown): EngineUnavailable {
    return new EngineUnavailable(engine, error instanceof Error ? error.message : String(error), { cause: error });
  }
}

/** A command of operators is not carried out, for a reason that the operator can remove. */
export class Refused extends Error {
  override readonly name = 'Refused';
}

/** Two parts of the system disagree about the format of their messages. This is a bug, so the call is not retried. */
export class ContractError extends Error {
  override readonly name = 'ContractError';
}

/**
 * A worker tried to write although it may no longer fill Redis: another worker has begun to fill it, or Redis is in
 * service again.
 */
export class FencedOut extends Error {
  override readonly name = 'FencedOut';
  constructor() {
    super('this worker no longer fills Redis');
  }
}

/**
 * Postgres rejects an entry because it lacks a restock, the campaign itself or its terms. Persisting must stop until
 * Postgres is repaired; `npm run reconcile -- --after-restore` does it if Postgres was set back.
 */
export class PostgresBehind extends Error {
  override readonly name = 'PostgresBehind';
  /**
   * @param totals of the campaign on both sides; null = Postgres lacks the campaign or its terms
   * @param terms why Postgres did not take the terms that Redis has; null = it has them
   */
  constructor(
    readonly productId: string,
    readonly totals: { redis: number; postgres: number } | null,
    terms: Error | null = null,
  ) {
    const lacking = terms
      ? `Postgres lacks the terms of ${productId} that Redis has: ${terms.message}`
      : totals === null
        ? `Postgres lacks the campaign of ${productId}`
        : `Postgres lacks a restock of ${productId}: its total is ${totals.postgres}, that of Redis ${totals.redis}`;
    super(`${lacking}; run npm run reconcile -- --after-restore`, terms ? { cause: terms } : {});
  }
}

/** An engine has data of another format. The process must not start, and changes nothing. */
export class ForeignFormat extends Error {
  override readonly name = 'ForeignFormat';
  /** @param found the format of the data; 0 = they have no number */
  constructor(
    readonly engine: StoringEngine,
    readonly found: number,
  ) {
    super(foreignFormat(engine, found));
  }
}
