import { z } from 'zod';
import { EXTERNAL_ID_PATTERN } from '../../shared/domain/ids.js';

/** Field types that more than one route takes. */
export const externalId = z
  .string()
  .regex(EXTERNAL_ID_PATTERN, 'must have 1 to 128 characters of A-Z a-z 0-9 . _ : @ -');

/** Free text that goes into a record: no control characters, bounded. */
export const note = z
  .string()
  .max(256, 'must have at most 256 characters')
  .regex(/^[^\p{Cc}]*$/u, 'must not have control characters')
  .refine((text) => text.isWellFormed(), 'must be Unicode text');

const YEAR_10000_MS = 253_402_300_800_000;
export const isoTime = z.iso
  .datetime({ offset: true, message: 'must be an RFC 3339 time' })
  .refine((text) => !(Date.parse(text) <= 0 || Date.parse(text) >= YEAR_10000_MS), 'must lie between 1970 and 9999');

/** Nesting of free-form JSON; more is no term that a person wrote. */
const MAX_DEPTH = 32;
/** A JSON object that is kept as it came, so it must be one that Postgres can keep. */
export const jsonObject = z
  .record(z.string(), z.unknown())
  .refine((value) => isStorable(value, 0), 'must have Unicode texts without NUL, finite numbers, and little nesting');

function isStorable(value: unknown, depth: number): boolean {
  if (typeof value === 'string') return value.isWellFormed() && !value.includes('\0');
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || value === null) return true;
  if (depth >= MAX_DEPTH) return false;
  return Object.entries(value).every(([name, part]) => isStorable(name, depth) && isStorable(part, depth + 1));
}
