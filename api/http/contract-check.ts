import type { IncomingMessage } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import { ERRORS, type ErrorCode } from '../../shared/errors/catalogue.js';
import { PROBLEM_TYPE } from './problem-schema.js';
import { type Inspector, inspectResponses, type Outgoing } from './respond.js';
import { type Answer, errorsOf, HEADERS_OF_ERRORS, RESPONSE_HEADERS, type RouteContract } from './route.js';

/**
 * Compares every response with the contract of its route. Replaces a response that differs by 500 `internal_error`,
 * with the difference as `breach`. Tests switch it on; the comparison costs as much as a small request.
 * @param report receives each breach
 */
export function checkResponses(report: (breach: string) => void): void {
  const inspect: Inspector = (req, response) => {
    const breach = breachOf(req.contract ?? null, response);
    if (breach === null) return null;
    const where = `${req.method} ${req.url} ${response.status}: ${breach}`;
    report(where);
    return internalError(req, response, where);
  };
  inspectResponses(inspect);
}

/** @param contract null = no route matched the request @returns the first breach; null = none */
export function breachOf(contract: RouteContract | null, { status, fields, text }: Outgoing): string | null {
  const headers = headersIn(fields);
  const type = headers.get('content-type')?.split(';')[0];
  if (!headers.has('x-request-id')) return 'X-Request-Id is missing';
  if (type === PROBLEM_TYPE && status >= 400) return problemBreach(contract, status, headers, JSON.parse(String(text)));
  if (!contract) return null;
  const answer = contract.answers[status];
  if (!answer) return 'the contract has no such status';
  const wrongFields = headersBreach(answer, headers);
  if (wrongFields !== null) return wrongFields;
  // A file is streamed, so that its content is not here.
  if (text === null && answer.file)
    return type === 'application/json' ? null : `the contract has no body of type ${type}`;
  if (text === null || type !== 'application/json') {
    const isText = type === undefined ? !answer.data : answer.contentTypes?.includes(type);
    return isText ? null : `the contract has no body of type ${type}`;
  }
  const { data, ...members } = JSON.parse(text) as Record<string, unknown>;
  if (!answer.data) return 'the contract has no data';
  return dataBreach(answer.data, data, '#/data') ?? membersBreach(answer, members);
}

function problemBreach(
  contract: RouteContract | null,
  status: number,
  headers: ReadonlyMap<string, string>,
  document: { code: ErrorCode; status: number; original_status?: number; data?: unknown },
): string | null {
  const { code } = document;
  if (ERRORS[code]?.status !== status || document.status !== status) return `\`${code}\` has another status`;
  const wrongFields = missing(HEADERS_OF_ERRORS[status], headers);
  if (wrongFields !== null) return wrongFields;
  if (!contract) return null;
  // 405 belongs to the path, not to one of its routes.
  if (code !== 'method_not_allowed' && !errorsOf(contract).includes(code)) return `the contract has no \`${code}\``;
  if (code !== 'duplicate_request') return null;
  const first = contract.answers[document.original_status ?? 0];
  return first?.data ? dataBreach(first.data, document.data, '#/data') : 'the contract has no such original_status';
}

/** Requires every field that the contract declares, and rejects documented fields that it does not declare. */
function headersBreach(answer: Answer, headers: ReadonlyMap<string, string>): string | null {
  const declared = new Set([...(answer.headers ?? []), ...(answer.optionalHeaders ?? []), 'X-Request-Id']);
  for (const name of Object.keys(RESPONSE_HEADERS))
    if (headers.has(name.toLowerCase()) && !declared.has(name)) return `the contract has no field ${name}`;
  return missing(answer, headers);
}

function missing(answer: Pick<Answer, 'headers'> | undefined, headers: ReadonlyMap<string, string>): string | null {
  const name = answer?.headers?.find((each) => !headers.has(each.toLowerCase()));
  return name === undefined ? null : `${name} is missing`;
}

function membersBreach({ members: schema }: Answer, members: Record<string, unknown>): string | null {
  if (schema) return dataBreach(schema, members, '#');
  const [unknown] = Object.keys(members);
  return unknown === undefined ? null : `#/${unknown} is not in the contract`;
}

/** Compares the parsed data with the sent data, because a schema ignores unknown names. */
function dataBreach(schema: z.ZodType, data: unknown, pointer: string): string | null {
  const parsed = schema.safeParse(data);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return `${[pointer, ...(issue?.path ?? [])].join('/')}: ${issue?.message}`;
  }
  return firstUnknown(data, parsed.data, pointer);
}

function firstUnknown(sent: unknown, read: unknown, pointer: string): string | null {
  if (isDeepStrictEqual(sent, read)) return null;
  if (typeof sent !== 'object' || typeof read !== 'object' || sent === null || read === null)
    return `${pointer} differs from what the contract reads`;
  for (const [name, value] of Object.entries(sent)) {
    if (!Object.hasOwn(read, name)) return `${pointer}/${name} is not in the contract`;
    const inside = firstUnknown(value, (read as Record<string, unknown>)[name], `${pointer}/${name}`);
    if (inside !== null) return inside;
  }
  return `${pointer} lacks what the contract reads`;
}

function headersIn(fields: readonly string[]): Map<string, string> {
  const headers = new Map<string, string>();
  for (let i = 0; i + 1 < fields.length; i += 2) headers.set(String(fields[i]).toLowerCase(), String(fields[i + 1]));
  return headers;
}

function internalError(req: IncomingMessage, { fields }: Outgoing, breach: string): Outgoing & { text: string } {
  const id = req.requestId ?? headersIn(fields).get('x-request-id') ?? 'none';
  const { status, title } = ERRORS.internal_error;
  const type = 'https://doorbuster.dev/errors/internal_error';
  const instance = `urn:doorbuster:request:${id}`;
  const detail = 'The response does not match the contract of its route.';
  const text = JSON.stringify({ type, title, status, detail, instance, code: 'internal_error', breach });
  const head = ['Content-Type', PROBLEM_TYPE, 'Content-Length', String(Buffer.byteLength(text))];
  return { status, fields: [...head, 'X-Request-Id', id], text };
}
