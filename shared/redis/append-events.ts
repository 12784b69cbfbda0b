import { count } from './reply-fields.js';
import { defineScript } from './script-contract.js';

export const appendEventsScript = defineScript({
  name: 'append_events',
  keys: ['events'],
  args: ['after', 'length'],
  each: ['number', 'id', 'type', 'subject', 'event'],
  replies: {
    appended: (f) => ({ count: count(f, 0) }),
    elsewhere: (f) => ({ last: count(f, 0) }),
  },
});
