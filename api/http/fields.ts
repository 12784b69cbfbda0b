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
  .regex(/^[^\p{Cc}]*$/u, 'must not have control characters');

export const isoTime = z.iso.datetime({ offset: true, message: 'must be an RFC 3339 time' });
