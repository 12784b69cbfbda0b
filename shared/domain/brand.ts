declare const brand: unique symbol;

/** A string or number that was checked once and cannot be mixed up with another of the same shape. */
export type Branded<Value, Name extends string> = Value & { readonly [brand]: Name };
