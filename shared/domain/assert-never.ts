/** Ends a `switch` over a closed union: the compiler refuses a case that is missing, the runtime one it did not know. */
export function assertNever(value: never): never {
  throw new Error(`unhandled case: ${JSON.stringify(value)}`);
}
