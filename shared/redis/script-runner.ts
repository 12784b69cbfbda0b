import { Command, type Redis } from 'ioredis';
import type { ProductId } from '../domain/ids.js';
import { ContractError, EngineUnavailable } from '../errors/faults.js';
import { type RedisGate, staleReply } from './gate.js';
import { productOfKey } from './keys.js';
import type { CallOf, OutcomeOf, ScriptContract } from './script-contract.js';
import { inOrder, type LoadedScript, loadScript, withOrigins } from './script-source.js';

type CommandOptions = ConstructorParameters<typeof Command>[2] & object;

/** Runs scripts by their digest, and sends the source if Redis does not have it (SCRIPT FLUSH, restart). */
export class ScriptRunner {
  readonly #loaded = new Map<string, LoadedScript>();
  /** Options of a command that is not sent through a method of the connection. */
  readonly #batched: CommandOptions;

  constructor(
    readonly redis: Redis,
    readonly luaFolder: string,
    /** Refuses calls while Redis is not verified; null = no check, for workers that fill Redis. */
    readonly gate: RedisGate | null = null,
    /** Throw if what this shard lacks may be in another one; null = no check. */
    readonly places: { assertNowhere(product: ProductId): void; assertDivided(product: ProductId): void } | null = null,
  ) {
    const { keyPrefix } = redis.options;
    this.#batched = { replyEncoding: 'utf8', ...(keyPrefix ? { keyPrefix } : {}) };
  }

  /**
   * Runs a script.
   * @param call keys and arguments by the names of the contract; the header of the script defines their order
   * @throws EngineUnavailable if Redis is unavailable, too slow or rejects writes; the effect of the script is then
   * unknown
   * @throws ContractError if the contract does not declare the reply
   */
  run<Contract extends ScriptContract>(contract: Contract, call: CallOf<Contract>): Promise<OutcomeOf<Contract>> {
    // Uses a single promise, because every checkout takes this path.
    return new Promise((resolve, reject) => {
      const script = this.#script(contract.name);
      const { keyNames, args } = inOrder(script, call);
      this.gate?.assertOpen();
      const generation = this.gate?.generation;
      const watched = this.gate?.watch(reject);
      const values = [script.sha, keyNames.length, ...keyNames, ...args] as const;
      // `evalsha` of ioredis would delay the call until the end of the next turn of the event loop.
      const sent = contract.batched
        ? (this.redis.sendCommand(new Command('evalsha', [...values], this.#batched)) as Promise<unknown>)
        : this.redis.evalsha(...values);
      sent.then(
        (reply) => {
          if (watched) watched.settled = true;
          try {
            if (this.gate?.generation !== generation) throw staleReply(`script ${contract.name}`);
            resolve(this.#outcome(contract, reply, call));
          } catch (error) {
            reject(error);
          }
        },
        (error: unknown) => {
          if (watched) watched.settled = true;
          if (!isNoScript(error)) reject(this.#asFault(contract.name, error));
          else
            this.#sendSource(contract.name, script.source, keyNames, args)
              .then((reply) => resolve(this.#outcome(contract, reply, call)))
              .catch(reject);
        },
      );
    });
  }

  /** @throws ContractError */
  #outcome<Contract extends ScriptContract>(
    contract: Contract,
    reply: unknown,
    { keys }: CallOf<Contract>,
  ): OutcomeOf<Contract> {
    const kind = Array.isArray(reply) ? String(reply[0]) : '';
    if (kind === 'rebuilding') this.gate?.distrust('Redis is empty or being filled');
    // The campaign is missing in this shard (includes/campaign.lua).
    if (kind === 'not_found' && (reply as unknown[])[1] === 'campaign') this.places?.assertNowhere(campaignOf(keys));
    const decode = contract.replies[kind];
    if (!decode) throw new ContractError(`script ${contract.name} replied ${JSON.stringify(reply)}`);
    const outcome = decode((reply as string[]).slice(1)) as { kind: string; isBucket?: boolean };
    outcome.kind = kind;
    // What the user has may be in another bucket.
    if (outcome.isBucket) this.places?.assertDivided(campaignOf(keys));
    return outcome as OutcomeOf<Contract>;
  }

  /** Loads scripts into Redis, with one round trip. Readiness requires it; `run` works without it. */
  async load(names: readonly string[]): Promise<void> {
    await Promise.all(names.map((name) => this.redis.script('LOAD', this.#script(name).source)));
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
      throw error instanceof EngineUnavailable ? error : this.#asFault(name, error);
    }
  }

  /** Adds the file and the line of the cause to a reply that is an error; other replies stay as they are. */
  located<Reply>(name: string, reply: Reply | ContractError): Reply | ContractError {
    return reply instanceof ContractError ? new ContractError(withOrigins(this.#script(name), reply.message)) : reply;
  }

  /** Converts an error: a failed script is a broken invariant, any other error means that Redis is unavailable. */
  #asFault(name: string, error: unknown): Error {
    const message = error instanceof Error ? error.message : String(error);
    if (/^ERR .*(script|user_script)/i.test(message)) {
      return new ContractError(`script ${name} failed: ${withOrigins(this.#script(name), message)}`);
    }
    return new EngineUnavailable('redis', `script ${name}: ${message}`, { cause: error });
  }

  #script(name: string): LoadedScript {
    let script = this.#loaded.get(name);
    if (!script) {
      script = loadScript(this.luaFolder, name);
      this.#loaded.set(name, script);
    }
    return script;
  }
}

/** The campaign of a call with the key `campaign`. */
const campaignOf = (keys: unknown): ProductId => productOfKey((keys as { campaign: string }).campaign);

function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}
