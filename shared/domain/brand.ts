declare const brand: unique symbol;

/**
 * A value that was checked once, with a type of its own, so that it cannot be confused with other strings or numbers.
 */
export type Branded<Value, Name extends string> = Value & { readonly [brand]: Name };
