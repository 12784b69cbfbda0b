/** An engine that cannot be used at this moment: away, hanging, full. The caller may try again; ours to answer is 503. */
export class EngineUnavailable extends Error {
  override readonly name = 'EngineUnavailable';
  constructor(
    readonly engine: 'redis' | 'postgres',
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** The fault of a call that failed with this error. */
  static from(engine: EngineUnavailable['engine'], error: unknown): EngineUnavailable {
    return new EngineUnavailable(engine, error instanceof Error ? error.message : String(error), { cause: error });
  }
}

/** Two of our own parts disagree on what they send each other. Never expected, never retried. */
export class ContractError extends Error {
  override readonly name = 'ContractError';
}

/** A worker that no longer may fill Redis tried to write: another one has begun, or Redis is in service again. */
export class FencedOut extends Error {
  override readonly name = 'FencedOut';
  constructor() {
    super('this worker no longer fills Redis');
  }
}

/**
 * Postgres refuses a reservation by a total that is older than the one Redis sells by: it was set back and lacks a
 * restock. The journal must not be written on; `npm run reconcile -- --after-restore` repairs it.
 */
export class PostgresBehind extends Error {
  override readonly name = 'PostgresBehind';
  constructor(
    readonly productId: string,
    readonly totals: { redis: number; postgres: number },
  ) {
    super(
      `Postgres lacks a restock of ${productId}: its total is ${totals.postgres}, that of Redis ${totals.redis}; ` +
        'run npm run reconcile -- --after-restore',
    );
  }
}
