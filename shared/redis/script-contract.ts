type Decoder = (fields: readonly string[]) => object;

/**
 * One Lua script as TypeScript sees it: what goes in, and every reply that may come back. Names are those of the script's
 * header, in its notation and order; a test compares both.
 */
export type ScriptContract = {
  readonly name: string;
  /** The last one may be a list: `names...`. */
  readonly keys: readonly string[];
  /** `name`, `name:int`, `name:int?` (null = none), `name:flag`, `name:json`. */
  readonly args?: readonly string[];
  /** Names of what a call has for each of its rows. */
  readonly each?: readonly string[];
  /** Calls combine the requests of a moment (CallBatcher), so each is sent at once instead of waiting for others to share a pipeline. */
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

/** What a call passes to a script: `keys`, and what the contract declares of `args` and `each`. */
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

/** The closed union of what a script may answer; `kind` is the first word of the reply. */
export type OutcomeOf<Contract extends ScriptContract> = {
  [Kind in keyof Contract['replies'] & string]: { kind: Kind } & ReturnType<Contract['replies'][Kind]>;
}[keyof Contract['replies'] & string];

/** The same for a caller: who left with an archived campaign has been recalled by then (SaleStore). */
export type Decided<Contract extends ScriptContract> = Exclude<OutcomeOf<Contract>, { kind: 'archived' }>;

/** The same without the appended entries, which the store keeps (UnpersistedPromises). */
export type WithoutEntries<Outcome> = Outcome extends { entries: readonly string[] }
  ? Omit<Outcome, 'entries'>
  : Outcome;
