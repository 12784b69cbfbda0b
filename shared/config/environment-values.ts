import { createSecretKey, type KeyObject } from 'node:crypto';
import { isIP } from 'node:net';
import { z } from 'zod';
import { parseRedisUrl, type RedisTarget } from '../redis/redis-target.js';

/** A named secret of an operator or a service. */
export type ApiKey = { name: string; secret: string };
/**
 * A signing key with its id. The first key of a list signs, all keys verify. `key` is a key object, because Node 24
 * needs 15 µs more for each HMAC whose key is a Buffer.
 */
export type SigningKey = { id: string; key: KeyObject };

export const MIN_SIGNING_BYTES = 32;
const MIN_SECRET_CHARACTERS = 16;

export const integer = (minimum: number, maximum: number) =>
  z
    .string()
    .regex(/^\d+$/, 'must be a whole number')
    .transform(Number)
    .refine((n) => n >= minimum && n <= maximum, `must be from ${minimum} to ${maximum}`);

export const url = (protocols: readonly string[]) =>
  z.string().refine(
    (value) => {
      try {
        return protocols.includes(new URL(value).protocol);
      } catch {
        return false;
      }
    },
    `must be a URL starting with ${protocols.map((p) => `${p}//`).join(' or ')}`,
  );

export const redisUrl = z.string().transform((value, context): RedisTarget => {
  const parsed = parseRedisUrl(value);
  if ('target' in parsed) return parsed.target;
  context.addIssue({ code: 'custom', message: parsed.problem });
  return z.NEVER;
});

/** A page of the same origin, in the form of a content security policy. */
export const SELF = "'self'";

const originList = (isOrigin: (text: string) => boolean) =>
  z.string().transform((value, context): string[] =>
    value.split(',').map((entry) => {
      const origin = entry.trim();
      if (!isOrigin(origin))
        context.addIssue({
          code: 'custom',
          message: `must be origins like https://shop.example, in lower case and without a path; \`${origin}\` is none`,
        });
      return origin;
    }),
  );

const isWebOrigin = (text: string) =>
  /^https?:[^*]*$/.test(text) && URL.canParse(text) && new URL(text).origin === text;
// `URL` has no origin for schemes other than http and https, which the pages of apps use.
const isOrigin = (text: string) =>
  /^https?:/.test(text) ? isWebOrigin(text) : /^[a-z][a-z0-9+.-]*:\/\/[a-z0-9.-]+(:\d+)?$/.test(text);

export const origins = originList(isOrigin);
export const frameAncestors = originList((text) => text === SELF || text === 'self' || isOrigin(text));
export const pictureOrigins = originList((text) => text.startsWith('https:') && isWebOrigin(text));

const isNetwork = (text: string): boolean => {
  const [address = '', bits, ...rest] = text.split('/');
  const written = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0;
  return written > 0 && rest.length === 0 && /^\d{1,3}$/.test(bits ?? '0') && Number(bits ?? written) <= written;
};

export const networks = z.string().transform((value, context): string[] =>
  value.split(',').map((entry) => {
    const network = entry.trim();
    if (!isNetwork(network))
      context.addIssue({
        code: 'custom',
        message: `must be addresses or networks like 203.0.113.0/24, comma-separated; \`${network}\` is none`,
      });
    return network;
  }),
);

export const apiKeys = z.string().transform((value, context): ApiKey[] =>
  value.split(',').map((entry) => {
    const [, name, secret] = /^\s*([A-Za-z0-9_.-]+):(\S+)\s*$/.exec(entry) ?? [];
    if (!name || !secret) context.addIssue({ code: 'custom', message: 'must be name:secret, comma-separated' });
    else if (secret.length < MIN_SECRET_CHARACTERS)
      context.addIssue({
        code: 'custom',
        message: `secret of ${name} must have at least ${MIN_SECRET_CHARACTERS} characters`,
      });
    return { name: name ?? '', secret: secret ?? '' };
  }),
);

export const signingKeys = z.string().transform((value, context): SigningKey[] => {
  const keys = value.split(',').map((entry) => {
    const [, id, encoded] = /^\s*([A-Za-z0-9_-]{1,16}):([A-Za-z0-9+/_-]+=*)\s*$/.exec(entry) ?? [];
    const bytes = Buffer.from(encoded ?? '', 'base64');
    if (!id) context.addIssue({ code: 'custom', message: 'must be kid:base64, comma-separated' });
    else if (bytes.length < MIN_SIGNING_BYTES)
      context.addIssue({ code: 'custom', message: `key ${id} must have at least ${MIN_SIGNING_BYTES} bytes` });
    return { id: id ?? '', key: createSecretKey(bytes) };
  });
  if (new Set(keys.map(({ id }) => id)).size !== keys.length)
    context.addIssue({ code: 'custom', message: 'must not name a key id twice' });
  return keys;
});
