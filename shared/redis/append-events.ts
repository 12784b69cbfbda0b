import { count, reply } from './reply-fields.js';
import { defineScript } from './script-contract.js';

export const appendEventsScript = defineScript({
  name: 'append_events',
  keys: ['events'],
  args: ['after', 'length'],
  each: ['number', 'id', 'type', 'subject', 'event'],
  replies: {
    appended: reply({ count }),
    elsewhere: reply({ last: count }),
  },
});
