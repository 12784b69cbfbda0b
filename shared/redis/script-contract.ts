type Decoder = (fields: readonly string[]) => object;

/**
 * The interface of a Lua script for TypeScript: its input and every possible reply. Names have the notation and the
 * order of the script's header; a test compares both.
 */
export type ScriptContract = {
  readonly name: string;
  /** The last key may be a list: `names...`. */
  readonly keys: readonly string[];
  /** `name`, `name:int`, `name:int?` (null = none), `name:flag`, `name:json`. */
  readonly args?: readonly string[];
  /** Names of the arguments in each row of a call. */
  readonly each?: readonly string[];
  /**
   * The calls already combine requests (CallBatcher), so each is sent at once instead of waiting for a shared pipeline.
   */
  readonly batched?: boolean;
  readonly replies: Readonly<Record<string, Decoder>>;
};

export function defineScript<const Contract extends ScriptContract>(contract: Contract): Contract {
  return contract;
}

type NameOf<Declared extends string> = Declared extends `${infer Name}...` | `${infer Name}:${string}`
  ? Name
  : Declared;
type ValueOf<Declared extends string> = Declared extends `${string}:int?`
  ? number | null
  : Declared extends `${string}:int`
    ? number
    : Declared extends `${string}:flag`
      ? boolean
      : Declared extends `${string}:json`
        ? object
        : string | number;
type Values<Declared extends string> = { readonly [One in Declared as NameOf<One>]: ValueOf<One> };
type Keys<Declared extends string> = {
  readonly [One in Declared as NameOf<One>]: One extends `${string}...` ? readonly string[] : string;
};

/** Input of a call: `keys`, and `args` and `each` if the contract declares them. */
export type CallOf<Contract extends ScriptContract> = {
  readonly keys: Keys<Contract['keys'][number]>;
} & (Contract extends {
  args: readonly (infer Declared extends string)[];
}
  ? { readonly args: Values<Declared> }
  : unknown) &
  (Contract extends { each: readonly (infer Declared extends string)[] }
    ? { readonly each: readonly Values<Declared>[] }
    : unknown);

/** The closed union of a script's outcomes; `kind` is the first word of the reply. */
export type OutcomeOf<Contract extends ScriptContract> = {
  [Kind in keyof Contract['replies'] & string]: { kind: Kind } & ReturnType<Contract['replies'][Kind]>;
}[keyof Contract['replies'] & string];

/** Outcomes for callers of SaleStore, which handles `archived` by recalling the user. */
export type Decided<Contract extends ScriptContract> = Exclude<OutcomeOf<Contract>, { kind: 'archived' }>;

/** An outcome without the appended entries, which the store keeps (UnpersistedPromises). */
export type WithoutEntries<Outcome> = Outcome extends { entries: readonly string[] }
  ? Omit<Outcome, 'entries'>
  : Outcome;
