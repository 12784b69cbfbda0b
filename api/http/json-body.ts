import { isUtf8 } from 'node:buffer';
import type { Request } from 'express';
import { z } from 'zod';
import { LIMITS } from '../../shared/config/limits.js';
import { Problem } from '../../shared/errors/catalogue.js';
import { validate } from './validate.js';

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;
const OTHER_CHARSET = /;\s*charset\s*=(?!\s*"?utf-?8"?\s*(?:;|$))/i;

/**
 * Reads the body as one JSON value. It replaces `express.json` on the hot path, which costs as much as a whole checkout
 * should (docs/decisions/0005-http-edge.md).
 * @throws Problem 415 not JSON, 413 too large, 400 malformed or truncated JSON
 */
export function readJson(req: Request): Promise<unknown> {
  if (req.bodyRead !== undefined) return Promise.resolve(req.bodyRead.value);
  const type = req.headers['content-type'];
  if (type === undefined || !JSON_TYPE.test(type) || OTHER_CHARSET.test(type)) {
    return refuse(req, new Problem('unsupported_media_type', 'The body must be application/json in UTF-8.'));
  }
  if (req.headers['content-encoding'] !== undefined && req.headers['content-encoding'] !== 'identity') {
    return refuse(req, new Problem('unsupported_media_type', 'The body must not be compressed.'));
  }
  // NaN if there is no Content-Length; `end` then marks the end of the body.
  const announced = Number(req.headers['content-length']);
  if (announced > LIMITS.http.bodyBytes) return refuse(req, tooLarge());
  // The client disconnected while the request waited for its turn.
  if (req.destroyed) return Promise.reject(cutOff());
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const finish = () => {
      try {
        const body = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
        if (!isUtf8(body)) throw new SyntaxError('not UTF-8');
        resolve(JSON.parse(body.toString('utf8')));
      } catch {
        reject(new Problem('invalid_json', 'The body could not be parsed.'));
      }
    };
    req.on('data', (chunk: Buffer) => {
      length += chunk.length;
      if (length > LIMITS.http.bodyBytes) {
        reject(drained(req, tooLarge()));
        return;
      }
      chunks.push(chunk);
      if (length === announced) finish();
    });
    if (!(announced > 0)) req.on('end', finish);
    // Node also emits `error` when the connection closes before the whole body has arrived.
    req.on('error', () => reject(cutOff()));
  });
}

/**
 * Accepts a request without a body or with an empty object, and rejects one with fields.
 * @throws Problem 400, 413, 415
 */
export async function requireNoFields(req: Request): Promise<void> {
  const hasBody = req.headers['transfer-encoding'] !== undefined || Number(req.headers['content-length'] ?? 0) > 0;
  if (hasBody) validate(NO_FIELDS, await readJson(req));
}
const NO_FIELDS = z.strictObject({});

function cutOff(): Problem {
  return new Problem('invalid_json', 'The body ended early.');
}

function tooLarge(): Problem {
  return new Problem('body_too_large', `The body exceeds ${LIMITS.http.bodyBytes} bytes.`, {
    headers: { Connection: 'close' },
  });
}

function refuse(req: Request, problem: Problem): Promise<never> {
  return Promise.reject(drained(req, problem));
}

/** Discards the rest of the body, so that the client can read the response before the connection closes. */
function drained(req: Request, problem: Problem): Problem {
  req.removeAllListeners('data');
  req.resume();
  return problem;
}
