/** What this browser remembers of its visitor. */
export const remembered = rememberedItems();

function rememberedItems(): Pick<Storage, 'getItem' | 'setItem'> {
  try {
    localStorage.setItem('doorbuster', '1');
    return localStorage;
  } catch {
    return { getItem: () => null, setItem: () => {} };
  }
}

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
