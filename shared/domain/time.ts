/** Milliseconds since 1970 as an RFC 3339 time in UTC; 0 means none. */
export function timeOrNull(ms: number): string | null {
  return ms === 0 ? null : isoTime(ms);
}

/** As `toISOString`. Most times that a process tells lie within the same second, which is written out once. */
export function isoTime(ms: number): string {
  if (ms < 0) return new Date(ms).toISOString();
  const fraction = ms % 1000;
  if (ms - fraction !== secondMs) {
    secondMs = ms - fraction;
    second = new Date(secondMs).toISOString().slice(0, -4);
  }
  return `${second}${fraction < 10 ? '00' : fraction < 100 ? '0' : ''}${fraction}Z`;
}
let secondMs = Number.NaN;
let second = '';
