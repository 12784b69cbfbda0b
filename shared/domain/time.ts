/** Milliseconds since 1970 as an RFC 3339 time in UTC; 0 means none. */
export function timeOrNull(ms: number): string | null {
  return ms === 0 ? null : new Date(ms).toISOString();
}
