import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, type Redis } from 'ioredis';
import { ContractError, EngineUnavailable } from '../errors/faults.js';
import { type RedisGate, staleReply } from './gate.js';

type Decoder = (fields: readonly string[]) => object;

/** One Lua script as TypeScript sees it: what goes in, and every reply that may come back. Compared with its header. */
export type ScriptContract<
  Keys extends readonly string[],
  Args extends readonly string[],
  Replies extends Record<string, Decoder>,
> = {
  name: string;
  keys: Keys;
  args: Args;
  /** Script takes any number of further arguments of the last kind. */
  variadic?: boolean;
  /** Script takes any number of further keys of the last kind. */
  variadicKeys?: boolean;
  /** Calls combine the requests of a moment (CallBatcher), so each is sent at once instead of waiting for others to share a pipeline. */
  batched?: boolean;
  replies: Replies;
};

type AnyContract = ScriptContract<readonly string[], readonly string[], Record<string, Decoder>>;

/** The closed union of what a script may answer; `kind` is the first word of the reply. */
export type OutcomeOf<Contract extends AnyContract> = {
  [Kind in keyof Contract['replies'] & string]: { kind: Kind } & ReturnType<Contract['replies'][Kind]>;
}[keyof Contract['replies'] & string];

/** The same for a caller: who left with an archived campaign has been recalled by then (SaleStore). */
export type Decided<Contract extends AnyContract> = Exclude<OutcomeOf<Contract>, { kind: 'archived' }>;

/** The same without the appended entries, which the store keeps (UnpersistedPromises). */
export type WithoutEntries<Outcome> = Outcome extends { entries: readonly string[] }
  ? Omit<Outcome, 'entries'>
  : Outcome;

export function defineScript<
  const Keys extends readonly string[],
  const Args extends readonly string[],
  Replies extends Record<string, Decoder>,
>(contract: ScriptContract<Keys, Args, Replies>): ScriptContract<Keys, Args, Replies> {
  return contract;
}

/** Reads <folder>/<name>.lua and puts its `--#include` files in place of the lines that name them. */
export function scriptSource(folder: string, name: string): string {
  const source = readFileSync(join(folder, `${name}.lua`), 'utf8');
  return source.replace(/^--#include (\w+)$/gm, (_line, part: string) =>
    readFileSync(join(folder, 'includes', `${part}.lua`), 'utf8'),
  );
}

/** Runs scripts by their digest and sends the source again whenever Redis has forgotten it (SCRIPT FLUSH, restart). */
export class ScriptRunner {
  readonly #loaded = new Map<string, { source: string; sha: string }>();

  constructor(
    readonly redis: Redis,
    readonly luaFolder: string,
    /** Refuses calls while Redis is not the one we know; null for those who fill it. */
    readonly gate: RedisGate | null = null,
  ) {}

  /**
   * @throws EngineUnavailable when Redis is away, too slow or refuses to write; what the script did is then unknown
   * @throws ContractError when the reply is none that the contract names
   */
  run<Contract extends AnyContract>(
    contract: Contract,
    keyNames: readonly string[],
    args: readonly (string | number)[],
  ): Promise<OutcomeOf<Contract>> {
    const script = this.#script(contract.name);
    // One promise for the whole way, since every checkout takes it.
    return new Promise((resolve, reject) => {
      this.gate?.assertOpen();
      const generation = this.gate?.generation;
      const watched = this.gate?.watch(reject);
      const values = [script.sha, keyNames.length, ...keyNames, ...args] as const;
      // ioredis would keep the call until the end of the next turn of the event loop.
      const sent = contract.batched
        ? (this.redis.sendCommand(new Command('evalsha', [...values], { replyEncoding: 'utf8' })) as Promise<unknown>)
        : this.redis.evalsha(...values);
      sent.then(
        (reply) => {
          if (watched) watched.settled = true;
          try {
            if (this.gate?.generation !== generation) throw staleReply(`script ${contract.name}`);
            resolve(this.#outcome(contract, reply));
          } catch (error) {
            reject(error);
          }
        },
        (error: unknown) => {
          if (watched) watched.settled = true;
          if (!isNoScript(error)) reject(asFault(contract.name, error));
          else
            this.#sendSource(contract.name, script.source, keyNames, args)
              .then((reply) => resolve(this.#outcome(contract, reply)))
              .catch(reject);
        },
      );
    });
  }

  /** @throws ContractError */
  #outcome<Contract extends AnyContract>(contract: Contract, reply: unknown): OutcomeOf<Contract> {
    const kind = Array.isArray(reply) ? String(reply[0]) : '';
    if (kind === 'rebuilding') this.gate?.distrust('Redis is empty or being filled');
    const decode = contract.replies[kind];
    if (!decode) throw new ContractError(`script ${contract.name} replied ${JSON.stringify(reply)}`);
    const outcome = decode((reply as string[]).slice(1)) as { kind: string };
    outcome.kind = kind;
    return outcome as OutcomeOf<Contract>;
  }

  /** Makes every script known to Redis; readiness asks for it, correctness does not. */
  async load(names: readonly string[]): Promise<void> {
    for (const name of names) await this.redis.script('LOAD', this.#script(name).source);
  }

  async #sendSource(
    name: string,
    source: string,
    keyNames: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> {
    const send = () => this.redis.eval(source, keyNames.length, ...keyNames, ...args);
    try {
      return await (this.gate ? this.gate.guard(send) : send());
    } catch (error) {
      throw error instanceof EngineUnavailable ? error : asFault(name, error);
    }
  }

  #script(name: string): { source: string; sha: string } {
    let script = this.#loaded.get(name);
    if (!script) {
      const source = scriptSource(this.luaFolder, name);
      script = { source, sha: createHash('sha1').update(source).digest('hex') };
      this.#loaded.set(name, script);
    }
    return script;
  }
}

function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

/** A script that failed inside is a broken invariant; everything else means that Redis cannot be used now. */
function asFault(name: string, error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error);
  if (/^ERR .*(script|user_script)/i.test(message)) return new ContractError(`script ${name} failed: ${message}`);
  return new EngineUnavailable('redis', `script ${name}: ${message}`, { cause: error });
}
