import { FirstStore } from '../../client/attempt.js';

/** What this tab remembers. A browser that forbids its store forgets the items with the page. */
export const rememberedInTab = new FirstStore('sessionStorage');
