import { defineScript } from '../script-runner.js';
import { count } from './reply-fields.js';

export const appendEventsScript = defineScript({
  name: 'append_events',
  keys: ['events'],
  args: ['after', 'length', 'word'],
  variadic: true,
  replies: {
    appended: (f) => ({ count: count(f, 0) }),
    elsewhere: (f) => ({ last: count(f, 0) }),
  },
});
