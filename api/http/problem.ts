import type { Request, Response } from 'express';
import { ERRORS, type ErrorCode, Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { retryAfter, sendJson } from './respond.js';
import { errorsOf } from './route.js';

/** Seconds after which a request that met an outage may come again. */
const OUTAGE_RETRY_SECONDS = 1;

/** RFC 9110: a 401 names what is to be sent. */
const SCHEMES: Partial<Record<ErrorCode, string>> = {
  unauthorized: 'Bearer',
  ticket_invalid: 'Ticket',
  attestation_invalid: 'Attestation',
  attestation_expired: 'Attestation',
  token_invalid: 'OneTimeToken',
};

/** The one place where an error becomes an answer. Whatever is no Problem is ours: logged whole, told as nothing. */
export class ProblemEdge {
  /** Route and code of refusals that no contract has. */
  readonly #undeclared = new Set<string>();

  constructor(
    readonly log: Log,
    readonly metrics: Metrics,
  ) {}

  answer(error: unknown, req: Request, res: Response): void {
    const problem = this.#asProblem(error, req);
    if (res.headersSent) {
      // The answer is under way; cutting it off is the only honest thing left.
      res.destroy();
      return;
    }
    if (!req.logged) {
      const { requestId: request_id, method, routePath: route } = req;
      this.log.info({ request_id, method, route: route || 'none', code: problem.code }, 'refused');
    }
    this.#logUndeclared(problem, req);
    const headers: string[] = [];
    for (const [name, value] of Object.entries(problem.extras.headers ?? {})) headers.push(name, value);
    const scheme = SCHEMES[problem.code];
    if (scheme && problem.extras.headers?.['WWW-Authenticate'] === undefined)
      headers.push('WWW-Authenticate', `${scheme} realm="doorbuster"`);
    if (problem.extras.retryAfterSeconds !== undefined)
      headers.push('Retry-After', retryAfter(problem.extras.retryAfterSeconds));
    sendJson(req, res, problem.status, problemDocument(problem, req.requestId), headers, 'application/problem+json');
  }

  /** Logs a refusal that the contract of its route does not have, the first time that this process sends it. */
  #logUndeclared({ code }: Problem, { contract, routePath: route, method }: Request): void {
    if (!contract || code === 'method_not_allowed' || errorsOf(contract).includes(code)) return;
    const undeclared = `${method} ${route} ${code}`;
    if (this.#undeclared.has(undeclared)) return;
    this.#undeclared.add(undeclared);
    this.log.error({ method, route, code }, 'a refusal is not in the contract of its route');
  }

  #asProblem(error: unknown, req: Request): Problem {
    if (error instanceof Problem) return error;
    if (error instanceof EngineUnavailable) {
      this.metrics.engineErrors.inc({ engine: error.engine });
      req.logged = true;
      this.log.info({ request_id: req.requestId, engine: error.engine, reason: error.message }, 'an engine is away');
      return unavailable();
    }
    // Express refuses malformed paths with a status of its own.
    if (error instanceof URIError) return new Problem('invalid_request', 'The path is not valid percent-encoding.');
    req.logged = true;
    this.log.error({ err: error, request_id: req.requestId, path: req.path }, 'a request failed');
    return new Problem('internal_error', 'The request failed; it can be found in the log by its instance.');
  }
}

export function unavailable(): Problem<'temporarily_unavailable'> {
  return new Problem('temporarily_unavailable', 'Please repeat the request with the same idempotency key.', {
    retryAfterSeconds: OUTAGE_RETRY_SECONDS,
  });
}

/** RFC 9457, with our `code`. */
export function problemDocument(problem: Problem, requestId: string): string {
  const { title, status } = ERRORS[problem.code];
  return JSON.stringify({
    type: `https://doorbuster.dev/errors/${problem.code}`,
    title,
    status,
    detail: problem.detail,
    instance: `urn:doorbuster:request:${requestId}`,
    code: problem.code,
    ...problem.extras.members,
  });
}
