// Failures that the user can fix are printed as one sentence and a remedy, never as a stack trace.

/** An expected failure: its cause and its remedy. */
export class Problem extends Error {
  /**
   * @param {string} message one sentence: what is wrong
   * @param {{ remedy?: string, details?: string, exitCode?: number, cause?: unknown }} [more] `details` are lines of a
   *   log
   */
  constructor(message, { remedy, details, exitCode = 1, cause } = {}) {
    super(message, { cause });
    this.name = 'Problem';
    this.remedy = remedy;
    this.details = details;
    this.exitCode = exitCode;
  }
}

/** Thrown when work would begin while the program is stopping. */
export class Interrupted extends Error {
  constructor() {
    super('stopping');
    this.name = 'Interrupted';
  }
}

/**
 * Returns the code of a system error ("ENOENT"), or undefined.
 * @param {unknown} error
 * @returns {string | undefined}
 */
export function codeOf(error) {
  // Not `instanceof Error`: under Jest, Node's errors belong to another realm.
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : undefined;
}

/**
 * @param {unknown} error
 * @returns {string}
 */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}
