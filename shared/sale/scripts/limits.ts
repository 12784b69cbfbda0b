import { count, reply } from '../../redis/reply-fields.js';
import { defineScript } from '../../redis/script-contract.js';

export const takeTokenScript = defineScript({
  name: 'take_token',
  keys: ['bucket'],
  args: ['capacity:int', 'interval_us:int', 'gives_back:flag'],
  replies: {
    taken: reply({ left: count, fullMs: count }),
    empty: reply({ waitMs: count }),
  },
});
