import type { Request, Response } from 'express';
import { Problem, type ProblemExtras } from '../../shared/errors/catalogue.js';
import { sendCacheable, sendHead, sendJson } from './respond.js';
import type { DataOf, MembersOf, RefusalOf, Route, RouteContract, StatusOf } from './route.js';

declare const encoded: unique symbol;
/** The JSON text of a response, made by `Call.encode`. */
export type Encoded = string & { readonly [encoded]: true };

/** One request to a route, and the only ways to respond to it: those of the contract. */
export class Call<Contract extends RouteContract = RouteContract> {
  constructor(
    readonly req: Request,
    readonly res: Response,
  ) {}

  /**
   * Sends a success: `{"data": …}`.
   * @param headers flat list of names and values
   * @param members beside `data`
   */
  reply<Status extends StatusOf<Contract>>(
    status: Status,
    data: DataOf<Contract, Status>,
    headers: readonly string[] = [],
    members?: MembersOf<Contract, Status>,
  ): void {
    this.replyEncoded(status, this.encode(status, data, members), headers);
  }

  /** Returns the JSON text of a success, for a handler that stores it before sending. */
  encode<Status extends StatusOf<Contract>>(
    _status: Status,
    data: DataOf<Contract, Status>,
    members?: MembersOf<Contract, Status>,
  ): Encoded {
    return JSON.stringify(members === undefined ? { data } : Object.assign({ data }, members)) as Encoded;
  }

  /** Sends a text that `encode` returned for this status. @param headers flat list of names and values */
  replyEncoded(status: StatusOf<Contract>, text: Encoded, headers: readonly string[] = []): void {
    sendJson(this.req, this.res, status, text, headers);
  }

  /** Does the same with `Cache-Control` instead of `no-store`. @param headers flat list of names and values */
  replyCacheable<Status extends StatusOf<Contract>>(
    status: Status,
    data: DataOf<Contract, Status>,
    cacheControl: string,
    headers: readonly string[],
  ): void {
    const fields = ['X-Request-Id', this.req.requestId, ...headers];
    sendCacheable(this.res, status, fields, this.encode(status, data), cacheControl);
  }

  /**
   * Sends the head of a response without a body or with a body that is not JSON.
   * @param fields flat list of the names and values of all fields
   */
  begin(status: StatusOf<Contract>, fields: readonly string[]): void {
    sendHead(this.res, status, fields);
  }

  /** Returns a problem with a code of the contract, for the handler to throw. */
  refusal<Code extends RefusalOf<Contract>>(problem: Problem<Code>): Problem<Code>;
  refusal<Code extends RefusalOf<Contract>>(code: Code, detail: string, extras?: ProblemExtras): Problem<Code>;
  refusal<Code extends RefusalOf<Contract>>(
    codeOrProblem: Code | Problem<Code>,
    detail = '',
    extras: ProblemExtras = {},
  ): Problem<Code> {
    return codeOrProblem instanceof Problem ? codeOrProblem : new Problem(codeOrProblem, detail, extras);
  }
}

/**
 * Defines a route whose handler can only reply with a status and data of the contract, and only refuse with its codes.
 * A problem that deeper code throws is compared with the contract when it is sent: a breach fails in tests and is
 * logged in production (api/http/problem.ts).
 */
export function defineRoute<const Contract extends RouteContract>(
  contract: Contract,
  handle: (call: Call<Contract>) => Promise<void> | void,
): Route {
  return { contract, handle: (req, res) => handle(new Call<Contract>(req, res)) };
}
