import { Buffer } from 'node:buffer';
import type { Request, Response } from 'express';
import { LIMITS } from '../../shared/config/limits.js';
import type { ErrorCode, Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import { problemDocument } from './problem.js';
import { requestIdOf, retryAfter, sendText } from './respond.js';

/** A refusal that is the same for many requests: everything but the id, the wait and the fields of a quota is made before. */
export type FastReject = {
  code: ErrorCode;
  status: number;
  /** Of the document, around the request's id. */
  before: string;
  after: string;
  bytes: number;
};

const MARK = 'doorbuster-id';
/** Of an aggregated line; then the next one begins. */
const IDS_PER_LINE = 200;
const LINE_EVERY_MS = 250;

export function fastReject(problem: Problem): FastReject {
  const [before = '', after = ''] = problemDocument(problem, MARK).split(MARK);
  const bytes = Buffer.byteLength(before) + Buffer.byteLength(after);
  return { code: problem.code, status: problem.status, before, after, bytes };
}

/** Sends a refusal that is in no log, with the fields of every response. @param fields flat list of names and values */
export function sendFastReject(req: Request, res: Response, refusal: FastReject, fields: readonly string[] = []): void {
  const id = req.requestId ?? requestIdOf(req);
  // An id has no character of more than one byte.
  const length = String(refusal.bytes + id.length);
  const type = ['Content-Type', 'application/problem+json', 'Content-Length', length, 'X-Request-Id', id];
  sendText(res, refusal.status, [...type, ...fields], refusal.before + id + refusal.after);
}

/**
 * Answers those who are known to be kept out with as little work as Node allows: no stack of handlers, no document made anew,
 * and one line of the log for many, with all their ids, so that each `instance` is found again.
 */
export class FastRejects {
  readonly #ids = new Map<ErrorCode, string[]>();
  #timer: NodeJS.Timeout | null = null;

  constructor(readonly log: Log) {}

  /** @param waitSeconds when it may be tried again, before jitter; null = nobody knows */
  answer(
    req: Request,
    res: Response,
    refusal: FastReject,
    waitSeconds: number | null,
    fields: readonly string[] = [],
  ): void {
    req.requestId ??= requestIdOf(req);
    req.logged = true;
    this.#note(refusal.code, req.requestId);
    const headers = [...fields];
    if (waitSeconds !== null) headers.push('Retry-After', retryAfter(waitSeconds));
    // A body that was not read is thrown away by Node when it is small; for a larger one, or one of unknown length, nobody waits.
    if (isLongBody(req)) headers.push('Connection', 'close');
    sendFastReject(req, res, refusal, headers);
  }

  /** Writes what waits for its line. */
  flush(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
    for (const code of [...this.#ids.keys()]) this.#write(code);
  }

  #note(code: ErrorCode, id: string): void {
    const ids = this.#ids.get(code) ?? [];
    this.#ids.set(code, ids);
    ids.push(id);
    if (ids.length >= IDS_PER_LINE) this.#write(code);
    else this.#timer ??= setTimeout(() => this.flush(), LINE_EVERY_MS);
  }

  #write(code: ErrorCode): void {
    const ids = this.#ids.get(code);
    this.#ids.delete(code);
    if (ids) this.log.info({ code, requests: ids.length, request_ids: ids.join(' ') }, 'refused');
  }
}

function isLongBody(req: Request): boolean {
  return (
    req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > LIMITS.bodyBytes
  );
}
