/**
 * What Doorbuster promises never to happen: a unit or a promise lost, given twice, over the cap or out of order, or
 * Redis and Postgres that differ. A file that throws one gets no second chance (scripts/test-rounds.mjs knows it by its
 * name): that it does not happen again alone says nothing.
 */
export class Violation extends Error {
  static {
    // On the prototype, because the stack has the name that the error has when it is made.
    Violation.prototype.name = 'Violation';
  }
}

/** Runs expectations about what was promised; the first that fails is a Violation. */
export function promised(expectations: () => void): void {
  try {
    expectations();
  } catch (error) {
    throw new Violation(error instanceof Error ? error.message : String(error), { cause: error });
  }
}
