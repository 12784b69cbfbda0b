import { Buffer } from 'node:buffer';
import type { Request, Response } from 'express';
import { LIMITS } from '../../shared/config/limits.js';
import type { ErrorCode, Problem } from '../../shared/errors/catalogue.js';
import type { Log } from '../../shared/observability/log.js';
import { problemDocument } from './problem.js';
import { requestIdOf, retryAfter, sendText } from './respond.js';

/**
 * A refusal that many requests share: all of it but the request id, the wait and the quota fields is made in advance.
 */
export type FastReject = {
  code: ErrorCode;
  status: number;
  /** The parts of the problem document before and after the request id. */
  before: string;
  after: string;
  bytes: number;
};

const MARK = 'doorbuster-id';
/** Maximum number of request ids in one aggregated log line. */
const IDS_PER_LINE = 200;
const LINE_EVERY_MS = 250;

export function fastReject(problem: Problem): FastReject {
  const [before = '', after = ''] = problemDocument(problem, MARK).split(MARK);
  const bytes = Buffer.byteLength(before) + Buffer.byteLength(after);
  return { code: problem.code, status: problem.status, before, after, bytes };
}

/** Sends a refusal without logging it. @param fields flat list of names and values */
export function sendFastReject(req: Request, res: Response, refusal: FastReject, fields: readonly string[] = []): void {
  const id = req.requestId ?? requestIdOf(req);
  // A request id contains only ASCII characters, so its length is its number of bytes.
  const length = String(refusal.bytes + id.length);
  const type = ['Content-Type', 'application/problem+json', 'Content-Length', length, 'X-Request-Id', id];
  sendText(res, refusal.status, [...type, ...fields], refusal.before + id + refusal.after);
}

/**
 * Rejects banned and limited callers with as little work as Node allows: no middleware and no new document. One log
 * line covers many refusals and lists their request ids, so that each `instance` can be found.
 */
export class FastRejects {
  readonly #ids = new Map<ErrorCode, string[]>();
  #timer: NodeJS.Timeout | null = null;

  constructor(readonly log: Log) {}

  /** @param waitSeconds value of `Retry-After` before jitter; null = no such field */
  reject(
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
    // Node discards a small unread body. For a large one, or one of unknown length, the connection is closed.
    if (isLongBody(req)) headers.push('Connection', 'close');
    sendFastReject(req, res, refusal, headers);
  }

  /** Writes the log lines that are still being collected. */
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
    req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > LIMITS.http.bodyBytes
  );
}
