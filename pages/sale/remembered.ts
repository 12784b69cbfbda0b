import { FirstStore } from '../../client/attempt.js';

/** The state of this page in the history of the tab. It survives a reload where the browser forbids every store. */
const historyItems = {
  getItem: (name: string): string | null => history.state?.[name] ?? null,
  setItem: (name: string, value: string | null) => history.replaceState({ ...history.state, [name]: value }, ''),
  removeItem(name: string): void {
    if (this.getItem(name) !== null) this.setItem(name, null);
  },
};

/** What this browser remembers of its visitor. */
export const remembered = new FirstStore('localStorage', 'sessionStorage', historyItems);
/** What this tab alone remembers. */
export const rememberedInTab = new FirstStore('sessionStorage', historyItems);

/**
 * The user id in the shop's link. A visitor without one is a guest, with the same id each time. This proves nothing to
 * the server.
 */
export function namedUser(): string {
  const given = new URL(location.href).searchParams.get('user_id');
  if (given) return given;
  const kept = remembered.getItem('doorbuster|guest');
  if (kept) return kept;
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  const made = `guest-${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
  remembered.setItem('doorbuster|guest', made);
  return made;
}
