/** Ends a `switch` over a closed union. A missing case does not compile, and an unknown value throws at run time. */
export function assertNever(value: never): never {
  throw new Error(`unhandled case: ${JSON.stringify(value)}`);
}
