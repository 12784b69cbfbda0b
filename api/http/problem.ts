import type { Request, Response } from 'express';
import { ERRORS, type ErrorCode, type FieldError, Problem } from '../../shared/errors/catalogue.js';
import { EngineUnavailable } from '../../shared/errors/faults.js';
import type { Log } from '../../shared/observability/log.js';
import type { Metrics } from '../../shared/observability/metrics.js';
import { retryAfter, sendJson } from './respond.js';
import { errorsOf } from './route.js';

/** `Retry-After` of a response to an outage, before jitter. */
const OUTAGE_RETRY_SECONDS = 1;

/** Challenges for `WWW-Authenticate`, which RFC 9110 requires in a 401. */
const SCHEMES: Partial<Record<ErrorCode, string>> = {
  unauthorized: 'Bearer',
  ticket_invalid: 'Ticket',
  attestation_invalid: 'Attestation',
  attestation_expired: 'Attestation',
  token_invalid: 'OneTimeToken',
  signature_invalid: 'Signature',
};

/**
 * The one place that turns an error into a response. An error that is neither a `Problem` nor an outage is a bug: it is
 * logged in full and reported as `internal_error`.
 */
export class ProblemEdge {
  /** Routes and codes of logged refusals that their contracts lack. */
  readonly #undeclared = new Set<string>();

  constructor(
    readonly log: Log,
    readonly metrics: Metrics,
  ) {}

  respond(error: unknown, req: Request, res: Response): void {
    const problem = this.#asProblem(error, req);
    if (res.headersSent) {
      // The head is already sent. Closing the connection tells the client that the response is incomplete.
      res.destroy();
      return;
    }
    if (!req.logged) {
      const { requestId: request_id, method, routePath: route } = req;
      this.log.info(
        { request_id, method, route: route || 'none', code: problem.code, ...invalidNames(problem) },
        'refused',
      );
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

  /** Logs a refusal that the contract of its route lacks, once per process. */
  #logUndeclared({ code }: Problem, { contract, routePath: route, method }: Request): void {
    if (!contract || code === 'method_not_allowed' || errorsOf(contract).includes(code)) return;
    const undeclared = `${method} ${route} ${code}`;
    if (this.#undeclared.has(undeclared)) return;
    this.#undeclared.add(undeclared);
    this.log.error({ method, route, code }, 'refusal missing from the contract of its route');
  }

  #asProblem(error: unknown, req: Request): Problem {
    if (error instanceof Problem) return error;
    if (error instanceof EngineUnavailable) {
      this.metrics.engineErrors.inc({ engine: error.engine });
      req.logged = true;
      this.log.info(
        { request_id: req.requestId, engine: error.engine, reason: error.message },
        'datastore unavailable',
      );
      return unavailable();
    }
    // Express throws this for a malformed path.
    if (error instanceof URIError) return new Problem('invalid_request', 'The path contains invalid percent-encoding.');
    req.logged = true;
    this.log.error({ err: error, request_id: req.requestId, path: req.path }, 'request failed');
    return new Problem(
      'internal_error',
      'The request failed because of a bug. The server log has the details under `instance`.',
    );
  }
}

/** Parts of a pointer that are logged: an index, or a name of lower-case letters, as most fields have. */
const LOGGED_PART = /^(?:\d{1,3}|[a-z][a-z_]{0,39})$/;
const MAX_LOGGED_FIELDS = 10;
const MAX_LOGGED_PARTS = 8;

/**
 * Returns the pointers of the invalid fields for the log, never their values. Clients choose the names of unknown
 * fields and the keys of records, so a part that does not look like a name of this API (an address, a number, a token,
 * a line break) is replaced by `…`.
 */
function invalidNames({ extras }: Problem): { fields?: string[] } {
  const errors = (extras.members as { errors?: readonly FieldError[] } | undefined)?.errors;
  if (!errors || errors.length === 0) return {};
  const logged = ({ pointer }: FieldError): string => {
    const parts = pointer.split('/', MAX_LOGGED_PARTS).slice(1);
    return `#${parts.map((part) => `/${LOGGED_PART.test(part) ? part : '…'}`).join('')}`;
  };
  return { fields: errors.slice(0, MAX_LOGGED_FIELDS).map(logged) };
}

export function unavailable(): Problem<'temporarily_unavailable'> {
  return new Problem('temporarily_unavailable', 'Retry the request with the same idempotency key.', {
    retryAfterSeconds: OUTAGE_RETRY_SECONDS,
  });
}

/** Returns the problem document (RFC 9457) as JSON, with `code` as an extension. */
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
