import { defineScript, type OutcomeOf } from '../script-runner.js';
import { fenced } from './reply-fields.js';

/** Keys of one call of `fill` beside the filler and the epoch. */
export const MAX_FILLED_KEYS = 1_000;

export const beginFillScript = defineScript({
  name: 'begin_fill',
  keys: ['filler', 'epoch'],
  args: ['token'],
  replies: { begun: () => ({}) },
});

export const fillScript = defineScript({
  name: 'fill',
  keys: ['filler', 'epoch', 'key'],
  variadicKeys: true,
  args: ['token', 'action', 'data'],
  variadic: true,
  replies: { filled: () => ({}), fenced },
});

export const endFillScript = defineScript({
  name: 'end_fill',
  keys: ['filler', 'epoch'],
  args: ['token', 'epoch'],
  replies: { ended: () => ({}), fenced },
});

export const beginHistoryScript = defineScript({
  name: 'begin_history',
  keys: ['epoch', 'filler', 'journal'],
  args: ['expected', 'next', 'last_id'],
  replies: { begun: () => ({}), changed: () => ({}) },
});
export type BeginHistoryOutcome = OutcomeOf<typeof beginHistoryScript>;
