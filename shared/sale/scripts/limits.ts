import { count } from '../../redis/reply-fields.js';
import { defineScript } from '../../redis/script-contract.js';

export const takeTokenScript = defineScript({
  name: 'take_token',
  keys: ['bucket'],
  args: ['capacity:int', 'interval_us:int', 'gives_back:flag'],
  replies: {
    taken: (f) => ({ left: count(f, 0), fullMs: count(f, 1) }),
    empty: (f) => ({ waitMs: count(f, 0) }),
  },
});
