import { fenced } from '../../redis/reply-fields.js';
import { defineScript, type OutcomeOf } from '../../redis/script-contract.js';

export const beginFillScript = defineScript({
  name: 'begin_fill',
  keys: ['filler', 'epoch', 'format'],
  args: ['token', 'format'],
  replies: { begun: () => ({}) },
});

export const fillScript = defineScript({
  name: 'fill',
  keys: ['filler', 'epoch', 'filled_keys...'],
  args: ['token', 'action'],
  each: ['value'],
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
  args: ['expected', 'next_epoch', 'last_id'],
  replies: { begun: () => ({}), changed: () => ({}) },
});
export type BeginHistoryOutcome = OutcomeOf<typeof beginHistoryScript>;

export const keepInstallationScript = defineScript({
  name: 'keep_installation',
  keys: ['installation'],
  args: ['shards', 'version:int'],
  replies: { kept: () => ({}) },
});
